package policy

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestBench(t *testing.T) {
	o := options(t, everyOutcome)
	c := candidate(t, o)
	qs := []*Question{
		toolOf(t, o, query("save", `{"path":"plain"}`)),
		toolOf(t, o, query("save", `{"path":"fail"}`)), // what fails is measured too
	}
	r, err := c.Bench(context.Background(), qs, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Questions != 2 || r.Gate.N < 2 || r.Gate.N != r.Bare.N || r.Ratio <= 0 || r.Revision != c.Revision() {
		t.Errorf("%+v", r)
	}
	for name, k := range map[string]Cost{"gate": r.Gate, "rego": r.Bare} {
		if k.P50 <= 0 || k.P99 < k.P50 || k.Mean <= 0 || k.Allocs <= 0 || k.Bytes < k.Allocs {
			t.Errorf("%s: %+v", name, k)
		}
	}
	if _, err := c.Bench(context.Background(), nil, time.Second); err == nil {
		t.Error("nothing was measured")
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	if _, err := c.Bench(ctx, qs, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestCost(t *testing.T) {
	var times []time.Duration
	for i := 200; i > 0; i-- {
		times = append(times, time.Duration(i))
	}
	if got := cost(times); got.N != 200 || got.P50 != 101 || got.P99 != 199 || got.Mean != 100 {
		t.Errorf("%+v", got)
	}
	if got := cost([]time.Duration{7}); got.P50 != 7 || got.P99 != 7 || got.Mean != 7 {
		t.Errorf("%+v", got)
	}
}
