package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

var testWindows = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}

// asking makes the gate ask for recent counts and note what it was told, by run and
// step.
func asking(w *world, answer func(counts []map[batch.ToolID]int) *batch.Decision) map[string]string {
	told := map[string]string{}
	var mu sync.Mutex
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		counts, err := q.Recent(context.Background(), testWindows...)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		told[string(q.Call.Operation())] = fmt.Sprint(counts)
		mu.Unlock()
		return answer(counts), nil
	}
	return told
}

func submitAs(t *testing.T, e *batch.Engine, principal string, run batch.RunID, tools ...batch.ToolID) {
	t.Helper()
	req := &batch.Request{Run: run, Principal: principal}
	for i, tool := range tools {
		req.Calls = append(req.Calls, batch.RequestedCall{ID: batch.CallID(fmt.Sprint("c", i)), Tool: tool, Arguments: []byte(`{}`)})
	}
	if _, err := e.Submit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func TestRecentCountsOverRuns(t *testing.T) {
	w := newWorld(t)
	told := asking(w, func([]map[batch.ToolID]int) *batch.Decision { return allow() })
	check := func(op, want string) {
		t.Helper()
		if told[op] != want {
			t.Errorf("%s was told %s, want %s", op, told[op], want)
		}
	}
	e := w.engine()
	submitAs(t, e, "alice", "r1", "echo", "echo", "once")
	check("r1/1/0", "[map[] map[] map[]]")
	check("r1/1/1", "[map[echo:1] map[echo:1] map[echo:1]]")
	check("r1/1/2", "[map[echo:2] map[echo:2] map[echo:2]]")
	w.pass(59 * time.Second)
	submitAs(t, e, "bob", "r2", "echo")
	check("r2/1/0", "[map[] map[] map[]]")
	submitAs(t, e, "alice", "r3", "echo")
	check("r3/1/0", "[map[echo:2 once:1] map[echo:2 once:1] map[echo:2 once:1]]")
	w.pass(time.Second)
	submitAs(t, e, "alice", "r4", "echo")
	check("r4/1/0", "[map[echo:1] map[echo:3 once:1] map[echo:3 once:1]]")
	submitAs(t, e, "", "r5", "echo")
	submitAs(t, e, "", "r6", "echo")
	check("r6/1/0", "[map[echo:1] map[echo:1] map[echo:1]]")

	// A new process reads the same from the ledger.
	w.pass(2 * time.Hour)
	e = w.engine()
	submitAs(t, e, "alice", "r7", "echo")
	check("r7/1/0", "[map[] map[] map[echo:4 once:1]]")
	if _, err := e.Cancel(t.Context(), "r3", "alice", "not needed"); err != nil {
		t.Fatal(err)
	}
	submitAs(t, w.engine(), "alice", "r8", "echo")
	check("r8/1/0", "[map[echo:1] map[echo:1] map[echo:5 once:1]]")

	w.pass(22*time.Hour + time.Second)
	submitAs(t, e, "alice", "r9", "once")
	check("r9/1/0", "[map[] map[] map[echo:1]]") // e knows r7, and never heard of r8
	submitAs(t, w.engine(), "alice", "r10", "once")
	check("r10/1/0", "[map[once:1] map[once:1] map[echo:2 once:1]]")
}

// Calls that are blocked, answered or wait have not begun; one that did counts after
// its approval.
func TestRecentCountsWhatBegan(t *testing.T) {
	w := newWorld(t)
	outcome := batch.OutcomeBlock
	told := asking(w, func([]map[batch.ToolID]int) *batch.Decision {
		d := &batch.Decision{Outcome: outcome, PolicyRevision: "rev"}
		switch outcome {
		case batch.OutcomeSetResult:
			d.Result = &batch.Result{Content: []batch.ContentBlock{batch.TextBlock("x")}}
		case batch.OutcomeRequireConfirmation:
			d.Confirmation = &batch.Confirmation{Prompt: "?"}
		case batch.OutcomeSchedule:
			d.At = w.now().Add(time.Hour)
		}
		return d
	})
	e := w.engine()
	for i, o := range []batch.Outcome{batch.OutcomeBlock, batch.OutcomeSetResult, batch.OutcomeRequireConfirmation, batch.OutcomeSchedule} {
		w.mu.Lock()
		outcome = o
		w.mu.Unlock()
		submitAs(t, e, "alice", batch.RunID(fmt.Sprint("r", i)), "echo")
	}
	if got := told["r3/1/0"]; got != "[map[] map[] map[]]" {
		t.Errorf("calls that never began count: %s", got)
	}
	outcome = batch.OutcomeAllow
	ts, err := w.store.Tickets(t.Context(), batch.TicketFilter{Run: "r2"})
	if err != nil || len(ts) != 1 {
		t.Fatal(ts, err)
	}
	if _, err := e.Decide(t.Context(), ts[0].ID, batch.TicketAnswer{By: "bob", Approve: true}); err != nil {
		t.Fatal(err)
	}
	submitAs(t, e, "alice", "r9", "echo")
	if got := told["r9/1/0"]; got != "[map[echo:1] map[echo:1] map[echo:1]]" {
		t.Errorf("told %s", got)
	}
}

// However many runs call at once, a limit on the principal holds.
func TestRecentHoldsALimitOverParallelRuns(t *testing.T) {
	w := newWorld(t)
	const limit = 5
	asking(w, func(counts []map[batch.ToolID]int) *batch.Decision {
		if counts[1]["echo"] >= limit {
			return &batch.Decision{Outcome: batch.OutcomeBlock, PolicyRevision: "rev"}
		}
		return allow()
	})
	e := w.engine()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() { submitAs(t, e, "alice", batch.RunID(fmt.Sprint("r", i)), "echo") })
	}
	wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	// A call that is being blocked may take another's place for a moment, so that
	// fewer than the limit can run, never more.
	if n := len(w.order); n == 0 || n > limit {
		t.Errorf("%d calls ran, at most %d may", n, limit)
	}
}

