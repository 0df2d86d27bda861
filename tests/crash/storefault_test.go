package main

import (
	"errors"
	"log/slog"
	"slices"
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
	runs := slices.DeleteFunc(scene(), func(x run) bool { return x.id == "brain" }) // seven times the same store calls
	play := func(plan storetest.Plan) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			mem := storetest.NewMemory()
			faulty := storetest.NewFaulty(mem, plan)
			p := newTroupe(t, config, faulty, runs)
			p.check.faults = 1 // a delegation is tried again when its child meets the fault
			h := p.host()
			p.play(mem, func() *host.Host { return h })
			p.look(mem, true)
			calls, _ = faulty.Calls()
		})
		return calls
	}
	calls := play(nil)
	if calls < 300 {
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
	ids := []batch.RunID{"a", "b", "c", "d"}
	// Each run is left executing by a process that stopped.
	start := func(plan storetest.Plan) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			mem := storetest.NewMemory()
			p := newTroupe(t, config, mem, nil)
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
			if done < len(ids)-1 && !(hit && done == 0) || done < len(ids) && !hit {
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
