package model

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// record is a run as the store has it: in the model's form, and what only the store
// knows.
type record struct {
	*refRun
	version uint64
	tickets []batch.TicketID // by ordinal, from 0
	seqs    []uint64         // of the events
	order   map[int][]int    // by step: the indices of calls as they became terminal
}

// look reads a run; nil when there is none. Before is what was seen the last time: a
// run at the same version has not changed.
func (w *world) look(id string, before *record) (*record, error) {
	ctx := context.Background()
	run, err := w.mem.Run(ctx, batch.RunID(id))
	if errors.Is(err, batch.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if before != nil && before.version == run.Version {
		same, r := *before, *before.refRun
		same.refRun, r.deeds = &r, w.deedsOf(id)
		return &same, nil
	}
	r := &refRun{id: id, principal: run.Principal, parent: string(run.Parent), depth: run.Depth, state: map[string]string{}, counts: map[string]string{}}
	rec := &record{refRun: r, version: run.Version, order: map[int][]int{}}
	if run.Cancelled != nil {
		r.cancelled = run.Cancelled.By
	}
	for k, n := range run.Counts {
		r.counts[string(k)] = itoa(n)
	}
	st, err := w.mem.State(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for k, v := range st {
		r.state[k] = string(v)
	}
	if err := rec.readEvents(w, run); err != nil {
		return nil, err
	}
	if err := rec.readTickets(w, run); err != nil {
		return nil, err
	}
	for step := 1; step <= run.LastStep; step++ {
		b, err := w.mem.Batch(ctx, run.ID, step)
		if err != nil {
			return nil, err
		}
		r.batches = append(r.batches, rec.batch(w, b))
		if open := b.Phase == batch.BatchOpen; open != (run.OpenStep == step) {
			return nil, errors.New("the head of " + id + " says another step is open")
		}
	}
	ds, err := w.mem.Decisions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for _, d := range ds {
		back := ""
		if d.Approval != nil {
			back = string(d.Approval.Kind)
		}
		_, rest, _ := strings.Cut(string(d.Operation), "/")
		r.decisions = append(r.decisions, strings.Replace(rest, "/", ".", 1)+" no. "+itoa(d.Seq)+" "+string(d.Outcome)+" "+d.Reasons[0].Code+" "+back)
	}
	r.deeds = w.deedsOf(id)
	return rec, nil
}

func (w *world) deedsOf(id string) []deed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.deeds[id])
}

func (rec *record) readEvents(w *world, run *batch.Run) error {
	evs, err := w.mem.Events(context.Background(), run.ID, 0, 0)
	if err != nil {
		return err
	}
	for _, ev := range evs {
		rec.seqs = append(rec.seqs, ev.Seq)
		if ev.Kind == batch.EventCallAwaiting {
			rec.tickets = append(rec.tickets, ev.Ticket)
		}
		by := ev.By
		switch ev.Kind {
		case batch.EventCallCompleted, batch.EventCallIndeterminate:
			rec.order[ev.Step] = append(rec.order[ev.Step], ev.Index)
		case batch.EventCallAmended:
			by += " failed"
			if ev.Output != nil {
				by = ev.By + " " + ev.Output.Text()
			}
		}
		rec.events = append(rec.events, eventLine(string(ev.Kind), ev.Step, ev.Index, ev.Attempt, rec.ordinal(ev.Ticket), by))
	}
	return nil
}

func (rec *record) ordinal(id batch.TicketID) int {
	for i, t := range rec.tickets {
		if t == id {
			return i + 1
		}
	}
	return 0
}

func (rec *record) readTickets(w *world, run *batch.Run) error {
	ts, err := w.mem.Tickets(context.Background(), batch.TicketFilter{Run: run.ID})
	if err != nil {
		return err
	}
	rec.refRun.tickets = make([]*refTicket, len(rec.tickets))
	for _, t := range ts {
		n := rec.ordinal(t.ID)
		if n == 0 || rec.refRun.tickets[n-1] != nil {
			return errors.New("ticket " + string(t.ID) + " of " + rec.id + " is in no event")
		}
		rt := &refTicket{kind: string(t.Kind), status: string(t.Status), step: t.Step, index: t.Index, quorum: t.Quorum,
			created: seconds(t.CreatedAt), closed: seconds(t.ClosedAt), due: seconds(t.Deadline), approvers: t.Approvers,
			argDigest: t.ArgumentDigest, toolDigest: t.ToolDigest}
		if t.Kind == batch.TicketSchedule {
			rt.due = seconds(t.DueAt)
		}
		for _, d := range t.Decisions {
			how := ":no"
			if d.Approve {
				how = ":yes"
			}
			rt.decisions = append(rt.decisions, d.By+how)
		}
		rec.refRun.tickets[n-1] = rt
	}
	for i, t := range rec.refRun.tickets {
		if t == nil {
			return errors.New("ticket " + itoa(i+1) + " of " + rec.id + " has an event and no record")
		}
	}
	return nil
}

func (rec *record) batch(w *world, b *batch.Batch) *refBatch {
	out := &refBatch{phase: string(b.Phase)}
	for i := range b.Calls {
		c := &b.Calls[i]
		s := w.script(&c.Call)
		if s == nil {
			s = &script{id: string(c.Call.ID), tool: "not what was submitted: " + string(c.Call.Tool), plan: plan{Do: []string{"ok"}}}
		}
		rc := &refCall{script: s, digest: c.Pin.ToolDigest, phase: string(c.Phase), attempt: c.Attempt,
			withdrawn: c.Withdrawn(), grant: c.Grant != nil, ticket: rec.ordinal(c.Ticket), answer: string(c.Answer)}
		if c.Output != nil {
			rc.failed, rc.text = c.Output.IsError, c.Output.Text()
			if rc.text != "" && !strings.HasPrefix(rc.text, "say ") {
				rc.text = "…"
			}
			if c.Output.CallID != c.Call.ID {
				rc.text = "output of " + string(c.Output.CallID)
			}
			for _, cmd := range c.Output.State {
				rc.cmds = append(rc.cmds, command{string(cmd.Op), cmd.Key, string(cmd.Value)})
			}
		}
		out.calls = append(out.calls, rc)
	}
	return out
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(epoch) / time.Second)
}

func itoa(n int) string { return strconv.Itoa(n) }