// flakyRuns fails to list runs until told otherwise.
type flakyRuns struct {
	batch.Store
	fail bool
}

func (f *flakyRuns) Runs(ctx context.Context, after batch.RunID, limit int) ([]*batch.Run, error) {
	if f.fail {
		return nil, errors.New("no disk")
	}
	return f.Store.Runs(ctx, after, limit)
}

// A store that cannot be read is an error for whoever asks, and no answer; the next
// one reads again.
func TestRecentFailsAndRecovers(t *testing.T) {
	w := newWorld(t)
	f := &flakyRuns{Store: w.store}
	w.store = f
	var errs []error
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		counts, err := q.Recent(context.Background(), time.Hour)
		errs = append(errs, err)
		if err == nil && counts[0]["echo"] != 1 {
			t.Errorf("told %v", counts)
		}
		return allow(), nil
	}
	f.fail = true
	e := w.engine()
	submitAs(t, e, "alice", "r1", "echo")
	f.fail = false
	submitAs(t, e, "alice", "r2", "echo")
	if len(errs) != 2 || errs[0] == nil || errs[1] != nil {
		t.Errorf("errors: %v", errs)
	}
}

func TestRecentRefusesWindows(t *testing.T) {
	w := newWorld(t)
	for _, window := range []time.Duration{0, -time.Second, batch.RecentHorizon + 1} {
		asked := false
		w.gate = func(q *batch.Query) (*batch.Decision, error) {
			asked = true
			if _, err := q.Recent(context.Background(), window); !errors.Is(err, batch.ErrInvalid) {
				t.Errorf("%v: %v", window, err)
			}
			return allow(), nil
		}
		submitAs(t, w.engine(), "alice", batch.RunID(fmt.Sprint("r", int64(window)+100)), "echo")
		if !asked {
			t.Error("nobody asked")
		}
	}
}
