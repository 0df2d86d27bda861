package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// waitsFor is a tool whose calls wait for a place, until the host stops them or, once
// there is one, run.
func waitsFor(there *bool, answer func(context.Context, *batch.Call) (*batch.Output, error)) func(context.Context, *batch.Call) (*batch.Output, error) {
	return func(ctx context.Context, c *batch.Call) (*batch.Output, error) {
		if *there {
			return answer(ctx, c)
		}
		<-ctx.Done()
		return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "waiting for a sandbox", Err: ctx.Err()}
	}
}

// TestStoppedBeforeItBegan: a call that was waiting for its place when the host was
// told to stop runs after the next start, whatever its policy, once, in its first
// attempt, and without another decision.
func TestStoppedBeforeItBegan(t *testing.T) {
	for name, gate := range map[string]func(*batch.Query) (*batch.Decision, error){
		"allowed at once": func(*batch.Query) (*batch.Decision, error) { return allow(), nil },
		"approved":        confirm(batch.Confirmation{}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				there := false
				once := w.tools["once"]
				once.d.MaxAttempts = 1
				once.invoke = waitsFor(&there, once.invoke)
				w.gate = gate
				ctx, stop := context.WithCancel(t.Context())
				e := w.engine()
				stopped := make(chan error, 1)
				go func() {
					b, err := e.Submit(ctx, request("r", 0, "once"))
					if err == nil && b.Awaiting() == 0 {
						_, err = e.Decide(ctx, w.ticket().ID, batch.TicketAnswer{By: "bob", Approve: true})
					}
					stopped <- err
				}()
				synctest.Wait()
				stop()
				if err := <-stopped; !errors.Is(err, context.Canceled) {
					t.Fatalf("stopped: %v", err)
				}
				b, err := w.store.Batch(t.Context(), "r", 1)
				if err != nil || !b.Calls[0].Withdrawn() || b.Calls[0].Attempt != 1 {
					t.Fatalf("%+v, %v", b.Calls[0], err)
				}
				there = true
				w.gate = func(*batch.Query) (*batch.Decision, error) {
					return nil, errors.New("it was asked again")
				}
				w.pass(time.Hour)
				if n, err := w.engine().Recover(t.Context()); n != 1 || err != nil {
					t.Fatalf("Recover: %d, %v", n, err)
				}
				b, err = w.store.Batch(t.Context(), "r", 1)
				if err != nil {
					t.Fatal(err)
				}
				wantCall(t, b, 0, "completed/tool: {}")
				if c := b.Calls[0]; c.Attempt != 1 || c.Reason != "" || !c.StartedAt.Equal(w.now()) {
					t.Errorf("%+v", c)
				}
				r, err := w.store.Run(t.Context(), "r")
				if err != nil || r.Counts["once"] != 1 {
					t.Errorf("it counts as %v calls, %v", r.Counts, err)
				}
				w.gate = func(q *batch.Query) (*batch.Decision, error) {
					past, err := q.Recent(t.Context(), 24*time.Hour)
					if err != nil || past[0]["once"] != 1 {
						t.Errorf("the day had %v, %v", past, err)
					}
					return allow(), nil
				}
				w.submit(w.engine(), "other", "echo")
			})
		})
	}
}

// TestStoppedBetweenAttempts: neither is the wait before another attempt a doubt.
func TestStoppedBetweenAttempts(t *testing.T) {
	for tool, left := range map[batch.ToolID]int{"once": 2, "echo": 1} {
		t.Run(string(tool), func(t *testing.T) {
			w := newWorld(t)
			ctx, stop := context.WithCancel(t.Context())
			answer := w.tools[tool].invoke
			w.tools[tool].invoke = func(_ context.Context, c *batch.Call) (*batch.Output, error) {
				if c.Attempt == 2 {
					stop()
				}
				return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "no room"}
			}
			if _, err := w.engine().Submit(ctx, request("r", 0, string(tool))); !errors.Is(err, context.Canceled) {
				t.Fatalf("Submit: %v", err)
			}
			b, err := w.store.Batch(t.Context(), "r", 1)
			if err != nil || b.Calls[0].Phase != batch.PhaseExecuting || b.Calls[0].Attempt != left {
				t.Fatalf("%+v, %v", b.Calls[0], err)
			}
			w.tools[tool].invoke = answer
			if _, err := w.engine().Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b, err = w.store.Batch(t.Context(), "r", 1); err != nil {
				t.Fatal(err)
			}
			wantCall(t, b, 0, "completed/tool: {}")
			if got := w.effects["r/1/0"]; !slices.Equal(got, []int{1, 2, 2}) {
				t.Errorf("attempts %v", got)
			}
		})
	}
}

