package kube_test

import (
	"strings"
	"testing"

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
	left, err := tier.Leftovers(t.Context(), spec.Labels.Host)
	if err != nil || len(left) != 1 || left[0].Labels != spec.Labels {
		t.Fatalf("%v %v", left, err)
	}
	stop(t, inst)
	if _, err := c.admin.CoreV1().Pods(c.Namespace).Get(t.Context(), "awaken-"+spec.ID, metav1.GetOptions{}); err == nil {
		t.Error("the Pod is still there")
	}
}
