package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/kube"
)

func TestStartFails(t *testing.T) {
	c := cluster(t)
	nobody := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nusers: [{name: a, user: {}}]\n"
	if err := os.WriteFile(nobody, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := c.Image[:strings.Index(c.Image, "@")] + "@sha256:" + strings.Repeat("0", 64)
	for _, f := range []struct {
		name   string
		change func(*kube.Options)
		reason sandbox.Reason
		says   string
	}{
		{"image missing", func(o *kube.Options) { o.Image = missing }, sandbox.ReasonImage, "ErrImagePull"},
		{"image missing, never pulled", func(o *kube.Options) { o.Image, o.PullPolicy = missing, "Never" }, sandbox.ReasonImage, "ErrImageNeverPull"},
		{"image of the Hand missing", func(o *kube.Options) { o.HandImage = missing }, sandbox.ReasonImage, "copy-hand"},
		{"image not pinned", func(o *kube.Options) { o.Image = "busybox:latest" }, sandbox.ReasonDigest, "by digest"},
		{"no Hand", func(o *kube.Options) { o.HandImage = "" }, sandbox.ReasonTool, "no such file"},
		{"no node", func(o *kube.Options) {
			o.NodeSelector, o.StartTimeout = map[string]string{"awaken.host/nowhere": "x"}, 3*time.Second
		}, sandbox.ReasonStart, "didn't match Pod's node affinity/selector"},
		{"no namespace", func(o *kube.Options) { o.Namespace = "awaken-nowhere" }, sandbox.ReasonStart, `namespaces "awaken-nowhere" not found`},
		{"no runtime class", func(o *kube.Options) { o.RuntimeClass = "nothing" }, sandbox.ReasonDenied, `"nothing" not found`},
		{"no such context", func(o *kube.Options) { o.Context = "nothing" }, sandbox.ReasonTool, "nothing"},
		{"cluster down", func(o *kube.Options) { o.Kubeconfig, o.StartTimeout = nobody, 2*time.Second }, sandbox.ReasonEngine, "refused"},
		{"no cluster", func(o *kube.Options) { o.Kubeconfig = "" }, sandbox.ReasonTool, "does not run in one"},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			o := c.options()
			f.change(&o)
			spec := newSpec()
			inst, err := kube.New(o).Start(t.Context(), spec)
			if err == nil {
				stop(t, inst)
				t.Fatal("it started")
			}
			if sandbox.ReasonOf(err) != f.reason || !strings.Contains(err.Error(), f.says) {
				t.Errorf("reason %q, want %q and %q in: %v", sandbox.ReasonOf(err), f.reason, f.says, err)
			}
			left, err := kube.New(c.options()).Leftovers(t.Context(), spec.Labels.Host)
			if err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}

// in runs a command in the Hand's container as the administrator.
func (r *real) in(ctx context.Context, spec *sandbox.Spec, argv ...string) (string, error) {
	url := r.admin.CoreV1().RESTClient().Post().Namespace(r.Namespace).Resource("pods").Name("awaken-"+spec.ID).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "hand", Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	e, err := remotecommand.NewWebSocketExecutor(r.config, "GET", url.String())
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer // each has a goroutine that writes to it
	err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &said})
	return said.String() + out.String(), err
}

// TestEnds: each way in which a Pod ends under its Hand has its own reason.
func TestEnds(t *testing.T) {
	c := cluster(t)
	tier := kube.New(c.options())
	for _, e := range []struct {
		name   string
		harm   func(ctx context.Context, spec *sandbox.Spec, hand int) error
		reason sandbox.Reason
		says   string
	}{
		{"the Hand is killed", func(ctx context.Context, spec *sandbox.Spec, hand int) error {
			_, err := c.in(ctx, spec, "kill", "-9", fmt.Sprint(hand))
			return err
		}, sandbox.ReasonKilled, "exit status 137"},
		{"out of memory", func(ctx context.Context, spec *sandbox.Spec, hand int) error {
			// The kernel takes the largest process; the Hand goes down with it.
			_, err := c.in(ctx, spec, "sh", "-c", fmt.Sprintf("tail /dev/zero; kill -9 %d", hand))
			return err
		}, sandbox.ReasonMemory, "for memory"},
		{"the Pod is deleted", func(ctx context.Context, spec *sandbox.Spec, _ int) error {
			return c.admin.CoreV1().Pods(c.Namespace).Delete(ctx, "awaken-"+spec.ID, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
		}, sandbox.ReasonKilled, "deleted"},
		{"the Pod is evicted", func(ctx context.Context, spec *sandbox.Spec, _ int) error {
			return c.admin.CoreV1().Pods(c.Namespace).EvictV1(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Name: "awaken-" + spec.ID, Namespace: c.Namespace},
			})
		}, sandbox.ReasonEvicted, "EvictionByEvictionAPI"},
		{"the workspace is full", func(ctx context.Context, spec *sandbox.Spec, _ int) error {
			_, err := c.in(ctx, spec, "sh", "-c", "dd if=/dev/zero of=/workspace/big bs=1M count=80")
			return err
		}, sandbox.ReasonEvicted, "exceeds the limit"},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			spec := newSpec()
			inst := start(t, tier, spec)
			_, welcome := greet(t, inst, spec)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if err := e.harm(ctx, spec, welcome.PID); err != nil && e.reason != sandbox.ReasonMemory {
				t.Fatal(err)
			}
			select {
			case <-inst.Done():
			case <-ctx.Done():
				t.Fatal("it has not ended")
			}
			err := inst.Ended(ctx)
			if sandbox.ReasonOf(err) != e.reason || !strings.Contains(err.Error(), e.says) {
				t.Errorf("reason %q, want %q and %q in: %v", sandbox.ReasonOf(err), e.reason, e.says, err)
			}
		})
	}
}
