package main

import (
	"encoding/json"
	"slices"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
)

// effects: each happened because of a committed attempt, and no more often than the
// pinned policy lets it.
func (c *checker) effects(h *history, effects []happened) {
	there := h.calls()
	attempts := map[batch.OperationID][]int{}
	for _, e := range effects {
		v := there[e.Operation]
		if v == nil || v.Tool != e.Tool || batchOf(e.Operation) != e.Batch {
			c.bad("an effect names %+v, the call is %+v", e, v)
			continue
		}
		if e.Attempt > v.Attempt {
			c.bad("%s had its effect in attempt %d, which is not committed", e.Operation, e.Attempt)
		}
		if slices.Contains(attempts[e.Operation], e.Attempt) {
			c.bad("%s had its effect twice in attempt %d", e.Operation, e.Attempt)
		}
		attempts[e.Operation] = append(attempts[e.Operation], e.Attempt)
	}
	for op, v := range there {
		seen := attempts[op]
		if !v.Recovery.Replays() && len(seen) > 1 {
			c.bad("%s is pinned as %s and had its effect %d times", op, v.Recovery, len(seen))
		}
		if !slices.IsSorted(seen) {
			c.bad("%s had its effects in attempts %v", op, seen)
		}
		if v.Attempt > 1+c.cut[op]+c.faults {
			c.bad("%s is at attempt %d, and %d lives ended while it ran", op, v.Attempt, c.cut[op])
		}
		if v.Phase == batch.PhaseCompleted && v.Answer != batch.AnswerTool && len(seen) > 0 {
			c.bad("%s was answered as %s and had its effect", op, v.Answer)
		}
		if v.Phase == batch.PhaseCompleted && v.Answer == batch.AnswerTool && v.Tool != toolDelegate {
			c.told(v, seen)
		}
	}
}

// told: the tool's answer names the attempt that it comes from, and that one had its
// effect.
func (c *checker) told(v *host.CallView, attempts []int) {
	var e happened
	if len(v.Content) != 1 || json.Unmarshal(v.Content[0].JSON, &e) != nil || e.Operation != v.Operation || e.Attempt != v.Attempt {
		c.bad("%s is at attempt %d and answered %s", v.Operation, v.Attempt, v.Text())
	}
	if !slices.Contains(attempts, v.Attempt) {
		c.bad("%s has an answer of attempt %d, effects were in %v", v.Operation, v.Attempt, attempts)
	}
}

// settled: everything is published, and every call came to what the scene wants of
// it.
func (c *checker) settled(h *history) {
	there := h.calls()
	for op, spec := range c.spec {
		v := there[op]
		if v == nil {
			// A child that was never started belongs to a call that was cut off.
			if p := c.parent(op); p == "" || there[p] == nil || there[p].Phase != batch.PhaseIndeterminate && there[p].Answer != batch.AnswerCancelled {
				c.bad("%s is not there", op)
			}
			continue
		}
		c.outcome(h, op, v, spec)
	}
	for op := range there {
		if c.spec[op] == nil {
			c.bad("nobody asked for %s", op)
		}
	}
	for id, t := range h.tickets {
		if t.Status == batch.TicketOpen {
			c.bad("ticket %s of run %s is open", id, t.Run)
		}
	}
	for _, v := range h.runs {
		for _, b := range v.Batches {
			if b.Phase != batch.BatchFinalized {
				c.bad("batch %s is %s", b.Batch, b.Phase)
			}
		}
	}
	for _, r := range c.scene {
		if v := h.runs[r.id]; v != nil && (v.Cancelled != nil) != r.cancel {
			c.bad("run %s has cancellation %+v", r.id, v.Cancelled)
		}
	}
}

func (c *checker) parent(op batch.OperationID) batch.OperationID {
	for p, spec := range c.spec {
		if spec.run != nil && batch.NewBatchID(batch.ChildRunID(p), 1) == batchOf(op) {
			return p
		}
	}
	return ""
}

func (c *checker) outcome(h *history, op batch.OperationID, v *host.CallView, spec *call) {
	if v.Phase == batch.PhaseIndeterminate {
		switch {
		case spec.kind == kindCancelled: // it was running when the run was cancelled
		case c.cut[op]+c.faults == 0:
			c.bad("%s is indeterminate, and no life ended while it ran: %s", op, v.Reason)
		case v.Recovery.Replays() && v.Attempt < batch.DefaultMaxAttempts:
			c.bad("%s could be repeated after attempt %d and is indeterminate: %s", op, v.Attempt, v.Reason)
		}
		return
	}
	want := spec.want
	if spec.kind == kindCancelled && (v.Answer == batch.AnswerTool || v.Answer == batch.AnswerExternal) {
		want = v.Answer // it was faster
	}
	if v.Answer != want {
		c.bad("%s (%s) was answered as %s, want %s: %s", op, spec.kind, v.Answer, want, v.Text())
	}
	if spec.want == batch.AnswerExternal && v.Ticket != nil && v.Text() != suppliedText(v.Ticket.ID) {
		c.bad("%s has %q, another text was supplied", op, v.Text())
	}
	if spec.run != nil && v.Answer == batch.AnswerTool {
		c.delegated(h, v)
	}
}

// delegated: the answer is what the child published.
func (c *checker) delegated(h *history, v *host.CallView) {
	var got struct {
		Run     batch.RunID       `json:"run"`
		Results []json.RawMessage `json:"results"`
	}
	var child struct {
		Results []json.RawMessage `json:"results"`
	}
	run := batch.ChildRunID(v.Operation)
	if len(v.Content) != 1 || json.Unmarshal(v.Content[0].JSON, &got) != nil || got.Run != run ||
		json.Unmarshal([]byte(h.answers[batch.NewBatchID(run, 1)]), &child) != nil ||
		!slices.EqualFunc(got.Results, child.Results, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		c.bad("%s answered\n  %s\nits child published\n  %s", v.Operation, v.Text(), h.answers[batch.NewBatchID(run, 1)])
	}
}
