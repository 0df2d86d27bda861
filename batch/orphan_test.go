package batch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// family is a run whose child waits for a grandchild that is confirmed by a person.
func family(t *testing.T) (w *world, e *batch.Engine, child, grandchild batch.RunID) {
	w = newWorld(t)
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		if q.Call.Tool == "once" {
			return confirm(batch.Confirmation{})(q)
		}
		return allow(), nil
	}
	e, _ = w.delegating(false)
	w.submit(e, "r", `spawn ["spawn [\"once\",\"echo\"]"]`)
	child = batch.ChildRunID("r/1/0")
	return w, e, child, batch.ChildRunID(batch.NewOperationID(child, 1, 0))
}

func (w *world) wantCancelled(ids ...batch.RunID) {
	w.t.Helper()
	for _, id := range ids {
		if r, err := w.mem.Run(w.t.Context(), id); err != nil || r.Cancelled == nil || r.OpenStep != 0 {
			w.t.Errorf("%s is %+v, %v; want it cancelled", id, r, err)
		}
	}
}

// TestRecoveryCancelsGrandchildrenToo: a cancel that a crash cut short leaves nothing
// of the family to run, whichever of them recovery comes to first.
func TestRecoveryCancelsGrandchildrenToo(t *testing.T) {
	for range 20 {
		w, _, child, grandchild := family(t)
		w.store = storetest.NewFaulty(w.mem, storetest.FailWhen(func(c *batch.Commit) bool { return c.Run.ID == child }, storetest.FaultCrashBefore))
		e, _ := w.delegating(false)
		if _, err := e.Cancel(t.Context(), "r", "bob", ""); !errors.Is(err, storetest.ErrInjected) {
			t.Fatalf("Cancel: %v", err)
		}
		w.pass(200 * 24 * 3600e9) // the grandchild's ticket is settled, it could go on
		w.store = w.mem
		e, _ = w.delegating(false)
		if _, err := e.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantCancelled("r", child, grandchild)
		if len(w.order) != 0 {
			t.Fatalf("ran %v", w.order)
		}
	}
}

// TestCancelOfAFinishedRunReachesItsChildren: a delegation that was given up may have
// left a child under way.
func TestCancelOfAFinishedRunReachesItsChildren(t *testing.T) {
	w, e, child, grandchild := family(t)
	w.tools["spawn"].d.Digest = "d2"
	if b, err := e.Resume(t.Context(), "r"); err != nil || b.Phase != batch.BatchFinalized {
		t.Fatalf("Resume: %v, %v", b, err)
	}
	if b, err := e.Cancel(t.Context(), "r", "bob", ""); b != nil || err != nil {
		t.Fatalf("Cancel: %v, %v", b, err)
	}
	w.wantCancelled("r", child, grandchild)
}

// TestCancelReachesTheChildrenBeforeTheParentGoesOn: what the parent then runs may
// take long, or be stopped.
func TestCancelReachesTheChildrenBeforeTheParentGoesOn(t *testing.T) {
	w, e, _, _ := family(t)
	child := batch.ChildRunID("s/1/0")
	grandchild := batch.ChildRunID(batch.NewOperationID(child, 1, 0))
	w.submit(e, "s", `spawn ["spawn [\"once\"]"]`, "echo")
	answer := w.tools["echo"].invoke
	w.tools["echo"].invoke = func(ctx context.Context, c *batch.Call) (*batch.Output, error) {
		w.wantCancelled(child, grandchild)
		return answer(ctx, c)
	}
	if _, err := e.Cancel(t.Context(), child, "bob", ""); err != nil {
		t.Fatal(err)
	}
	if len(w.order) != 1 {
		t.Errorf("ran %v", w.order)
	}
}

// TestCancelAgainTellsOfAFailure: whoever asks once more, to reach the children, is
// not told that all is well when it is not.
func TestCancelAgainTellsOfAFailure(t *testing.T) {
	w, _, child, grandchild := family(t)
	broken := func(c *batch.Commit) bool { return c.Run.ID == grandchild }
	for range 2 {
		w.store = storetest.NewFaulty(w.mem, storetest.FailWhen(broken, storetest.FaultBefore))
		e, _ := w.delegating(false)
		if _, err := e.Cancel(t.Context(), "r", "bob", ""); !errors.Is(err, storetest.ErrInjected) {
			t.Errorf("Cancel: %v", err)
		}
	}
	w.store = w.mem
	e, _ := w.delegating(false)
	if _, err := e.Cancel(t.Context(), "r", "bob", ""); !errors.Is(err, batch.ErrCancelled) {
		t.Errorf("Cancel: %v", err)
	}
	w.wantCancelled("r", child, grandchild)
}
