package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// client adds a tool that the client executes.
func (w *world) client(id batch.ToolID) *fakeTool {
	f := w.tool(id, batch.NonRecoverable, batch.NeverReplay)
	f.d.Client, f.d.Target = true, batch.TargetClient
	return f
}

func text(s string) []batch.ContentBlock { return []batch.ContentBlock{batch.TextBlock(s)} }

func TestClientTools(t *testing.T) {
	w := newWorld(t)
	w.client("ask")
	e := w.engine()
	b := w.submit(e, "r", "echo", "ask", "echo")
	wantCall(t, b, 1, "awaiting")
	wantCall(t, b, 2, "requested")
	tk := w.ticket()
	if tk.Kind != batch.TicketExternalResult || b.Calls[1].Disposition(tk.Kind) != batch.DispositionPendingClient || tk.Deadline.IsZero() {
		t.Errorf("ticket %+v", tk)
	}
	for name, c := range map[string]struct {
		r    batch.ExternalResult
		want error
	}{
		"nobody":    {batch.ExternalResult{Content: text("x")}, batch.ErrApprover},
		"bad block": {batch.ExternalResult{By: "c", Content: []batch.ContentBlock{{Type: "video"}}}, batch.ErrResult},
		"too large": {batch.ExternalResult{By: "c", Content: text(strings.Repeat("x", 2001))}, batch.ErrResult},
	} {
		if _, err := e.Supply(t.Context(), tk.ID, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	w.tools["ask"].badOut = errors.New("/y is missing")
	if _, err := e.Supply(t.Context(), tk.ID, batch.ExternalResult{By: "c", Content: text("x")}); !errors.Is(err, batch.ErrResult) {
		t.Errorf("against the schema: %v", err)
	}
	w.tools["ask"].badOut = nil
	if _, err := e.Decide(t.Context(), tk.ID, yes("bob")); !errors.Is(err, batch.ErrTicketKind) {
		t.Errorf("approving it: %v", err)
	}
	b, err := w.engine().Supply(t.Context(), tk.ID, batch.ExternalResult{By: "c", Content: text("42")})
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 1, "completed/external: 42")
	wantCall(t, b, 2, "completed/tool")
	if _, err := e.Supply(t.Context(), tk.ID, batch.ExternalResult{By: "c", Content: text("43")}); !errors.Is(err, batch.ErrTicketClosed) {
		t.Errorf("a second result: %v", err)
	}
	if len(w.order) != 2 {
		t.Errorf("ran %v", w.order)
	}
}

func TestClientToolThatNeedsAConfirmation(t *testing.T) {
	w := newWorld(t)
	w.client("ask")
	w.gate = confirm(batch.Confirmation{})
	e := w.engine()
	w.submit(e, "r", "ask")
	first := w.ticket()
	if _, err := e.Supply(t.Context(), first.ID, batch.ExternalResult{By: "c", Content: text("early")}); !errors.Is(err, batch.ErrTicketKind) {
		t.Errorf("a result before the approval: %v", err)
	}
	if _, err := e.Decide(t.Context(), first.ID, yes("bob")); err != nil {
		t.Fatal(err)
	}
	second := w.ticket()
	if second.Kind != batch.TicketExternalResult || second.ID == first.ID {
		t.Fatalf("ticket %+v", second)
	}
	b, err := e.Supply(t.Context(), second.ID, batch.ExternalResult{By: "c", Content: text("done"), IsError: true})
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/external!: done")
}

func TestLateExternalResult(t *testing.T) {
	w := newWorld(t)
	w.client("ask")
	e := w.engine()
	w.submit(e, "r", "ask")
	id := w.ticket().ID
	w.pass(8 * 24 * time.Hour)
	b, err := e.Supply(t.Context(), id, batch.ExternalResult{By: "c", Content: text("late")})
	if !errors.Is(err, batch.ErrTicketLate) {
		t.Fatalf("Supply: %v", err)
	}
	wantCall(t, b, 0, "completed/expired!")
}

func TestClientToolThatChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.client("ask")
	e := w.engine()
	w.submit(e, "r", "ask")
	w.tools["ask"].d.Digest = "d2"
	b, err := e.Supply(t.Context(), w.ticket().ID, batch.ExternalResult{By: "c", Content: text("x")})
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/changed!")
}

