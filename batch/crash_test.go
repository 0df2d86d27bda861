package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// crashWorld has one tool for each way a call can go; a batch of all of them
// passes every commit point of the engine.
func crashWorld(t *testing.T) (*world, *batch.Request) {
	w := newWorld(t)
	w.tool("safe", batch.ReplaySafe, "replay_safe")
	w.tool("count", batch.Idempotent, "idempotent").invoke = stateful(batch.Command{Op: batch.OpIncrement, Key: "n", Value: json.RawMessage("1")})
	flaky := w.tool("flaky", batch.NonRecoverable, batch.NeverReplay)
	flaky.invoke = func(_ context.Context, c *batch.Call) (*batch.Output, error) {
		if c.Attempt == 1 {
			return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "busy"}
		}
		return &batch.Output{}, nil
	}
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		args := string(q.Call.Arguments)
		switch {
		case args == `{"block":1}`:
			return &batch.Decision{Outcome: batch.OutcomeBlock}, nil
		case args == `{"canned":1}`:
			return &batch.Decision{Outcome: batch.OutcomeSetResult, Result: &batch.Result{}}, nil
		case args == `{"confirm":1}` && q.Approval == nil:
			return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{}}, nil
		case args == `{"later":1}` && q.Approval == nil:
			return &batch.Decision{Outcome: batch.OutcomeSchedule, At: q.Now.Add(time.Minute)}, nil
		}
		return allow(), nil
	}
	return w, request("r", 1, "once", `once {"block":1}`, "safe", "count", `count {"confirm":1}`, "flaky", `once {"later":1}`,
		`once {"canned":1}`, "missing", `safe {"confirm":1}`)
}

// settle plays everybody around the host until the batch is published: it submits
// again what was not acknowledged, approves tickets, and lets time pass. Every
// engine call is one that may meet the fault of the plan.
func settle(w *world, req *batch.Request, restart func() *batch.Engine) (*batch.Batch, error) {
	e := restart()
	for range 40 {
		ctx := w.t.Context()
		b, err := e.Submit(ctx, req)
		if err == nil && b.Phase == batch.BatchFinalized {
			return b, nil
		}
		if err == nil {
			ts, terr := w.mem.Tickets(ctx, batch.TicketFilter{Open: true})
			if terr != nil {
				return nil, terr
			}
			for _, t := range ts {
				if t.Kind == batch.TicketPermission {
					_, err = e.Decide(ctx, t.ID, yes("bob"))
				}
			}
			w.pass(2 * time.Minute)
		}
		if err != nil {
			if !errors.Is(err, storetest.ErrInjected) {
				return nil, err
			}
			e = restart()
			if _, err := e.Recover(ctx); err != nil && !errors.Is(err, storetest.ErrInjected) {
				return nil, err
			}
		}
	}
	return nil, errors.New("the batch does not come to an end")
}

