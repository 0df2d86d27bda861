package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func testCreate(_ *testing.T, h *harness) {
	want := newRun("a")
	h.must(h.Commit(ctx, &batch.Commit{Run: want}))
	want.Version = 1
	h.equal("run", h.head("a"), want)
}

func testVersion(_ *testing.T, h *harness) {
	h.create("a")
	for v := uint64(2); v < 6; v++ {
		h.commit("a", func(c *batch.Commit) {
			c.Run.Version = 99 // what the committer writes there is ignored
			c.Run.Agent = fmt.Sprint("agent-", v)
			c.Run.UpdatedAt = epoch.Add(time.Duration(v) * time.Second)
		})
		r := h.head("a")
		if r.Version != v || r.Agent != fmt.Sprint("agent-", v) || !r.UpdatedAt.Equal(epoch.Add(time.Duration(v)*time.Second)) {
			h.t.Fatalf("after the commit that expects %d: %+v", v-1, r)
		}
	}
}

func testConflict(_ *testing.T, h *harness) {
	h.refused(h.Commit(ctx, &batch.Commit{Run: newRun("a"), Expect: 1}), batch.ErrConflict)
	h.create("a")
	h.refused(h.Commit(ctx, &batch.Commit{Run: newRun("a")}), batch.ErrConflict)
	for _, expect := range []uint64{2, 3, 1 << 62} {
		c := h.next("a", nil)
		c.Expect = expect
		h.refused(h.Commit(ctx, c), batch.ErrConflict)
	}
	stale := h.next("a", nil)
	h.commit("a", nil)
	h.refused(h.Commit(ctx, stale), batch.ErrConflict)
	h.equal("version", h.head("a").Version, uint64(2))
}

func testCommitUntouched(_ *testing.T, h *harness) {
	h.create("a")
	c := h.next("a", func(c *batch.Commit) {
		c.Batch, c.NewBatch = newBatch("a", 1, 2), true
		c.Batch.Calls[0].Call.Attempt = 7
		c.Tickets = []*batch.Ticket{newTicket("t", "a", epoch)}
		c.Decisions = []*batch.DecisionRecord{newDecision("a", 1, 0, 1)}
		c.Events = []batch.Event{{Kind: batch.EventBatchRequested, Time: epoch, Step: 1, Index: -1}}
		c.State = []batch.StateWrite{{Key: "text/n", Value: json.RawMessage(`1`)}}
	})
	before := clone(c)
	h.must(h.Commit(ctx, c))
	h.equal("commit", c, before)

	// Whoever reuses the memory of a commit must not reach what is stored.
	c.Run.Labels["team"] = "other"
	c.Batch.Message[0], c.Batch.Calls[0].Call.Arguments[0] = 'X', 'X'
	c.Tickets[0].Approvers[0] = "eve"
	c.Decisions[0].Input[0] = 'X'
	c.State[0].Value[0] = '9'
	h.equal("labels", h.head("a").Labels, before.Run.Labels)
	b := h.batch("a", 1)
	h.equal("message", b.Message, before.Batch.Message)
	h.equal("arguments", b.Calls[0].Call.Arguments, before.Batch.Calls[0].Call.Arguments)
	tk, err := h.Ticket(ctx, "t")
	h.must(err)
	h.equal("ticket", tk, before.Tickets[0])
	ds, err := h.Decisions(ctx, "a")
	h.must(err)
	h.equal("decisions", ds, before.Decisions)
	st, err := h.State(ctx, "a")
	h.must(err)
	h.equal("state", st, map[string]json.RawMessage{"text/n": json.RawMessage(`1`)})
}

func testFence(_ *testing.T, h *harness) {
	h.create("a")
	for _, f := range []batch.Fence{{}, {Owner: "host-2", Epoch: 3}, {Owner: "host-1", Epoch: 2}, {Owner: "host-1", Epoch: 4}} {
		h.refused(h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Run.Fence = f })), batch.ErrFenced)
	}
	h.equal("run", h.head("a").Version, uint64(1))
	h.commit("a", nil)
}

