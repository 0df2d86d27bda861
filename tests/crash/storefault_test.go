package main

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
	"github.com/awaken-agents/awaken-host/host"
)

// TestStoreFaultAtEveryCall: each call of the store fails once, before or after it
// took effect, and the process lives on. Whoever asked hears of it at most once and
// asks again; the same host brings everything to its end.
func TestStoreFaultAtEveryCall(t *testing.T) {
	config, _ := newStage(t, "")
	tools := stageTools(t, config)
	// Each way to go once: the whole scene makes the same calls again and again.
	client := call{kind: kindClient, tool: toolClient, args: `{}`, want: batch.AnswerExternal}
	var runs []run
	for _, x := range scene() {
		if x.cancel {
			runs = append(runs, x)
		}
	}
	runs = append(runs,
		run{id: "policy", steps: [][]call{{asked(kindConfirmed, toolOnce, 1, "confirm"), denied(toolOnce)}, {asked(kindScheduled, toolSafe, 2, "later"), client}}},
		run{id: "delegates", steps: [][]call{{delegation(kindDelegated, asked(kindConfirmed, toolSafe, 2, "confirm")), effect(toolOnce, 1, 3)}}},
		run{id: "side-by-side", steps: [][]call{{delegation(kindParallel, effect(toolOnce, 1, 1)), delegation(kindParallel, client)}}},
	)
	play := func(plan storetest.Plan) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			mem := storetest.NewMemory()
			faulty := storetest.NewFaulty(mem, plan)
			p := newTroupe(t, tools, faulty, runs)
			p.check.faults = 1 // a delegation is tried again when its child meets the fault
			h := p.host()
			p.play(mem, func() *host.Host { return h })
			p.look(mem, true)
			if n := p.told.Load(); n > 1 {
				t.Errorf("%d callers were told of one fault", n)
			}
			calls, _ = faulty.Calls()
		})
		return calls
	}
	calls := play(nil)
	t.Logf("%d calls", calls)
	if calls < 100 {
		t.Fatalf("the scene makes %d calls only", calls)
	}
	for _, fault := range []storetest.Fault{storetest.FaultBefore, storetest.FaultAfter} {
		for n := 1; n <= calls; n++ {
			var at storetest.Op
			play(func(op storetest.Op) storetest.Fault {
				if op.N != n {
					return storetest.FaultNone
				}
				at = op
				return fault
			})
			if t.Failed() {
				t.Fatalf("fault %d at call %d of %d, %s", fault, n, calls, at.Method)
			}
		}
	}
}

