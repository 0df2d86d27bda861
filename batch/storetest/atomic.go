package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

func testMalformed(t *testing.T, h *harness) {
	h.request("a", 1)
	for name, c := range map[string]*batch.Commit{
		"no run":                  {},
		"no run id":               {Run: &batch.Run{}},
		"bad run id":              {Run: newRun("a/b")},
		"run id with a zero byte": {Run: newRun("a\x00b")},
		"changed without a batch": h.next("a", func(c *batch.Commit) { c.Changed = []int{0} }),
		"new without a batch":     h.next("a", func(c *batch.Commit) { c.NewBatch = true }),
		"batch of another run":    h.next("a", func(c *batch.Commit) { c.Batch, c.NewBatch = newBatch("b", 1, 1), true }),
		"bad ticket id":           h.next("a", func(c *batch.Commit) { c.Tickets = []*batch.Ticket{newTicket("a/b", "a", epoch)} }),
		"state without a key":     h.next("a", func(c *batch.Commit) { c.State = []batch.StateWrite{{Value: json.RawMessage(`1`)}} }),
		"bad operation": h.next("a", func(c *batch.Commit) {
			d := newDecision("a", 1, 0, 1)
			d.Operation = "a/1"
			c.Decisions = []*batch.DecisionRecord{d}
		}),
	} {
		if err := h.Commit(ctx, c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	h.equal("version", h.head("a").Version, uint64(2))
}

// everything reads all there is of a run and of the indexes.
func (h *harness) everything(id batch.RunID) []any {
	h.t.Helper()
	r := h.head(id)
	b := h.batch(id, 1)
	_, second := h.Batch(ctx, id, 2)
	open, err := h.Open(ctx)
	h.must(err)
	tickets, err := h.Tickets(ctx, batch.TicketFilter{})
	h.must(err)
	waiting, err := h.Tickets(ctx, batch.TicketFilter{Open: true})
	h.must(err)
	decisions, err := h.Decisions(ctx, id)
	h.must(err)
	events, err := h.Events(ctx, id, 0, 0)
	h.must(err)
	state, err := h.State(ctx, id)
	h.must(err)
	return []any{r, b, errors.Is(second, batch.ErrNotFound), open, tickets, waiting, decisions, events, state}
}

// testAtomic makes commits that change everything and are refused for one thing
// each.
func testAtomic(t *testing.T, h *harness) {
	h.request("a", 2)
	h.commit("a", func(c *batch.Commit) {
		c.Tickets = []*batch.Ticket{newTicket("t", "a", epoch)}
		c.Decisions = []*batch.DecisionRecord{newDecision("a", 1, 0, 1)}
		c.Events = []batch.Event{{Kind: batch.EventBatchRequested, Time: epoch}}
		c.State = []batch.StateWrite{{Key: "k", Value: json.RawMessage(`1`)}}
	})
	h.create("other")
	h.commit("other", func(c *batch.Commit) { c.Tickets = []*batch.Ticket{newTicket("foreign", "other", epoch)} })
	before := h.everything("a")

	full := func() *batch.Commit {
		return h.next("a", func(c *batch.Commit) {
			c.Run.Agent, c.Run.LastStep = "changed", 9
			closed := newTicket("t", "a", epoch)
			closed.Status = batch.TicketDenied
			c.Batch = h.batch("a", 1)
			h.must(c.Batch.Start(0, nil, epoch))
			c.Changed = []int{0}
			c.Tickets = []*batch.Ticket{closed, newTicket("t2", "a", epoch)}
			c.Decisions = []*batch.DecisionRecord{newDecision("a", 1, 0, 2)}
			c.Events = []batch.Event{{Kind: batch.EventCallExecuting, Time: epoch, Step: 1}}
			c.State = []batch.StateWrite{{Key: "k"}, {Key: "l", Value: json.RawMessage(`2`)}}
		})
	}
	for _, tt := range []struct {
		name string
		want error
		edit func(*batch.Commit)
	}{
		{"version", batch.ErrConflict, func(c *batch.Commit) { c.Expect++ }},
		{"fence", batch.ErrFenced, func(c *batch.Commit) { c.Run.Fence.Epoch++ }},
		{"batch exists", batch.ErrConflict, func(c *batch.Commit) { c.Batch, c.NewBatch, c.Changed = newBatch("a", 1, 1), true, nil }},
		{"batch does not exist", batch.ErrNotFound, func(c *batch.Commit) { c.Batch, c.Changed = newBatch("a", 2, 1), nil }},
		{"decision exists", batch.ErrConflict, func(c *batch.Commit) { c.Decisions = append(c.Decisions, newDecision("a", 1, 0, 1)) }},
		{"event hole", batch.ErrInvalid, func(c *batch.Commit) { c.Events[0].Seq++; c.Run.LastSeq++ }},
		{"foreign ticket", batch.ErrConflict, func(c *batch.Commit) { c.Tickets = append(c.Tickets, newTicket("foreign", "a", epoch)) }},
	} {
		c := full()
		tt.edit(c)
		err := h.Commit(ctx, c)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: error is %v, want %v", tt.name, err, tt.want)
		}
		h.equal("everything after "+tt.name, h.everything("a"), before)
	}
	h.Store = h.reopen()
	h.equal("everything after a restart", h.everything("a"), before)
	h.must(h.Commit(ctx, full()))
}

func testReadsOwned(_ *testing.T, h *harness) {
	b := h.request("a", 1)
	h.must(b.Complete(0, &batch.Output{CallID: b.Calls[0].Call.ID, Content: []batch.ContentBlock{batch.JSONBlock([]byte(`{"a":1}`))}}, batch.AnswerPolicy, epoch))
	h.commit("a", func(c *batch.Commit) {
		c.Batch, c.Changed = b, []int{0}
		c.Tickets = []*batch.Ticket{newTicket("t", "a", epoch)}
		c.Decisions = []*batch.DecisionRecord{newDecision("a", 1, 0, 1)}
		c.Events = []batch.Event{{Kind: batch.EventCallCompleted, Time: epoch}}
		c.State = []batch.StateWrite{{Key: "k", Value: json.RawMessage(`"v"`)}}
	})
	before := clone(h.everything("a"))

	r := h.head("a")
	r.Labels["team"], r.Counts["x"] = "changed", 1
	got := h.batch("a", 1)
	got.Message[0], got.Calls[0].Call.Arguments[0], got.Calls[0].Output.Content[0].JSON[0] = 'X', 'X', 'X'
	got.Calls = got.Calls[:0]
	for _, f := range []batch.TicketFilter{{}, {Run: "a"}, {Open: true}} {
		ts, err := h.Tickets(ctx, f)
		h.must(err)
		ts[0].Approvers[0], ts[0].Status = "changed", batch.TicketDenied
	}
	ds, err := h.Decisions(ctx, "a")
	h.must(err)
	ds[0].Input[0], ds[0].Reasons[0].Code = 'X', "changed"
	es, err := h.Events(ctx, "a", 0, 0)
	h.must(err)
	es[0].Note = "changed"
	st, err := h.State(ctx, "a")
	h.must(err)
	st["k"][0] = 'X'
	st["new"] = nil
	runs, err := h.Runs(ctx, "", 0)
	h.must(err)
	runs[0].Labels["team"] = "changed"
	claimed, err := h.Claim(ctx, "a", fence.Owner, fence.Epoch)
	h.must(err)
	claimed.Labels["team"] = "changed"

	h.equal("everything", h.everything("a"), before)
}

// testManyRuns lets many goroutines commit to runs of their own.
func testManyRuns(t *testing.T, h *harness) {
	const writers, commits = 32, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			id := batch.RunID(fmt.Sprintf("run-%02d", w))
			r := newRun(id)
			for n := range commits {
				r.LastSeq = uint64(n + 1)
				err := h.Commit(ctx, &batch.Commit{
					Run: r, Expect: uint64(n),
					Events: []batch.Event{{Seq: r.LastSeq, Kind: batch.EventCallExecuting, Time: epoch, Step: n + 1}},
					State:  []batch.StateWrite{{Key: "n", Value: json.RawMessage(fmt.Sprint(n))}},
				})
				if err != nil {
					t.Errorf("run %s commit %d: %v", id, n, err)
					return
				}
				got, err := h.Run(ctx, id)
				if err != nil || got.Version != uint64(n+1) {
					t.Errorf("run %s: its own commit %d is not seen: %+v, %v", id, n, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	h.Store = h.reopen()
	for w := range writers {
		id := batch.RunID(fmt.Sprintf("run-%02d", w))
		h.equal("version", h.head(id).Version, uint64(commits))
		events, err := h.Events(ctx, id, 0, 0)
		h.must(err)
		h.equal("events", len(events), commits)
	}
}

// testOneWinner lets many goroutines commit to one run. Whoever commits a version
// also writes its name: names, versions and events must agree at the end.
func testOneWinner(t *testing.T, h *harness) {
	const writers, wins = 16, 8
	h.create("a")
	var wg sync.WaitGroup
	var total atomic.Int64
	for w := range writers {
		wg.Go(func() {
			for won := 0; won < wins; {
				r, err := h.Run(ctx, "a")
				if err != nil {
					t.Error(err)
					return
				}
				expect := r.Version
				r.LastSeq++
				err = h.Commit(ctx, &batch.Commit{
					Run: r, Expect: expect,
					Events: []batch.Event{{Seq: r.LastSeq, Kind: batch.EventCallExecuting, Time: epoch, Index: w, Note: fmt.Sprint(expect)}},
				})
				switch {
				case err == nil:
					won++
					total.Add(1)
				case !errors.Is(err, batch.ErrConflict):
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	h.equal("commits that won", total.Load(), int64(writers*wins))
	h.equal("version", h.head("a").Version, uint64(writers*wins+1))
	events, err := h.Events(ctx, "a", 0, 0)
	h.must(err)
	h.equal("events", len(events), writers*wins)
	for i, e := range events {
		h.equal("version an event was committed on", e.Note, fmt.Sprint(i+1))
	}
}

// testReadDuringWrites reads snapshots while a batch moves: head, calls and
// events of one commit are seen together or not at all.
func testReadDuringWrites(t *testing.T, h *harness) {
	const calls = 40
	b := h.request("a", calls)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := h.Batch(ctx, "a", 1)
				if err != nil {
					t.Error(err)
					return
				}
				if terminal := got.Next() < 0; terminal != (got.Phase == batch.BatchFinalized) {
					t.Errorf("phase %s with next call %d", got.Phase, got.Next())
					return
				}
			}
		})
	}
	for i := range calls {
		h.must(b.Complete(i, batch.ErrorOutput(b.Calls[i].Call.ID, "no"), batch.AnswerBlocked, epoch))
		if i == calls-1 {
			h.must(b.Finalize(epoch))
		}
		h.commit("a", func(c *batch.Commit) { c.Batch, c.Changed = b, []int{i} })
	}
	close(done)
	wg.Wait()
}

func testReopen(_ *testing.T, h *harness) {
	b := h.request("a", 2)
	h.must(b.Await(0, "t"))
	h.commit("a", func(c *batch.Commit) {
		c.Batch, c.Changed = b, []int{0}
		c.Tickets = []*batch.Ticket{newTicket("t", "a", epoch)}
		c.Decisions = []*batch.DecisionRecord{newDecision("a", 1, 0, 1)}
		c.Events = []batch.Event{{Kind: batch.EventCallAwaiting, Time: epoch, Ticket: "t"}}
		c.State = []batch.StateWrite{{Key: "k", Value: json.RawMessage(`{ }`)}}
	})
	before := h.everything("a")
	for range 3 {
		h.Store = h.reopen()
		h.equal("everything", h.everything("a"), before)
	}
	h.commit("a", nil)
	h.Store = h.reopen()
	h.equal("version", h.head("a").Version, uint64(4))
}

// calls are all methods that take a context.
func (h *harness) calls() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Commit":    func(ctx context.Context) error { return h.Commit(ctx, &batch.Commit{Run: newRun("new")}) },
		"Claim":     func(ctx context.Context) error { _, err := h.Claim(ctx, "a", "x", 99); return err },
		"Run":       func(ctx context.Context) error { _, err := h.Run(ctx, "a"); return err },
		"Runs":      func(ctx context.Context) error { _, err := h.Runs(ctx, "", 0); return err },
		"Open":      func(ctx context.Context) error { _, err := h.Open(ctx); return err },
		"Batch":     func(ctx context.Context) error { _, err := h.Batch(ctx, "a", 1); return err },
		"Ticket":    func(ctx context.Context) error { _, err := h.Ticket(ctx, "t"); return err },
		"Tickets":   func(ctx context.Context) error { _, err := h.Tickets(ctx, batch.TicketFilter{}); return err },
		"Decisions": func(ctx context.Context) error { _, err := h.Decisions(ctx, "a"); return err },
		"Events":    func(ctx context.Context) error { _, err := h.Events(ctx, "a", 0, 0); return err },
		"State":     func(ctx context.Context) error { _, err := h.State(ctx, "a"); return err },
	}
}

func testContext(t *testing.T, h *harness) {
	h.request("a", 1)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, call := range h.calls() {
		if err := call(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	_, err := h.Run(ctx, "new")
	h.refused(err, batch.ErrNotFound)
	h.equal("fence", h.head("a").Fence, fence)

	// A context that ends under way does not tear a commit: it is there whole or
	// not at all, and a nil error means it is there.
	for i := range 30 {
		racing, cancel := context.WithCancel(ctx)
		c := h.next("a", func(c *batch.Commit) {
			c.Events = []batch.Event{{Kind: batch.EventCallExecuting, Time: epoch, Note: fmt.Sprint(i)}}
		})
		go cancel()
		err := h.Commit(racing, c)
		r := h.head("a")
		events, evErr := h.Events(ctx, "a", 0, 0)
		h.must(evErr)
		if uint64(len(events)) != r.LastSeq || err == nil && r.Version != c.Expect+1 || r.Version != c.Expect && r.Version != c.Expect+1 {
			t.Fatalf("commit returned %v; version %d, expected %d, %d events, last_seq %d", err, r.Version, c.Expect, len(events), r.LastSeq)
		}
	}
}

func testClose(t *testing.T, h *harness) {
	h.request("a", 1)
	// Commits under way are waited for: each is either done or refused.
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for n := range 50 {
				err := h.Commit(ctx, &batch.Commit{Run: newRun(batch.RunID(fmt.Sprintf("w%d-%d", w, n)))})
				switch {
				case err == nil:
					done.Add(1)
				case errors.Is(err, batch.ErrClosed):
					return
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	h.must(h.Close())
	wg.Wait()
	for name, call := range h.calls() {
		if err := call(ctx); !errors.Is(err, batch.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	h.must(h.Close())
	h.Store = h.reopen()
	runs, err := h.Runs(ctx, "", 0)
	h.must(err)
	h.equal("runs whose commit was acknowledged", int64(len(runs)-1), done.Load())
}
