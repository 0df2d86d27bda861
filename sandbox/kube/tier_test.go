package kube_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/kube"
)

func TestLife(t *testing.T) {
	c := cluster(t)
	tier := kube.New(c.options())
	if err := tier.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec := newSpec()
	spec.Env = []string{"A=$(B) and $c"}
	inst := start(t, tier, spec)
	ch, _ := greet(t, inst, spec)
	var inside sandbox.Properties
	ask(t, ch, sandbox.MethodProbe, struct{}{}, &inside)
	e, err := inst.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(c.Image, "@"+e.Image) {
		t.Errorf("%q runs, and %s was asked for", e.Image, c.Image)
	}
	// Nothing enforces the policy here, and nobody said that something does.
	if f := e.Properties.Merge(inside)[sandbox.PropertyNetwork]; f.State == sandbox.Enforced {
		t.Errorf("the network is said to be closed: %+v", f)
	}
	out, err := c.in(t.Context(), spec, "sh", "-c", "echo $A; cat /etc/resolv.conf; ls /var/run/secrets; id -u")
	if err != nil || !strings.Contains(out, spec.Env[0][2:]+"\n") || strings.Contains(out, "svc") || !strings.HasSuffix(out, "65532\n") {
		t.Errorf("inside: %q, %v", out, err)
	}
	// A copy with all that stands in it but its name, as "kubectl debug --copy-to" makes one.
	pods := c.admin.CoreV1().Pods(c.Namespace)
	pod, err := pods.Get(t.Context(), "awaken-"+spec.ID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs-" + spec.ID, Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       *pod.Spec.DeepCopy(),
	}
	theirs.Spec.NodeName, theirs.Spec.NodeSelector = "", map[string]string{"nobody/has": "it"}
	if _, err := pods.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Delete(context.WithoutCancel(t.Context()), theirs.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Error(err)
		}
	})
	left, err := tier.Leftovers(t.Context(), spec.Labels.Host)
	if err != nil || len(left) != 1 || left[0].Labels != spec.Labels {
		t.Fatalf("%v %v", left, err)
	}
	stop(t, inst)
	if _, err := c.admin.CoreV1().Pods(c.Namespace).Get(t.Context(), "awaken-"+spec.ID, metav1.GetOptions{}); err == nil {
		t.Error("the Pod is still there")
	}
}
