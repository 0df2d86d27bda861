package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func testEvents(_ *testing.T, h *harness) {
	h.create("a")
	var want []batch.Event
	for n := 0; len(want) < 300; n++ {
		h.commit("a", func(c *batch.Commit) {
			for i := range n % 4 {
				c.Events = append(c.Events, batch.Event{
					Time: epoch.Add(time.Duration(n) * time.Second), Kind: batch.EventCallExecuting, Step: n + 1, Index: i - 1,
					Attempt: i, Ticket: "t", Note: fmt.Sprint("note ", n),
				})
			}
		})
		r := h.head("a")
		events, err := h.Events(ctx, "a", uint64(len(want)), 0)
		h.must(err)
		for i, e := range events {
			h.equal("seq", e.Seq, uint64(len(want)+i+1))
		}
		h.equal("new events", len(events), n%4)
		want = append(want, events...)
		h.equal("last_seq", r.LastSeq, uint64(len(want)))
	}
	h.Store = h.reopen()
	for _, tt := range []struct{ after, limit, from, to int }{
		{0, 0, 0, len(want)}, {0, 1, 0, 1}, {0, 7, 0, 7}, {1, 3, 1, 4}, {250, 0, 250, len(want)}, {255, 10, 255, 265},
		{len(want) - 1, 0, len(want) - 1, len(want)}, {len(want), 0, 0, 0}, {len(want) + 5, 3, 0, 0}, {0, 1000, 0, len(want)},
	} {
		got, err := h.Events(ctx, "a", uint64(tt.after), tt.limit)
		h.must(err)
		if len(got) != tt.to-tt.from {
			h.t.Fatalf("after %d limit %d: %d events, want %d", tt.after, tt.limit, len(got), tt.to-tt.from)
		}
		for i := range got {
			h.equal("event", got[i], want[tt.from+i])
		}
	}
}

func testEventHoles(_ *testing.T, h *harness) {
	h.create("a")
	h.commit("a", func(c *batch.Commit) { c.Events = []batch.Event{{Kind: batch.EventBatchRequested, Time: epoch}} })
	for _, tt := range []struct {
		name    string
		seqs    []uint64
		lastSeq uint64
	}{
		{"skips one", []uint64{3}, 3},
		{"repeats one", []uint64{1}, 1},
		{"repeats one and says otherwise", []uint64{1}, 2},
		{"hole inside", []uint64{2, 4}, 4},
		{"backwards", []uint64{3, 2}, 3},
		{"starts at zero", []uint64{0}, 0},
		{"last_seq behind", []uint64{2, 3}, 2},
		{"last_seq ahead", []uint64{2}, 3},
		{"last_seq alone", nil, 2},
		{"last_seq back", nil, 0},
	} {
		c := h.next("a", nil)
		c.Run.LastSeq = tt.lastSeq
		for _, s := range tt.seqs {
			c.Events = append(c.Events, batch.Event{Seq: s, Kind: batch.EventCallExecuting, Time: epoch})
		}
		if err := h.Commit(ctx, c); err == nil {
			h.t.Fatalf("%s: accepted", tt.name)
		}
	}
	events, err := h.Events(ctx, "a", 0, 0)
	h.must(err)
	h.equal("events", len(events), 1)
	h.equal("version", h.head("a").Version, uint64(2))
}

func testDecisions(_ *testing.T, h *harness) {
	h.create("a")
	add := func(ds ...*batch.DecisionRecord) error {
		return h.Commit(ctx, h.next("a", func(c *batch.Commit) { c.Decisions = ds }))
	}
	// Written out of order, listed by step, index and seq as numbers.
	order := [][3]int{{1, 0, 1}, {1, 0, 2}, {1, 0, 10}, {1, 2, 1}, {1, 10, 1}, {2, 0, 1}, {10, 0, 1}}
	for i := range order {
		o := order[(i*5)%len(order)]
		h.must(add(newDecision("a", o[0], o[1], o[2])))
	}
	h.refused(add(newDecision("a", 1, 0, 2)), batch.ErrConflict)
	h.refused(add(newDecision("a", 3, 0, 1), newDecision("a", 1, 10, 1)), batch.ErrConflict)
	h.refused(add(newDecision("a", 3, 0, 1), newDecision("a", 3, 0, 1)), batch.ErrConflict)
	if add(newDecision("b", 1, 0, 1)) == nil || add(newDecision("a", 1, 1, 0)) == nil {
		h.t.Fatal("a decision of another run, or with seq 0, was accepted")
	}
	bare := newDecision("a", 11, 0, 1)
	bare.Input, bare.Grant, bare.Reasons = nil, nil, nil
	bare.Approval = &batch.Approval{Kind: batch.TicketPermission, Ticket: "t", By: []string{"bob"}, At: epoch, Requested: epoch}
	h.must(add(bare))
	h.Store = h.reopen()
	got, err := h.Decisions(ctx, "a")
	h.must(err)
	h.equal("number", len(got), len(order)+1)
	for i, o := range order {
		h.equal("decision", got[i], newDecision("a", o[0], o[1], o[2]))
	}
	h.equal("bare decision", got[len(order)], bare)
}

