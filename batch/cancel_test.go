package batch_test

import (
	"errors"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// TestCancelCutShort: a process that stops between the seal of a run and that of the
// children it delegated to leaves no child that waits for ever. Recovery finishes the
// cancel, and so does asking for it again.
func TestCancelCutShort(t *testing.T) {
	for name, finish := range map[string]func(*testing.T, *batch.Engine){
		"recovery": func(t *testing.T, e *batch.Engine) {
			if _, err := e.Recover(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"asked again": func(t *testing.T, e *batch.Engine) {
			if _, err := e.Cancel(t.Context(), "r", "carol", ""); !errors.Is(err, batch.ErrCancelled) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gate = func(q *batch.Query) (*batch.Decision, error) {
				if q.Call.Tool == "once" {
					return confirm(batch.Confirmation{})(q)
				}
				return allow(), nil
			}
			e, _ := w.delegating(true)
			w.submit(e, "r", `spawn ["once"]`, `spawn ["once"]`)
			sealed := false
			w.store = storetest.NewFaulty(w.mem, func(op storetest.Op) storetest.Fault {
				if sealed {
					return storetest.FaultCrashBefore
				}
				sealed = op.Commit != nil && op.Commit.Run.ID == "r"
				return storetest.FaultNone
			})
			e, _ = w.delegating(true)
			if _, err := e.Cancel(t.Context(), "r", "bob", "enough"); !errors.Is(err, storetest.ErrInjected) {
				t.Errorf("Cancel: %v", err)
			}
			w.store = w.mem
			e, _ = w.delegating(true)
			finish(t, e)
			for i := range 2 {
				r, err := w.store.Run(t.Context(), batch.ChildRunID(batch.NewOperationID("r", 1, i)))
				if err != nil || r.Cancelled == nil || r.Cancelled.By != "bob" || r.OpenStep != 0 {
					t.Errorf("child %+v, %v", r, err)
				}
			}
			if ts, _ := w.store.Tickets(t.Context(), batch.TicketFilter{Open: true}); len(ts) != 0 {
				t.Errorf("open tickets %v", ts)
			}
			if len(w.order) != 0 {
				t.Errorf("ran %v", w.order)
			}
		})
	}
}