// TestStoreFaultWhileStarting: a host that meets a fault at any call of its start says
// so, goes on with every run that the fault did not hit, and is none the worse for it.
func TestStoreFaultWhileStarting(t *testing.T) {
	config, _ := newStage(t, "")
	tools := stageTools(t, config)
	ids := []batch.RunID{"a", "b", "c", "d"}
	// Each run is left executing by a process that stopped.
	start := func(plan storetest.Plan) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			mem := storetest.NewMemory()
			p := newTroupe(t, tools, mem, nil)
			p.options.Store = storetest.NewFaulty(mem, storetest.FailWhen(func(c *batch.Commit) bool {
				return c.Batch != nil && c.Batch.Phase == batch.BatchFinalized
			}, storetest.FaultBefore))
			h := p.host()
			for _, id := range ids {
				m, err := host.ParseMessage([]byte(message([]call{effect(toolSafe, 1, 1)})))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := h.Run(t.Context(), host.Request{Run: id, Message: m}); !errors.Is(err, storetest.ErrInjected) {
					t.Fatalf("run %s: %v", id, err)
				}
			}
			faulty := storetest.NewFaulty(mem, plan)
			var log strings.Builder
			p.options.Store, p.options.Logger = faulty, slog.New(slog.NewTextHandler(&log, nil))
			h = p.host()
			err := h.Start(t.Context())
			calls, _ = faulty.Calls()
			time.Sleep(time.Second)
			if cerr := h.Close(); cerr != nil {
				t.Error(cerr)
			}
			if err != nil {
				t.Errorf("Start: %v", err)
			}
			ledger := host.NewLedger(mem)
			done := 0
			for _, id := range ids {
				if r, err := ledger.Batch(t.Context(), id, 1); err == nil && r.Phase == batch.BatchFinalized {
					done++
				}
			}
			// A fault of the listing hits all runs; any other one run at most.
			hit := plan != nil && strings.Contains(log.String(), "injected fault")
			fine := done == len(ids) || hit && (done == 0 || done == len(ids)-1)
			if !fine {
				t.Errorf("%d of %d runs were continued; the log: %s", done, len(ids), log.String())
			}
			h = p.host()
			if err := h.Start(t.Context()); err != nil {
				t.Error(err)
			}
			for _, id := range ids {
				if r, err := h.Batch(t.Context(), id, 1); err != nil || r.Phase != batch.BatchFinalized || r.Results[0].IsError {
					t.Errorf("run %s after the next start: %+v, %v", id, r, err)
				}
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
		return calls
	}
	calls := start(nil)
	for _, fault := range []storetest.Fault{storetest.FaultBefore, storetest.FaultAfter} {
		for n := 1; n <= calls; n++ {
			if start(storetest.FailCall(n, fault)); t.Failed() {
				t.Fatalf("fault %d at call %d of %d", fault, n, calls)
			}
		}
	}
}

// TestStoreFaultInListings: whoever lists gets the error, and the next listing is
// right; removal goes on with the runs that the fault did not hit.
func TestStoreFaultInListings(t *testing.T) {
	config, _ := newStage(t, "")
	tools := stageTools(t, config)
	mem := storetest.NewMemory()
	p := newTroupe(t, tools, mem, nil)
	h := p.host()
	for _, id := range []batch.RunID{"a", "b", "c"} {
		if _, err := submitCalls(t.Context(), h, id, effect(toolOnce, 0, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := submitCalls(t.Context(), h, "waits", asked(kindConfirmed, toolOnce, 1, "confirm")); err != nil {
		t.Fatal(err)
	}
	faulty := storetest.NewFaulty(mem, nil)
	p.options.Store = faulty
	h = p.host()
	for name, list := range map[string]func() (any, error){
		"Runs":     func() (any, error) { return h.Runs(t.Context()) },
		"RunsPage": func() (any, error) { return h.RunsPage(t.Context(), "", 2) },
		"Show":     func() (any, error) { return h.Show(t.Context(), "waits") },
		"Events":   func() (any, error) { return h.Events(t.Context(), "a", 0, 0) },
		"Tickets":  func() (any, error) { return h.Tickets(t.Context(), true) },
		"Batch":    func() (any, error) { return h.Batch(t.Context(), "waits", 1) },
	} {
		faulty.SetPlan(nil)
		want, err := list()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		calls, _ := faulty.Calls()
		for n := 1; n <= calls; n++ {
			faulty.SetPlan(storetest.FailCall(n, storetest.FaultBefore))
			if _, err := list(); !errors.Is(err, storetest.ErrInjected) {
				t.Errorf("%s with a fault at call %d: %v", name, n, err)
			}
			if got, err := list(); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s after a fault at call %d: %+v, %v", name, n, got, err)
			}
		}
	}
	faulty.SetPlan(storetest.FailCommit(1, storetest.FaultBefore))
	r, err := h.Prune(t.Context(), 0, false)
	if !errors.Is(err, storetest.ErrInjected) || len(r.Runs) != 2 {
		t.Errorf("Prune: %+v, %v", r, err)
	}
	if r, err = h.Prune(t.Context(), 0, false); err != nil || len(r.Runs) != 1 {
		t.Errorf("Prune again: %+v, %v", r, err)
	}
	if _, err := h.Show(t.Context(), "waits"); err != nil {
		t.Errorf("the open run: %v", err)
	}
}
