package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// finished makes a run with something of every kind, whose one batch is
// finalized.
func (h *harness) finished(id batch.RunID, calls int) {
	h.t.Helper()
	b := h.request(id, calls)
	for i := range b.Calls {
		out := &batch.Output{CallID: b.Calls[i].Call.ID, Content: []batch.ContentBlock{batch.TextBlock("done")}}
		h.must(b.Complete(i, out, batch.AnswerPolicy, epoch))
	}
	h.must(b.Finalize(epoch))
	h.commit(id, func(c *batch.Commit) {
		c.Batch, c.Run.LastStep = b, 1
		for i := range b.Calls {
			c.Changed = append(c.Changed, i)
			c.Decisions = append(c.Decisions, newDecision(id, 1, i, 1))
			c.Events = append(c.Events, batch.Event{Kind: batch.EventCallCompleted, Time: epoch, Step: 1, Index: i})
		}
		c.Tickets = []*batch.Ticket{newTicket("t-"+batch.TicketID(id), id, epoch), newTicket("u-"+batch.TicketID(id), id, epoch)}
		c.Tickets[1].Status = batch.TicketCancelled
		c.State = []batch.StateWrite{{Key: "text/n", Value: json.RawMessage(`1`)}, {Key: "text/o", Value: json.RawMessage(`2`)}}
	})
}

// gone fails when a method still shows something of a run.
func (h *harness) gone(id batch.RunID) {
	h.t.Helper()
	_, err := h.Run(ctx, id)
	h.refused(err, batch.ErrNotFound)
	_, err = h.Batch(ctx, id, 1)
	h.refused(err, batch.ErrNotFound)
	_, err = h.Ticket(ctx, "t-"+batch.TicketID(id))
	h.refused(err, batch.ErrNotFound)
	_, err = h.Claim(ctx, id, "host-9", 99)
	h.refused(err, batch.ErrNotFound)
	runs, err := h.Runs(ctx, "", 0)
	h.must(err)
	for _, r := range runs {
		if r.ID == id {
			h.t.Fatalf("run %s is still listed", id)
		}
	}
	for _, f := range []batch.TicketFilter{{}, {Open: true}, {Run: id}, {Run: id, Open: true}} {
		tickets, err := h.Tickets(ctx, f)
		h.must(err)
		for _, t := range tickets {
			if t.Run == id {
				h.t.Fatalf("ticket %s of run %s is still listed by %+v", t.ID, id, f)
			}
		}
	}
	events, err := h.Events(ctx, id, 0, 0)
	h.must(err)
	decisions, err := h.Decisions(ctx, id)
	h.must(err)
	state, err := h.State(ctx, id)
	h.must(err)
	if len(events)+len(decisions)+len(state) > 0 {
		h.t.Fatalf("run %s has left %d events, %d decisions, %d state keys", id, len(events), len(decisions), len(state))
	}
}

func testDelete(_ *testing.T, h *harness) {
	h.refused(h.Delete(ctx, "nobody", 1), batch.ErrNotFound)
	h.finished("a", 2)
	h.finished("a.b", 2)
	h.finished("b", 2)
	before, other := h.everything("a.b"), h.everything("b")[0]

	version := h.head("a").Version
	for _, expect := range []uint64{0, version - 1, version + 1} {
		h.refused(h.Delete(ctx, "a", expect), batch.ErrConflict)
	}
	h.commit("a", func(c *batch.Commit) { c.Run.OpenStep = 1 })
	h.refused(h.Delete(ctx, "a", version+1), batch.ErrInvalid)
	h.commit("a", func(c *batch.Commit) { c.Run.OpenStep = 0 })
	h.refused(h.Delete(ctx, "a", version), batch.ErrConflict)
	h.equal("version after refusals", h.head("a").Version, version+2)
	stale := h.next("a", nil)

	h.must(h.Delete(ctx, "a", version+2))
	for range 2 {
		h.gone("a")
		h.refused(h.Commit(ctx, stale), batch.ErrConflict)
		h.refused(h.Delete(ctx, "a", version+2), batch.ErrNotFound)
		after := h.everything("a.b")
		h.equal("a run beside it", after[0], before[0])
		h.equal("its batch", after[1], before[1])
		h.equal("its decisions, events and state", after[6:], before[6:])
		h.equal("another run", h.head("b"), other)
		h.Store = h.reopen()
	}

	// The names are free again, and nothing of old comes back with them.
	h.create("a")
	h.equal("version", h.head("a").Version, uint64(1))
	_, err := h.Batch(ctx, "a", 1)
	h.refused(err, batch.ErrNotFound)
	state, err := h.State(ctx, "a")
	h.must(err)
	h.equal("state", state, map[string]json.RawMessage{})
	h.commit("b", func(c *batch.Commit) { c.Tickets = []*batch.Ticket{newTicket("u-a", "b", epoch)} })
	tickets, err := h.Tickets(ctx, batch.TicketFilter{Run: "a"})
	h.must(err)
	h.equal("tickets", len(tickets), 0)
	h.must(h.Delete(ctx, "a", 1))
	h.gone("a")
	got, err := h.Ticket(ctx, "u-a")
	h.must(err)
	h.equal("owner of a ticket of that name", got.Run, batch.RunID("b"))
}