// TestCancel: from every place a run can be in.
func TestCancel(t *testing.T) {
	t.Run("parked", func(t *testing.T) {
		w := newWorld(t)
		w.gate = func(q *batch.Query) (*batch.Decision, error) {
			if q.Call.Index == 1 {
				return confirm(batch.Confirmation{})(q)
			}
			return allow(), nil
		}
		e := w.engine()
		w.submit(e, "r", "echo", "once", "echo")
		id := w.ticket().ID
		b, err := e.Cancel(t.Context(), "r", "bob", "wrong customer")
		if err != nil || b.Phase != batch.BatchFinalized {
			t.Fatalf("%v, %v", b, err)
		}
		wantCall(t, b, 0, "completed/tool")
		wantCall(t, b, 1, "completed/cancelled!: cancelled by bob: wrong customer; nothing ran")
		wantCall(t, b, 2, "completed/cancelled!")
		if tk, _ := w.store.Ticket(t.Context(), id); tk.Status != batch.TicketCancelled {
			t.Errorf("ticket is %s", tk.Status)
		}
		if _, err := e.Decide(t.Context(), id, yes("bob")); !errors.Is(err, batch.ErrTicketClosed) {
			t.Errorf("deciding afterwards: %v", err)
		}
		if _, err := e.Cancel(t.Context(), "r", "eve", ""); !errors.Is(err, batch.ErrCancelled) {
			t.Errorf("once more: %v", err)
		}
		if _, err := e.Submit(t.Context(), request("r", 0, `echo {"n":2}`)); !errors.Is(err, batch.ErrCancelled) {
			t.Errorf("a new step: %v", err)
		}
		if b, err := e.Submit(t.Context(), request("r", 1, "echo", "once", "echo")); err != nil || b.Phase != batch.BatchFinalized {
			t.Errorf("the same submission: %v, %v", b, err)
		}
	})
	t.Run("idle", func(t *testing.T) {
		w := newWorld(t)
		e := w.engine()
		w.submit(e, "r", "echo")
		if b, err := e.Cancel(t.Context(), "r", "bob", ""); b != nil || err != nil {
			t.Errorf("%v, %v", b, err)
		}
		if _, err := e.Submit(t.Context(), request("r", 0, "echo")); !errors.Is(err, batch.ErrCancelled) {
			t.Errorf("a new step: %v", err)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		if _, err := newWorld(t).engine().Cancel(t.Context(), "r", "bob", ""); !errors.Is(err, batch.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

// TestCancelWinsOverALateOutcome: the running tool is told to stop; whether it
// obeys, answers all the same, or never comes back, its outcome is not recorded.
func TestCancelWinsOverALateOutcome(t *testing.T) {
	for name, invoke := range map[string]func(context.Context) (*batch.Output, error){
		"obeys": func(ctx context.Context) (*batch.Output, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"answers late": func(ctx context.Context) (*batch.Output, error) {
			<-ctx.Done()
			return &batch.Output{Content: text("too late")}, nil
		},
		"hangs": func(context.Context) (*batch.Output, error) {
			time.Sleep(100 * time.Hour)
			return &batch.Output{}, nil
		},
		"panics late": func(ctx context.Context) (*batch.Output, error) {
			<-ctx.Done()
			panic("late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tools["once"].invoke = func(ctx context.Context, _ *batch.Call) (*batch.Output, error) { return invoke(ctx) }
				e := w.engine()
				submitted := make(chan error)
				go func() {
					_, err := e.Submit(t.Context(), request("r", 0, "echo", "once", "echo"))
					submitted <- err
				}()
				synctest.Wait()
				began := time.Now()
				b, err := e.Cancel(t.Context(), "r", "bob", "")
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d > 6*time.Second {
					t.Errorf("it took %v", d)
				}
				wantCall(t, b, 0, "completed/tool")
				wantCall(t, b, 1, "indeterminate!: outcome unknown: the run was cancelled by bob while the call was running (attempt 1)")
				wantCall(t, b, 2, "completed/cancelled!")
				if err := <-submitted; !errors.Is(err, batch.ErrCancelled) {
					t.Errorf("Submit: %v", err)
				}
				time.Sleep(200 * time.Hour)
				again, err := w.store.Batch(t.Context(), "r", 1)
				if err != nil {
					t.Fatal(err)
				}
				wantCall(t, again, 1, "indeterminate!")
			})
		})
	}
}

// TestAHangingExecutorDoesNotHoldTheHost: at shutdown, and never another run.
func TestAHangingExecutorDoesNotHoldTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tools["once"].invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
			time.Sleep(100 * time.Hour)
			return &batch.Output{}, nil
		}
		e := w.engine()
		ctx, cancel := context.WithCancel(t.Context())
		submitted := make(chan error)
		go func() {
			_, err := e.Submit(ctx, request("stuck", 0, "once"))
			submitted <- err
		}()
		synctest.Wait()
		wantCall(t, w.submit(e, "other", "echo"), 0, "completed/tool")
		cancel()
		if err := <-submitted; !errors.Is(err, context.Canceled) {
			t.Errorf("Submit: %v", err)
		}
		time.Sleep(200 * time.Hour)
	})
}