func testClaim(_ *testing.T, h *harness) {
	h.create("a")
	stale := h.next("a", nil)

	same, err := h.Claim(ctx, "a", fence.Owner, fence.Epoch)
	h.must(err)
	h.equal("equal claim", same, h.head("a"))
	h.equal("version after an equal claim", same.Version, uint64(1))

	for _, f := range []batch.Fence{{Owner: "host-2", Epoch: 3}, {Owner: "host-2", Epoch: 2}, {Owner: "host-1", Epoch: 2}, {Owner: "host-1"}} {
		_, err := h.Claim(ctx, "a", f.Owner, f.Epoch)
		h.refused(err, batch.ErrFenced)
	}
	h.equal("version after refused claims", h.head("a").Version, uint64(1))

	got, err := h.Claim(ctx, "a", "host-2", 4)
	h.must(err)
	want := newRun("a")
	want.Version, want.Fence = 2, batch.Fence{Owner: "host-2", Epoch: 4}
	h.equal("claimed run", got, want)
	h.equal("stored run", h.head("a"), want)

	// The owner before may not commit, with the old version or the new one.
	h.refused(h.Commit(ctx, stale), batch.ErrFenced)
	stale.Expect = 2
	h.refused(h.Commit(ctx, stale), batch.ErrFenced)
	_, err = h.Claim(ctx, "a", fence.Owner, fence.Epoch)
	h.refused(err, batch.ErrFenced)

	h.commit("a", nil)
	h.equal("version", h.head("a").Version, uint64(3))
	h.Store = h.reopen()
	h.equal("fence after a restart", h.head("a").Fence, want.Fence)
	_, err = h.Claim(ctx, "a", "host-3", 4)
	h.refused(err, batch.ErrFenced)
}

func testClaimUnknown(_ *testing.T, h *harness) {
	_, err := h.Claim(ctx, "nobody", "host-1", 1)
	h.refused(err, batch.ErrNotFound)
	_, err = h.Run(ctx, "nobody")
	h.refused(err, batch.ErrNotFound)
}

func testUnknownRun(_ *testing.T, h *harness) {
	h.create("known")
	for _, id := range []batch.RunID{"nobody", "know", "known.2"} {
		_, err := h.Run(ctx, id)
		h.refused(err, batch.ErrNotFound)
		_, err = h.Batch(ctx, id, 1)
		h.refused(err, batch.ErrNotFound)
		_, err = h.Ticket(ctx, batch.TicketID(id))
		h.refused(err, batch.ErrNotFound)
		events, err := h.Events(ctx, id, 0, 0)
		h.must(err)
		decisions, err := h.Decisions(ctx, id)
		h.must(err)
		tickets, err := h.Tickets(ctx, batch.TicketFilter{Run: id})
		h.must(err)
		state, err := h.State(ctx, id)
		h.must(err)
		if len(events)+len(decisions)+len(tickets)+len(state) > 0 {
			h.t.Fatalf("run %s has records", id)
		}
	}
}

func testRuns(_ *testing.T, h *harness) {
	none, err := h.Runs(ctx, "", 0)
	h.must(err)
	h.equal("runs of an empty store", len(none), 0)
	order := []batch.RunID{"A", "a", "a-1", "a.1", "a.b", "a1", "a10", "a2", "aB", "a_b", "ab", "b"}
	for i := range order {
		h.create(order[(i*7)%len(order)])
	}
	ids := func(after batch.RunID, limit int) (out []batch.RunID) {
		runs, err := h.Runs(ctx, after, limit)
		h.must(err)
		for _, r := range runs {
			h.equal("listed run", r, h.head(r.ID))
			out = append(out, r.ID)
		}
		return out
	}
	h.equal("all", ids("", 0), order)
	h.equal("first three", ids("", 3), order[:3])
	h.equal("after a", ids("a", 2), order[2:4])
	h.equal("after one that does not exist", ids("a.", 0), order[3:])
	h.equal("after the last", len(ids("b", 0)), 0)
	h.equal("more than there are", ids("", 100), order)
}

// testIsolation uses names of which one is the beginning of another.
func testIsolation(_ *testing.T, h *harness) {
	names := []batch.RunID{"a", "a.b", "a-", "a0", "a.b.c"}
	for i, id := range names {
		h.request(id, 1)
		h.commit(id, func(c *batch.Commit) {
			c.Events = []batch.Event{{Kind: batch.EventBatchRequested, Note: string(id)}}
			c.Decisions = []*batch.DecisionRecord{newDecision(id, 1, 0, 1)}
			c.Tickets = []*batch.Ticket{newTicket(batch.TicketID("t-"+string(id)), id, epoch)}
			c.State = []batch.StateWrite{{Key: "k", Value: json.RawMessage(fmt.Sprint(i))}}
		})
	}
	for i, id := range names {
		events, err := h.Events(ctx, id, 0, 0)
		h.must(err)
		decisions, err := h.Decisions(ctx, id)
		h.must(err)
		tickets, err := h.Tickets(ctx, batch.TicketFilter{Run: id})
		h.must(err)
		state, err := h.State(ctx, id)
		h.must(err)
		if len(events) != 1 || len(decisions) != 1 || len(tickets) != 1 || len(state) != 1 {
			h.t.Fatalf("run %s has %d events, %d decisions, %d tickets, %d state keys", id, len(events), len(decisions), len(tickets), len(state))
		}
		h.equal("event", events[0].Note, string(id))
		h.equal("decision", decisions[0].Operation, batch.NewOperationID(id, 1, 0))
		h.equal("ticket", tickets[0].Run, id)
		h.equal("state", string(state["k"]), fmt.Sprint(i))
	}
}