// TestWhatChangedWhileACallWasWithdrawn: it is held against what there is now.
func TestWhatChangedWhileACallWasWithdrawn(t *testing.T) {
	for want, change := range map[string]func(*world){
		"completed/changed!: tool once was changed or removed": func(w *world) { w.tools["once"].d.Digest = "d2" },
		"completed/cancelled!: cancelled by bob; nothing ran":  func(w *world) { _, _ = w.engine().Cancel(w.t.Context(), "r", "bob", "") },
	} {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		w.tools["once"].invoke = func(ctx context.Context, _ *batch.Call) (*batch.Output, error) {
			stop()
			return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "waiting", Err: ctx.Err()}
		}
		if _, err := w.engine().Submit(ctx, request("r", 0, "once")); !errors.Is(err, context.Canceled) {
			t.Fatalf("Submit: %v", err)
		}
		change(w)
		if _, err := w.engine().Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, err := w.store.Batch(t.Context(), "r", 1)
		if err != nil {
			t.Fatal(err)
		}
		wantCall(t, b, 0, want)
		if len(w.order) != 1 {
			t.Errorf("ran %v", w.order)
		}
	}
}

// TestCancelledBeforeItBegan: who cancels a run whose call still waits for its place is
// told that nothing ran.
func TestCancelledBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		there := false
		w.tools["once"].invoke = waitsFor(&there, nil)
		e := w.engine()
		submitted := make(chan error, 1)
		go func() {
			_, err := e.Submit(t.Context(), request("r", 0, "once", "echo"))
			submitted <- err
		}()
		synctest.Wait()
		b, err := e.Cancel(t.Context(), "r", "bob", "")
		if err != nil {
			t.Fatal(err)
		}
		wantCall(t, b, 0, "completed/cancelled!: cancelled by bob; nothing ran")
		wantCall(t, b, 1, "completed/cancelled!: cancelled by bob; nothing ran")
		if err := <-submitted; !errors.Is(err, batch.ErrCancelled) {
			t.Errorf("Submit: %v", err)
		}
	})
}

// TestWithdraw: the transition by itself.
func TestWithdraw(t *testing.T) {
	at := time.Unix(1, 0)
	for _, c := range []struct {
		policy   batch.RecoveryPolicy
		attempts int
		want     string
	}{
		{batch.NeverReplay, 1, "1 true"},
		{batch.NeverReplay, 2, "2 true"}, // there would be no second one if the first had been dispatched
		{"replay_safe", 1, "1 true"},
		{"replay_safe", 2, "1 false"}, // the first may have been
	} {
		b := &batch.Batch{Run: "r", Step: 1, Phase: batch.BatchOpen, Calls: []batch.CallState{{
			Call: batch.Call{Run: "r", Step: 1, ID: "c", Tool: "t"}, Phase: batch.PhaseRequested,
			Pin: batch.Pin{ToolDigest: "d", MaxAttempts: 2, Policy: c.policy, Capability: batch.ReplaySafe},
		}}}
		if err := b.Withdraw(0, "stopped"); !errors.Is(err, batch.ErrTransition) {
			t.Errorf("of a call that is requested: %v", err)
		}
		for range c.attempts {
			if err := b.Start(0, nil, at); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Withdraw(0, ""); !errors.Is(err, batch.ErrTransition) {
			t.Errorf("without a reason: %v", err)
		}
		if err := b.Withdraw(0, "stopped"); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(b.Calls[0].Attempt, b.Calls[0].Withdrawn()); got != c.want {
			t.Errorf("%s, attempt %d: %s, want %s", c.policy, c.attempts, got, c.want)
		}
		if err := b.Validate(); err != nil {
			t.Error(err)
		}
		if b.Calls[0].Withdrawn() {
			if err := b.Withdraw(0, "stopped"); !errors.Is(err, batch.ErrTransition) {
				t.Errorf("twice: %v", err)
			}
		}
		if err := b.Start(0, nil, at.Add(1)); err != nil || b.Calls[0].Attempt != c.attempts || b.Calls[0].Withdrawn() {
			t.Errorf("%s: started again: %+v, %v", c.policy, b.Calls[0], err)
		}
	}
}