func TestAmend(t *testing.T) {
	w := newWorld(t)
	w.tools["once"].invoke = func(context.Context, *batch.Call) (*batch.Output, error) { return nil, errors.New("lost") }
	e := w.engine()
	b := w.submit(e, "r", "once", "echo")
	wantCall(t, b, 0, "indeterminate!")
	for name, c := range map[string]struct {
		index int
		a     batch.Amendment
		want  error
	}{
		"nobody":             {0, batch.Amendment{Failed: true}, batch.ErrApprover},
		"a known outcome":    {1, batch.Amendment{By: "bob", Failed: true}, batch.ErrNotIndeterminate},
		"no such call":       {2, batch.Amendment{By: "bob", Failed: true}, batch.ErrNotFound},
		"a bad block":        {0, batch.Amendment{By: "bob", Content: []batch.ContentBlock{{Type: "x"}}}, batch.ErrResult},
		"too large a result": {0, batch.Amendment{By: "bob", Content: text(strings.Repeat("x", 2001))}, batch.ErrResult},
	} {
		if err := e.Amend(t.Context(), "r", 1, c.index, c.a); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := e.Amend(t.Context(), "r", 1, 0, batch.Amendment{By: "bob", Content: text("it was sent"), Note: "asked the provider"}); err != nil {
		t.Fatal(err)
	}
	evs, err := w.store.Events(t.Context(), "r", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := evs[len(evs)-1]
	if last.Kind != batch.EventCallAmended || last.By != "bob" || last.Output.Text() != "it was sent" || last.Output.CallID != "c0" || last.Note == "" {
		t.Errorf("event %+v", last)
	}
	again, _ := w.store.Batch(t.Context(), "r", 1)
	wantCall(t, again, 0, "indeterminate!: outcome unknown")
}

// spawner is an executor whose tool "spawn" delegates the calls it is given, and
// whose other tools are the world's.
type spawner struct {
	*world
	e        *batch.Engine
	parallel bool

	mu          sync.Mutex
	invocations map[batch.OperationID]int
}

func (s *spawner) Delegates(id batch.ToolID) bool { return id == "spawn" }
func (s *spawner) Parallel(batch.ToolID) bool     { return s.parallel }
func (s *spawner) Invoke(ctx context.Context, c *batch.Call) (*batch.Output, error) {
	if c.Tool != "spawn" {
		return s.world.Invoke(ctx, c)
	}
	s.mu.Lock()
	s.invocations[c.Operation()]++
	s.mu.Unlock()
	var tools []string
	if json.Unmarshal(c.Arguments, &tools) != nil {
		return batch.ErrorOutput(c.ID, "no such child"), nil //nolint:nilerr // a bad child is the tool's answer
	}
	req := request(batch.ChildRunID(c.Operation()), 1, tools...)
	req.Parent, req.Depth = c.Operation(), 1
	b, err := s.e.Submit(ctx, req)
	switch {
	case errors.Is(err, batch.ErrCancelled):
		return nil, batch.ErrPending
	case err != nil:
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "child", Err: err}
	case b.Phase != batch.BatchFinalized:
		return nil, batch.ErrPending
	}
	var lines []string
	for i := range b.Calls {
		lines = append(lines, line(&b.Calls[i]))
	}
	return &batch.Output{Content: text(strings.Join(lines, ", "))}, nil
}

// delegating is an engine with a spawner, over the world's store.
func (w *world) delegating(parallel bool) (*batch.Engine, *spawner) {
	w.t.Helper()
	f := w.tool("spawn", batch.DurableRequest, "durable_request")
	f.d.Plugin = "delegate"
	s := &spawner{world: w, parallel: parallel, invocations: map[batch.OperationID]int{}}
	e, err := batch.NewEngine(batch.Options{
		Store: w.store, Gate: w, Catalog: func() batch.Catalog { return w },
		Executors: map[batch.Target]batch.Executor{batch.TargetBrain: s}, Now: w.now, RetryDelay: 1, DecisionLog: w.log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s.e = e
	return e, s
}

func TestDelegation(t *testing.T) {
	w := newWorld(t)
	e, _ := w.delegating(true)
	b := w.submit(e, "r", "echo", `spawn ["once","missing"]`, `spawn not json`, "echo")
	wantCall(t, b, 1, `completed/tool: completed/tool: {}, completed/invalid!: there is no tool "missing"`)
	wantCall(t, b, 2, `completed/tool!: no such child`)
	child := batch.ChildRunID("r/1/1")
	r, err := w.store.Run(t.Context(), child)
	if err != nil || r.Parent != "r/1/1" || r.Depth != 1 {
		t.Errorf("child %+v, %v", r, err)
	}
	if _, err := e.Submit(t.Context(), request(child, 2, "echo")); !errors.Is(err, batch.ErrOwner) {
		t.Errorf("a client in the child's run: %v", err)
	}
	deep := request("deep", 1, "echo")
	deep.Depth, deep.Parent = 5, "x/1/0"
	if _, err := e.Submit(t.Context(), deep); !errors.Is(err, batch.ErrInvalid) {
		t.Errorf("too deep: %v", err)
	}
}

// TestAParkedChild keeps the call executing, over a restart too, and ends with it.
func TestAParkedChild(t *testing.T) {
	w := newWorld(t)
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		if q.Call.Tool == "once" {
			return confirm(batch.Confirmation{})(q)
		}
		return allow(), nil
	}
	e, _ := w.delegating(false)
	b := w.submit(e, "r", `spawn ["once"]`, "echo")
	wantCall(t, b, 0, "executing")
	wantCall(t, b, 1, "requested")
	e, s := w.delegating(false)
	for range 2 {
		if _, err := e.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := e.Submit(t.Context(), request("r", 1, `spawn ["once"]`, "echo")); err != nil || b.Calls[0].Phase != batch.PhaseExecuting || b.Calls[0].Attempt != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	if s.invocations["r/1/0"] == 0 {
		t.Error("the child was not looked for again")
	}
	if _, err := e.Decide(t.Context(), w.ticket().ID, yes("bob")); err != nil {
		t.Fatal(err)
	}
	b, err := w.store.Batch(t.Context(), "r", 1)
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/tool: completed/tool: {}")
	wantCall(t, b, 1, "completed/tool")
	if len(w.effects[batch.NewOperationID(batch.ChildRunID("r/1/0"), 1, 0)]) != 1 {
		t.Errorf("effects %v", w.effects)
	}
}

// TestParallelDelegation: side by side when every gate says allow, in order when
// one does not; one child that parks or fails hides nothing of the others.
func TestParallelDelegation(t *testing.T) {
	setup := func(t *testing.T) (*world, *batch.Engine, *spawner, func() int) {
		w := newWorld(t)
		var mu sync.Mutex
		most, now := 0, 0
		w.tool("slow", batch.NonRecoverable, batch.NeverReplay).invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return &batch.Output{Content: text("done")}, nil
		}
		e, s := w.delegating(true)
		return w, e, s, func() int { return most }
	}
	t.Run("all allowed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, e, _, most := setup(t)
			b := w.submit(e, "r", `spawn ["slow"]`, `spawn ["slow","missing"]`, `spawn bad`, `spawn ["slow"]`)
			wantCall(t, b, 0, "completed/tool: completed/tool: done")
			wantCall(t, b, 1, `completed/tool: completed/tool: done, completed/invalid!`)
			wantCall(t, b, 2, `completed/tool!: no such child`)
			wantCall(t, b, 3, "completed/tool: completed/tool: done")
			if most() != 3 {
				t.Errorf("%d at once", most())
			}
			if ds, _ := w.store.Decisions(t.Context(), "r"); len(ds) != 4 {
				t.Errorf("%d decision records", len(ds))
			}
		})
	})
	t.Run("one blocked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, e, _, most := setup(t)
			w.gate = func(q *batch.Query) (*batch.Decision, error) {
				if q.Call.Tool == "spawn" && q.Call.Index == 2 {
					return &batch.Decision{Outcome: batch.OutcomeBlock}, nil
				}
				return allow(), nil
			}
			b := w.submit(e, "r", `spawn ["slow"]`, `spawn ["slow"]`, `spawn ["slow"]`)
			wantCall(t, b, 1, "completed/tool")
			wantCall(t, b, 2, "completed/blocked!")
			if most() != 1 {
				t.Errorf("%d at once", most())
			}
			if ds, _ := w.store.Decisions(t.Context(), "r"); len(ds) != 3 {
				t.Errorf("%d decision records", len(ds))
			}
		})
	})
	t.Run("one parks", func(t *testing.T) {
		w, e, _, _ := setup(t)
		w.gate = func(q *batch.Query) (*batch.Decision, error) {
			if q.Call.Tool == "once" {
				return confirm(batch.Confirmation{})(q)
			}
			return allow(), nil
		}
		b := w.submit(e, "r", `spawn ["once"]`, `spawn ["echo"]`)
		wantCall(t, b, 0, "executing")
		wantCall(t, b, 1, "completed/tool: completed/tool")
		if _, err := e.Decide(t.Context(), w.ticket().ID, yes("bob")); err != nil {
			t.Fatal(err)
		}
		if b, _ = w.store.Batch(t.Context(), "r", 1); b.Phase != batch.BatchFinalized {
			t.Errorf("batch %s", b.Phase)
		}
		wantCall(t, b, 0, "completed/tool: completed/tool")
	})
}

