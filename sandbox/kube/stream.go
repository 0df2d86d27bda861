package kube

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// streams are what a command in a Pod reads and writes.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// executor runs a command in a container of a Pod, and returns when it has ended or
// ctx has. An error that has an ExitStatus is the command's own.
type executor interface {
	run(ctx context.Context, namespace, pod, container string, argv []string, s streams) error
}

// remote is the executor of a real cluster.
type remote struct {
	config *rest.Config
	core   rest.Interface
}

func (r remote) run(ctx context.Context, namespace, pod, container string, argv []string, s streams) error {
	url := r.core.Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: argv, Stdin: s.stdin != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	spdy, err := remotecommand.NewSPDYExecutor(r.config, "POST", url)
	if err != nil {
		return fmt.Errorf("exec over SPDY: %w", err)
	}
	socket, err := remotecommand.NewWebSocketExecutor(r.config, "GET", url.String())
	if err != nil {
		return fmt.Errorf("exec over WebSocket: %w", err)
	}
	both, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	return both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr})
}
