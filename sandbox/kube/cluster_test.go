package kube_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/kube"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// real is the cluster of the tests, with an administrator's client.
type real struct {
	*sandboxtest.KubeCluster
	config *rest.Config
	admin  kubernetes.Interface
	hand   string // image
}

func cluster(t testing.TB) *real {
	t.Helper()
	r := &real{KubeCluster: sandboxtest.NeedKube(t)}
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r.config = config
	if r.admin, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	r.hand = sandboxtest.HandImage(t)
	return r
}

func (r *real) options() kube.Options {
	return kube.Options{Kubeconfig: r.Kubeconfig, Namespace: r.Namespace, Image: r.Image, HandImage: r.hand, StartTimeout: time.Minute}
}

// newSpec is an Environment of a host of its own.
func newSpec() *sandbox.Spec {
	id := "t-" + strings.ToLower(rand.Text()[:10])
	return &sandbox.Spec{
		ID: id, Network: sandbox.NetworkNone,
		Labels: sandbox.Labels{Host: "host-" + id, Owner: "owner-" + id, Environment: id, Session: "session/" + id},
		Limits: sandbox.InstanceLimits{MemoryMiB: 128, WorkspaceMiB: 64, TempMiB: 16},
	}
}

// start runs a Pod until the test ends.
func start(t testing.TB, tier *kube.Tier, spec *sandbox.Spec) sandbox.Instance {
	t.Helper()
	inst, err := tier.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, inst) })
	return inst
}

func stop(t testing.TB, inst sandbox.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := inst.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// greet speaks with the Hand of an Instance.
func greet(t testing.TB, inst sandbox.Instance, spec *sandbox.Spec) (*sandbox.Channel, sandbox.Welcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ch, welcome, err := sandbox.Dial(ctx, inst.Channel(), sandbox.Hello{
		Environment: spec.ID, Key: make([]byte, 32), Network: spec.Network, Limits: spec.Limits.WithDefaults(),
	}, sandbox.ChannelOptions{})
	if err != nil {
		t.Fatalf("%v; %v", err, inst.Ended(ctx))
	}
	t.Cleanup(func() { _ = ch.Close() })
	return ch, welcome
}

func ask(t testing.TB, ch *sandbox.Channel, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := ch.Open(ctx, method, params)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := s.Result(result); err != nil {
		t.Fatal(err)
	}
}
