package batch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func yes(by string) batch.TicketAnswer { return batch.TicketAnswer{By: by, Approve: true} }

func TestApproval(t *testing.T) {
	w := newWorld(t)
	var asked []*batch.Approval
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		asked = append(asked, q.Approval)
		return confirm(batch.Confirmation{Prompt: "really?"})(q)
	}
	e := w.engine()
	b := w.submit(e, "r", "once", "once")
	wantCall(t, b, 0, "awaiting")
	wantCall(t, b, 1, "requested")
	tk := w.ticket()
	if tk.Kind != batch.TicketPermission || tk.Prompt != "really?" || tk.Tool != "once" || tk.ToolDigest != "d1" ||
		tk.ArgumentDigest != b.Calls[0].Call.ArgumentDigest() || tk.PolicyRevision != "rev" || !tk.Deadline.Equal(w.clock.Add(7*24*time.Hour)) {
		t.Errorf("ticket %+v", tk)
	}
	b, err := e.Decide(t.Context(), tk.ID, yes("bob"))
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/tool: {}")
	wantCall(t, b, 1, "awaiting")
	if len(asked) != 3 || asked[1] == nil || asked[1].Ticket != tk.ID || asked[1].By[0] != "bob" {
		t.Errorf("the gate was asked with %v", asked)
	}
	if _, err := e.Decide(t.Context(), tk.ID, yes("bob")); !errors.Is(err, batch.ErrTicketClosed) {
		t.Errorf("a second approval: %v", err)
	}
	if b, err = e.Decide(t.Context(), w.ticket().ID, batch.TicketAnswer{By: "bob", Reason: "too risky"}); err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 1, "completed/denied!: denied by bob: too risky")
	if b.Phase != batch.BatchFinalized || len(w.order) != 1 {
		t.Errorf("batch %s, ran %v", b.Phase, w.order)
	}
	ds, _ := w.store.Decisions(t.Context(), "r")
	if len(ds) != 3 || ds[1].Seq != 2 || ds[1].Approval == nil {
		t.Errorf("decision records %v", ds)
	}
}

func TestDecisionsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer batch.TicketAnswer
		want   error
	}{
		"nobody":          {yes(""), batch.ErrApprover},
		"the submitter":   {yes("alice"), batch.ErrApprover},
		"in capitals":     {yes("Alice"), batch.ErrApprover},
		"with a space":    {yes("bob "), batch.ErrBadID},
		"zero width":      {yes("bo\u200bb"), batch.ErrBadID},
		"a line":          {yes("bob\nroot"), batch.ErrBadID},
		"an escape":       {yes("bob\x1b[1m"), batch.ErrBadID},
		"not UTF-8":       {yes("bob\xff"), batch.ErrBadID},
		"too long":        {yes(strings.Repeat("b", 257)), batch.ErrBadID},
		"not an approver": {yes("eve"), batch.ErrApprover},
		"other arguments": {batch.TicketAnswer{By: "bob", Approve: true, ArgumentDigest: strings.Repeat("0", 64)}, batch.ErrArguments},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gate = confirm(batch.Confirmation{Approvers: []string{"alice", "bob"}})
			e := w.engine()
			r := request("r", 0, "once")
			r.Principal = "alice"
			if _, err := e.Submit(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			tk := w.ticket()
			if _, err := e.Decide(t.Context(), tk.ID, c.answer); !errors.Is(err, c.want) {
				t.Errorf("Decide: %v, want %v", err, c.want)
			}
			if len(w.order) != 0 || len(w.ticket().Decisions) != 0 {
				t.Errorf("ran %v, decisions %v", w.order, w.ticket().Decisions)
			}
			if _, err := e.Decide(t.Context(), tk.ID, batch.TicketAnswer{By: "bob", Approve: true, ArgumentDigest: tk.ArgumentDigest}); err != nil {
				t.Errorf("the right decision afterwards: %v", err)
			}
		})
	}
	t.Run("no such ticket", func(t *testing.T) {
		if _, err := newWorld(t).engine().Decide(t.Context(), "tk-none", yes("bob")); !errors.Is(err, batch.ErrNotFound) {
			t.Errorf("Decide: %v", err)
		}
	})
}

