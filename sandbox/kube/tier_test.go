package kube_test

import (
	"testing"
	"time"

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
	begin := time.Now()
	inst := start(t, tier, spec)
	t.Logf("started in %v", time.Since(begin))
	ch, welcome := greet(t, inst, spec)
	t.Logf("greeted in %v: %+v", time.Since(begin), welcome)
	var inside sandbox.Properties
	ask(t, ch, sandbox.MethodProbe, struct{}{}, &inside)
	e, err := inst.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sandbox.PropertyNames {
		t.Logf("%s: outside %+v inside %+v", name, e.Properties[name], inside[name])
	}
	t.Logf("%+v", e)
	left, err := tier.Leftovers(t.Context(), spec.Labels.Host)
	if err != nil || len(left) != 1 || left[0].Labels != spec.Labels {
		t.Fatalf("%v %v", left, err)
	}
	begin = time.Now()
	stop(t, inst)
	t.Logf("stopped in %v", time.Since(begin))
	if _, err := c.admin.CoreV1().Pods(c.Namespace).Get(t.Context(), "awaken-"+spec.ID, metav1.GetOptions{}); err == nil {
		t.Error("still there")
	}
}