// testDeleteWhole reads a run while it is deleted and made again.
func testDeleteWhole(t *testing.T, h *harness) {
	const calls = 300
	h.finished("a", calls)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				b, err := h.Batch(ctx, "a", 1)
				switch {
				case errors.Is(err, batch.ErrNotFound):
				case err != nil:
					t.Error(err)
				case len(b.Calls) != calls:
					t.Errorf("a batch with %d calls", len(b.Calls))
				}
				decisions, err := h.Decisions(ctx, "a")
				if err != nil || len(decisions) != 0 && len(decisions) != calls {
					t.Errorf("%d decisions, %v", len(decisions), err)
				}
				events, err := h.Events(ctx, "a", 0, 0)
				if err != nil || len(events) != 0 && len(events) != calls {
					t.Errorf("%d events, %v", len(events), err)
				}
				tickets, err := h.Tickets(ctx, batch.TicketFilter{})
				if err != nil || len(tickets) != 0 && len(tickets) != 2 {
					t.Errorf("%d tickets, %v", len(tickets), err)
				}
			}
		})
	}
	for range 4 {
		h.must(h.Delete(ctx, "a", h.head("a").Version))
		h.finished("a", calls)
	}
	close(done)
	readers.Wait()
}

// testDeleteRace lets deletions and commits of one run meet: every version has
// one winner.
func testDeleteRace(t *testing.T, h *harness) {
	for n := range 10 {
		id := batch.RunID(fmt.Sprint("r", n))
		h.finished(id, 3)
		c := h.next(id, func(c *batch.Commit) {
			c.State = []batch.StateWrite{{Key: "late", Value: json.RawMessage(`1`)}}
		})
		var wg sync.WaitGroup
		var committed, deleted error
		wg.Go(func() { committed = h.Commit(ctx, c) })
		wg.Go(func() { deleted = h.Delete(ctx, id, c.Expect) })
		wg.Wait()
		switch {
		case (committed == nil) == (deleted == nil):
			t.Fatalf("commit: %v; deletion: %v", committed, deleted)
		case committed == nil:
			h.refused(deleted, batch.ErrConflict)
			state, err := h.State(ctx, id)
			h.must(err)
			h.equal("state keys", len(state), 3)
		default:
			h.refused(committed, batch.ErrConflict)
			h.gone(id)
		}
	}
}

// testRunControl keeps what says who ended a run, and what a person found out.
func testRunControl(_ *testing.T, h *harness) {
	want := newRun("a")
	want.Parent, want.Depth = batch.NewOperationID("root", 3, 1), 2
	h.must(h.Commit(ctx, &batch.Commit{Run: want}))
	want.Version = 1
	h.equal("child run", h.head("a"), want)

	b := newBatch("a", 1, 3)
	b.Calls[0].Pin.Client, b.Calls[1].Pin.Delegate = true, true
	h.commit("a", func(c *batch.Commit) { c.Batch, c.NewBatch = b, true })
	h.equal("pins", h.batch("a", 1), b)

	h.must(b.Complete(0, batch.ErrorOutput(b.Calls[0].Call.ID, "enough"), batch.AnswerPolicy, epoch))
	b.Calls[0].Answer = batch.AnswerCancelled
	events := []batch.Event{
		{Seq: 1, Time: epoch, Kind: batch.EventRunCancelled, Index: -1, By: "ann@example.com", Note: "enough"},
		{Seq: 2, Time: epoch, Kind: batch.EventCallAmended, Step: 1, By: "bob"},
		{Seq: 3, Time: epoch, Kind: batch.EventCallAmended, Step: 1, Index: 1, By: "bob", Output: &batch.Output{
			CallID: "c", Content: []batch.ContentBlock{batch.JSONBlock([]byte(`{ "a": 1 }`)), batch.TextBlock("")}, State: nil}},
	}
	cancelled := &batch.Cancellation{By: "ann@example.com", At: epoch.Add(time.Minute), Reason: "enough"}
	closed := newTicket("t", "a", epoch)
	closed.Status = batch.TicketCancelled
	h.commit("a", func(c *batch.Commit) {
		c.Run.Cancelled, c.Batch, c.Changed = cancelled, b, []int{0}
		c.Events, c.Tickets = clone(events), []*batch.Ticket{closed}
	})
	for range 2 {
		h.equal("cancelled run", h.head("a").Cancelled, cancelled)
		h.equal("parent", h.head("a").Parent, want.Parent)
		h.equal("cancelled call", h.batch("a", 1).Calls[0].Answer, batch.AnswerCancelled)
		got, err := h.Events(ctx, "a", 0, 0)
		h.must(err)
		h.equal("events", got, events)
		t, err := h.Ticket(ctx, "t")
		h.must(err)
		h.equal("ticket", t, closed)
		h.Store = h.reopen()
	}
	claimed, err := h.Claim(ctx, "a", "host-2", 9)
	h.must(err)
	h.equal("cancellation after a claim", claimed.Cancelled, cancelled)
	h.equal("depth after a claim", h.head("a").Depth, 2)
}