func TestQuorum(t *testing.T) {
	w := newWorld(t)
	w.gate = confirm(batch.Confirmation{Quorum: 2})
	e := w.engine()
	w.submit(e, "r", "once")
	id := w.ticket().ID
	b, err := e.Decide(t.Context(), id, yes("bob"))
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "awaiting")
	if _, err := e.Decide(t.Context(), id, yes("bob")); !errors.Is(err, batch.ErrAlreadyDecided) {
		t.Errorf("bob twice: %v", err)
	}
	for _, again := range []string{"Bob", "BOB"} {
		if _, err := e.Decide(t.Context(), id, yes(again)); !errors.Is(err, batch.ErrAlreadyDecided) {
			t.Errorf("bob again, as %q: %v", again, err)
		}
	}
	if b, err = w.engine().Decide(t.Context(), id, yes("carol")); err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/tool")

	w.submit(e, "r", `once {"n":2}`)
	id = w.ticket().ID
	if _, err := e.Decide(t.Context(), id, yes("bob")); err != nil {
		t.Fatal(err)
	}
	if b, err = e.Decide(t.Context(), id, batch.TicketAnswer{By: "carol"}); err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/denied!: denied by carol")
}

// One person is not two because of the spaces in a name.
func TestSpacesMakeNoOtherPerson(t *testing.T) {
	w := newWorld(t)
	w.gate = confirm(batch.Confirmation{Quorum: 2})
	e := w.engine()
	r := request("r", 0, "once")
	r.Principal = "Ada Lovelace"
	if _, err := e.Submit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	id := w.ticket().ID
	for _, spaces := range []string{"  ", "\u00a0", "\u3000", "\u2009 "} {
		if _, err := e.Decide(t.Context(), id, yes("Ada"+spaces+"Lovelace")); !errors.Is(err, batch.ErrApprover) {
			t.Errorf("the submitter with %+q: %v", spaces, err)
		}
	}
	if _, err := e.Decide(t.Context(), id, yes("Mary Shelley")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Decide(t.Context(), id, yes("mary\u00a0Shelley")); !errors.Is(err, batch.ErrAlreadyDecided) {
		t.Errorf("the same approver: %v", err)
	}
	if len(w.order) != 0 {
		t.Errorf("ran %v", w.order)
	}
}

func TestLateDecision(t *testing.T) {
	w := newWorld(t)
	w.gate = func(q *batch.Query) (*batch.Decision, error) {
		if q.Call.Index == 1 {
			return allow(), nil
		}
		return confirm(batch.Confirmation{Timeout: time.Hour})(q)
	}
	e := w.engine()
	w.submit(e, "r", "once", "echo")
	id := w.ticket().ID
	w.pass(time.Hour)
	b, err := e.Decide(t.Context(), id, yes("bob"))
	if !errors.Is(err, batch.ErrTicketLate) || b == nil {
		t.Fatalf("Decide: %v, %v", b, err)
	}
	wantCall(t, b, 0, "completed/expired!: nobody decided by 2026-03-29T01:30:00Z; nothing ran")
	wantCall(t, b, 1, "completed/tool")
	if tk, _ := w.store.Ticket(t.Context(), id); tk.Status != batch.TicketExpired {
		t.Errorf("ticket is %s", tk.Status)
	}
	if _, err := e.Decide(t.Context(), id, yes("bob")); !errors.Is(err, batch.ErrTicketClosed) {
		t.Errorf("once more: %v", err)
	}
}

// TestAskedAgain: a gate that parks a call which came back blocks it.
func TestAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.gate = func(*batch.Query) (*batch.Decision, error) {
		return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{}}, nil
	}
	e := w.engine()
	w.submit(e, "r", "once")
	b, err := e.Decide(t.Context(), w.ticket().ID, yes("bob"))
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/blocked!: blocked by policy: policy answered require_confirmation for a call that came back from a permission ticket")
	if len(w.order) != 0 {
		t.Errorf("ran %v", w.order)
	}
}