// TestCancelReachesTheChildren, and a cancelled child ends its parent's call.
func TestCancelAndDelegation(t *testing.T) {
	setup := func(t *testing.T) (*world, *batch.Engine) {
		w := newWorld(t)
		w.gate = func(q *batch.Query) (*batch.Decision, error) {
			if q.Call.Tool == "once" {
				return confirm(batch.Confirmation{})(q)
			}
			return allow(), nil
		}
		e, _ := w.delegating(true)
		w.submit(e, "r", `spawn ["once"]`, `spawn ["once"]`)
		return w, e
	}
	t.Run("parent", func(t *testing.T) {
		w, e := setup(t)
		b, err := e.Cancel(t.Context(), "r", "bob", "")
		if err != nil {
			t.Fatal(err)
		}
		wantCall(t, b, 0, "indeterminate!")
		for i := range 2 {
			r, err := w.store.Run(t.Context(), batch.ChildRunID(batch.NewOperationID("r", 1, i)))
			if err != nil || r.Cancelled == nil || r.OpenStep != 0 {
				t.Errorf("child %+v, %v", r, err)
			}
		}
		if ts, _ := w.store.Tickets(t.Context(), batch.TicketFilter{Open: true}); len(ts) != 0 {
			t.Errorf("open tickets %v", ts)
		}
	})
	t.Run("children", func(t *testing.T) {
		w, e := setup(t)
		for i := range 2 {
			if _, err := e.Cancel(t.Context(), batch.ChildRunID(batch.NewOperationID("r", 1, i)), "bob", "no"); err != nil {
				t.Fatal(err)
			}
		}
		b, err := w.store.Batch(t.Context(), "r", 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			wantCall(t, b, i, "completed/tool: completed/cancelled!: cancelled by bob: no; nothing ran")
		}
	})
}

// TestTwoResumesRace: many at once run each call once.
func TestTwoResumesRace(t *testing.T) {
	w := newWorld(t)
	w.gate = confirm(batch.Confirmation{})
	e := w.engine()
	w.submit(e, "r", "once", "echo")
	id := w.ticket().ID
	w.gate = func(*batch.Query) (*batch.Decision, error) { return allow(), nil }
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := 0
	for i := range 8 {
		wg.Go(func() {
			_, err := e.Decide(t.Context(), id, yes(fmt.Sprint("p", i)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else if !errors.Is(err, batch.ErrTicketClosed) {
				t.Errorf("Decide: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := e.Resume(t.Context(), "r"); err != nil {
				t.Errorf("Resume: %v", err)
			}
		})
	}
	wg.Wait()
	if accepted != 1 || len(w.effects["r/1/0"]) != 1 || len(w.effects["r/1/1"]) != 1 {
		t.Errorf("%d accepted, effects %v", accepted, w.effects)
	}
}