// checkSettled holds what must be true of a published batch whatever happened on
// the way.
func checkSettled(w *world, b *batch.Batch) {
	w.t.Helper()
	ctx := w.t.Context()
	for i := range b.Calls {
		c := &b.Calls[i]
		attempts := w.effects[c.Call.Operation()]
		if !c.Pin.Policy.Replays() && c.Call.Tool != "flaky" && len(attempts) > 1 {
			w.t.Errorf("%s (%s) ran %d times", c.Call.Operation(), c.Pin.Policy, len(attempts))
		}
		for j := 1; j < len(attempts); j++ {
			if attempts[j] <= attempts[j-1] {
				w.t.Errorf("%s: attempts %v", c.Call.Operation(), attempts)
			}
		}
		if c.Answer == batch.AnswerTool && len(attempts) == 0 {
			w.t.Errorf("%s has a tool's answer and never ran", c.Call.Operation())
		}
		if c.Phase == batch.PhaseIndeterminate && c.Pin.Policy.Replays() {
			w.t.Errorf("%s could be repeated and is indeterminate: %s", c.Call.Operation(), c.Reason)
		}
	}
	n := 0
	for i := range b.Calls {
		if c := &b.Calls[i]; c.Answer == batch.AnswerTool && !c.Output.IsError {
			n += len(c.Output.State)
		}
	}
	st, err := w.mem.State(ctx, "r")
	if err != nil || string(st["p/n"]) != fmt.Sprint(n) {
		w.t.Errorf("state %s, %v; %d increments are recorded", st["p/n"], err, n)
	}
	evs, err := w.mem.Events(ctx, "r", 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	published := 0
	terminal := map[int]int{}
	for i, ev := range evs {
		if ev.Seq != uint64(i+1) {
			w.t.Errorf("event %d has seq %d", i, ev.Seq)
		}
		switch ev.Kind {
		case batch.EventBatchPublished:
			published++
		case batch.EventCallCompleted, batch.EventCallIndeterminate:
			terminal[ev.Index]++
		}
	}
	if published != 1 {
		w.t.Errorf("published %d times", published)
	}
	for i := range b.Calls {
		if terminal[i] != 1 {
			w.t.Errorf("call %d became terminal %d times", i, terminal[i])
		}
	}
	if ids, err := w.mem.Open(ctx); err != nil || len(ids) != 0 {
		w.t.Errorf("open batches %v, %v", ids, err)
	}
	if ds, err := w.mem.Decisions(ctx, "r"); err != nil || len(ds) != len(b.Calls)+3 {
		w.t.Errorf("%d decision records, %v; want one for each of %d calls and 3 resumes", len(ds), err, len(b.Calls))
	}
}

// TestCrashAtEveryStoreCall kills the process before and after every single call
// of the store, restarts it, and looks at what came of it.
func TestCrashAtEveryStoreCall(t *testing.T) {
	w, req := crashWorld(t)
	probe := storetest.NewFaulty(w.mem, nil)
	w.store = probe
	if _, err := settle(w, req, w.engine); err != nil {
		t.Fatal(err)
	}
	calls, commits := probe.Calls()
	if commits < 20 {
		t.Fatalf("the scenario has %d commits only", commits)
	}
	for _, fault := range []storetest.Fault{storetest.FaultCrashBefore, storetest.FaultCrashAfter} {
		for n := 1; n <= calls; n++ {
			w, req := crashWorld(t)
			plan := storetest.FailCall(n, fault)
			b, err := settle(w, req, func() *batch.Engine {
				w.store = storetest.NewFaulty(w.mem, plan)
				plan = nil // the fault strikes the first process only
				return w.engine()
			})
			if err != nil {
				t.Fatalf("fault %d at call %d: %v", fault, n, err)
			}
			checkSettled(w, b)
			if t.Failed() {
				t.Fatalf("fault %d at call %d of %d", fault, n, calls)
			}
		}
	}
}

// TestCrashTwice crashes once more during recovery from the first crash.
func TestCrashTwice(t *testing.T) {
	for n := 1; n <= 40; n += 3 {
		for m := 1; m <= 12; m++ {
			w, req := crashWorld(t)
			plans := []storetest.Plan{storetest.FailCommit(n, storetest.FaultCrashAfter), storetest.FailCommit(m, storetest.FaultCrashBefore)}
			b, err := settle(w, req, func() *batch.Engine {
				var plan storetest.Plan
				if len(plans) > 0 {
					plan, plans = plans[0], plans[1:]
				}
				w.store = storetest.NewFaulty(w.mem, plan)
				return w.engine()
			})
			if err != nil {
				t.Fatalf("crashes at commits %d and %d: %v", n, m, err)
			}
			checkSettled(w, b)
			if t.Failed() {
				t.Fatalf("crashes at commits %d and %d", n, m)
			}
		}
	}
}

// TestPassingStoreFault: a commit that fails once, applied or not, costs nothing:
// no call becomes indeterminate and none runs twice.
func TestPassingStoreFault(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.FaultBefore, storetest.FaultAfter} {
		for n := 1; n <= 30; n++ {
			w, req := crashWorld(t)
			f := storetest.NewFaulty(w.mem, storetest.FailCommit(n, fault))
			w.store = f
			b, err := settle(w, req, w.engine)
			if err != nil {
				t.Fatalf("fault %d at commit %d: %v", fault, n, err)
			}
			checkSettled(w, b)
			for i := range b.Calls {
				if c := &b.Calls[i]; c.Phase == batch.PhaseIndeterminate || len(w.effects[c.Call.Operation()]) > 1 && c.Call.Tool != "flaky" {
					t.Errorf("call %d: %s, ran %v", i, line(c), w.effects[c.Call.Operation()])
				}
			}
			if t.Failed() {
				t.Fatalf("fault %d at commit %d", fault, n)
			}
		}
	}
}

// TestOneBadRunDoesNotStrandTheOthers: recovery goes on past a run that fails.
func TestOneBadRunDoesNotStrandTheOthers(t *testing.T) {
	w := newWorld(t)
	w.tool("safe", batch.ReplaySafe, "replay_safe")
	ctx, cancel := context.WithCancel(t.Context())
	answer := w.tools["safe"].invoke
	w.tools["safe"].invoke = func(call context.Context, _ *batch.Call) (*batch.Output, error) {
		<-call.Done() // not ctx, which ends a moment before what the engine made of it
		return nil, call.Err()
	}
	e := w.engine()
	done := make(chan struct{})
	for _, r := range []batch.RunID{"a", "b", "c"} {
		go func() {
			_, _ = e.Submit(ctx, request(r, 0, "safe"))
			done <- struct{}{}
		}()
	}
	for {
		w.mu.Lock()
		n := len(w.order)
		w.mu.Unlock()
		if n == 3 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range 3 {
		<-done
	}
	w.tools["safe"].invoke = answer
	w.store = storetest.NewFaulty(w.mem, storetest.FailWhen(func(c *batch.Commit) bool { return c.Run.ID == "b" }, storetest.FaultBefore))
	n, err := w.engine().Recover(t.Context())
	if n != 3 || !errors.Is(err, storetest.ErrInjected) {
		t.Errorf("Recover: %d, %v", n, err)
	}
	if ids, _ := w.mem.Open(t.Context()); len(ids) != 1 || ids[0] != "b/1" {
		t.Errorf("open after recovery: %v", ids)
	}
}

// TestAStaleOwnerIsFenced: a process that lost a run to another commits nothing
// more to it.
func TestAStaleOwnerIsFenced(t *testing.T) {
	w := newWorld(t)
	stale, fresh := w.engine(), w.engine()
	w.tools["once"].invoke = func(ctx context.Context, c *batch.Call) (*batch.Output, error) {
		if _, err := fresh.Resume(ctx, c.Run); err != nil {
			return nil, err
		}
		return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock("too late")}}, nil
	}
	if _, err := stale.Submit(t.Context(), request("r", 0, "once", "echo")); !errors.Is(err, batch.ErrFenced) {
		t.Errorf("the stale owner's commit: %v", err)
	}
	b, err := w.store.Batch(t.Context(), "r", 1)
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "indeterminate!")
	wantCall(t, b, 1, "completed/tool")
	if len(w.order) != 2 {
		t.Errorf("ran %v", w.order)
	}
}