// TestAfterApproval: the gate is asked again, under the policy of now, and a tool
// that changed ends the call.
func TestAfterApproval(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*world)
		want      string
	}{
		"policy blocks": {func(w *world) {
			w.gate = func(*batch.Query) (*batch.Decision, error) {
				return &batch.Decision{Outcome: batch.OutcomeBlock}, nil
			}
		}, "completed/blocked!: blocked by policy"},
		"policy answers": {func(w *world) {
			w.gate = func(*batch.Query) (*batch.Decision, error) {
				return &batch.Decision{Outcome: batch.OutcomeSetResult, Result: &batch.Result{}}, nil
			}
		}, "completed/policy: "},
		"tool changed": {func(w *world) { w.tools["once"].d.Digest = "d2" }, "completed/changed!: tool once was changed or removed"},
		"tool gone":    {func(w *world) { delete(w.tools, "once") }, "completed/changed!"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gate = confirm(batch.Confirmation{})
			w.submit(w.engine(), "r", "once")
			c.meanwhile(w)
			b, err := w.engine().Decide(t.Context(), w.ticketOrClosed().ID, yes("bob"))
			if err != nil {
				t.Fatal(err)
			}
			wantCall(t, b, 0, c.want)
		})
	}
}

func (w *world) ticketOrClosed() *batch.Ticket {
	ts, _ := w.store.Tickets(w.t.Context(), batch.TicketFilter{})
	return ts[len(ts)-1]
}

// TestSchedule: fires once by time, also when the time passed while the host was
// down, or lies in the past; a clock set back does not fire it again.
func TestSchedule(t *testing.T) {
	at := func(d time.Duration) func(*world) {
		return func(w *world) {
			due := w.clock.Add(d)
			w.gate = func(q *batch.Query) (*batch.Decision, error) {
				if q.Approval != nil && q.Approval.Kind == batch.TicketSchedule {
					return allow(), nil
				}
				return &batch.Decision{Outcome: batch.OutcomeSchedule, At: due}, nil
			}
		}
	}
	t.Run("future", func(t *testing.T) {
		w := newWorld(t)
		at(time.Hour)(w)
		e := w.engine()
		b := w.submit(e, "r", "once")
		wantCall(t, b, 0, "awaiting")
		if _, err := e.Decide(t.Context(), w.ticket().ID, yes("bob")); !errors.Is(err, batch.ErrTicketKind) {
			t.Errorf("deciding a schedule: %v", err)
		}
		if runs, next, err := e.Due(t.Context()); len(runs) != 0 || !next.Equal(w.clock.Add(time.Hour)) || err != nil {
			t.Errorf("Due: %v, %v, %v", runs, next, err)
		}
		w.pass(59 * time.Minute)
		if n, err := e.Recover(t.Context()); n != 0 || err != nil {
			t.Errorf("before its time: %d, %v", n, err)
		}
		w.pass(25 * time.Hour) // the host was down
		e = w.engine()
		if runs, _, err := e.Due(t.Context()); len(runs) != 1 || err != nil {
			t.Errorf("Due: %v, %v", runs, err)
		}
		if n, err := e.Recover(t.Context()); n != 1 || err != nil {
			t.Errorf("after its time: %d, %v", n, err)
		}
		w.pass(-25 * time.Hour)
		for range 2 {
			if n, err := w.engine().Recover(t.Context()); n != 0 || err != nil {
				t.Errorf("again: %d, %v", n, err)
			}
		}
		if len(w.order) != 1 {
			t.Errorf("ran %v", w.order)
		}
	})
	t.Run("past", func(t *testing.T) {
		w := newWorld(t)
		at(-time.Hour)(w)
		wantCall(t, w.submit(w.engine(), "r", "once"), 0, "completed/tool")
		if len(w.order) != 1 {
			t.Errorf("ran %v", w.order)
		}
	})
}