func testTickets(_ *testing.T, h *harness) {
	h.create("a")
	h.create("b")
	put := func(ts ...*batch.Ticket) {
		h.t.Helper()
		h.commit(ts[0].Run, func(c *batch.Commit) { c.Tickets = ts })
	}
	list := func(f batch.TicketFilter) (ids []batch.TicketID) {
		h.t.Helper()
		ts, err := h.Tickets(ctx, f)
		h.must(err)
		for _, t := range ts {
			one, err := h.Ticket(ctx, t.ID)
			h.must(err)
			h.equal("listed ticket", t, one)
			ids = append(ids, t.ID)
		}
		return ids
	}
	h.equal("tickets of an empty store", len(list(batch.TicketFilter{})), 0)
	put(newTicket("late", "a", epoch.Add(time.Hour)))
	put(newTicket("z", "a", epoch), newTicket("y", "a", epoch))
	put(newTicket("x", "b", epoch.Add(time.Minute)))
	put(newTicket("x.2", "b", epoch.Add(time.Nanosecond)))
	h.equal("all", list(batch.TicketFilter{}), []batch.TicketID{"y", "z", "x.2", "x", "late"})
	h.equal("of run a", list(batch.TicketFilter{Run: "a"}), []batch.TicketID{"y", "z", "late"})

	closed := newTicket("z", "a", epoch)
	closed.Status, closed.ClosedAt = batch.TicketApproved, epoch.Add(time.Hour)
	closed.Decisions = []batch.TicketDecision{{By: "bob", Approve: true, Reason: "fine", At: epoch}}
	put(closed)
	for range 2 {
		got, err := h.Ticket(ctx, "z")
		h.must(err)
		h.equal("closed ticket", got, closed)
		h.equal("open", list(batch.TicketFilter{Open: true}), []batch.TicketID{"y", "x.2", "x", "late"})
		h.equal("open of run a", list(batch.TicketFilter{Run: "a", Open: true}), []batch.TicketID{"y", "late"})
		h.equal("of run a", list(batch.TicketFilter{Run: "a"}), []batch.TicketID{"y", "z", "late"})
		h.Store = h.reopen()
	}
}

func testForeignTicket(_ *testing.T, h *harness) {
	h.create("a")
	h.create("b")
	h.commit("a", func(c *batch.Commit) { c.Tickets = []*batch.Ticket{newTicket("t", "a", epoch)} })
	if err := h.Commit(ctx, h.next("b", func(c *batch.Commit) { c.Tickets = []*batch.Ticket{newTicket("u", "a", epoch)} })); err == nil {
		h.t.Fatal("a commit to run b wrote a ticket of run a")
	}
	h.refused(h.Commit(ctx, h.next("b", func(c *batch.Commit) { c.Tickets = []*batch.Ticket{newTicket("t", "b", epoch)} })), batch.ErrConflict)
	got, err := h.Ticket(ctx, "t")
	h.must(err)
	h.equal("owner", got.Run, batch.RunID("a"))
}

func testState(_ *testing.T, h *harness) {
	h.create("a")
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	write := func(ws ...batch.StateWrite) {
		h.t.Helper()
		h.commit("a", func(c *batch.Commit) { c.State = ws })
	}
	expect := func(want map[string]json.RawMessage) {
		h.t.Helper()
		got, err := h.State(ctx, "a")
		h.must(err)
		h.equal("state", got, want)
	}
	expect(map[string]json.RawMessage{})
	write(batch.StateWrite{Key: "text/n", Value: raw(`1`)}, batch.StateWrite{Key: "text/o", Value: raw(`{ "b" : 1,  "a" : "<&>" }`)})
	expect(map[string]json.RawMessage{"text/n": raw(`1`), "text/o": raw(`{ "b" : 1,  "a" : "<&>" }`)})
	write(batch.StateWrite{Key: "text/n", Value: raw(`2`)}, batch.StateWrite{Key: "text/n", Value: raw(`3`)},
		batch.StateWrite{Key: "text/o"}, batch.StateWrite{Key: "never/was"})
	expect(map[string]json.RawMessage{"text/n": raw(`3`)})
	// In order: deleted and set again, set and deleted again.
	write(batch.StateWrite{Key: "text/n"}, batch.StateWrite{Key: "text/n", Value: raw(`null`)},
		batch.StateWrite{Key: "p/new", Value: raw(`[]`)}, batch.StateWrite{Key: "p/new"})
	expect(map[string]json.RawMessage{"text/n": raw(`null`)})
	write(batch.StateWrite{Key: "text/n.x", Value: raw(`4`)}, batch.StateWrite{Key: "é/\x00", Value: raw(`5`)})
	h.Store = h.reopen()
	expect(map[string]json.RawMessage{"text/n": raw(`null`), "text/n.x": raw(`4`), "é/\x00": raw(`5`)})
	write(batch.StateWrite{Key: "text/n"}, batch.StateWrite{Key: "text/n.x"}, batch.StateWrite{Key: "é/\x00"})
	expect(map[string]json.RawMessage{})
}
