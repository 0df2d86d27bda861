package host

import (
	"context"
	"errors"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Result is what a batch has come to: the answer of our own dialect. Content is
// empty until the batch is finalized: nothing partial leaves the host.
type Result struct {
	Run     batch.RunID      `json:"run"`
	Batch   batch.BatchID    `json:"batch"`
	Phase   batch.BatchPhase `json:"phase"`
	Results []CallResult     `json:"results"`
	Tickets []TicketView     `json:"tickets"`

	// Dialect is the form in which the calls were submitted.
	Dialect Dialect `json:"-"`
}

// CallResult is one call of a Result, in model order.
type CallResult struct {
	CallID      batch.CallID         `json:"call_id"`
	Tool        batch.ToolID         `json:"tool"`
	Phase       batch.Phase          `json:"phase"`
	Disposition batch.Disposition    `json:"disposition,omitempty"` // absent while requested or executing
	IsError     bool                 `json:"is_error"`
	Content     []batch.ContentBlock `json:"content"`
	Executed    *Executed            `json:"executed"` // null when nothing was dispatched
}

// Executed says where a call was dispatched to.
type Executed struct {
	Target batch.Target `json:"target"`
	Tier   string       `json:"tier,omitempty"`
	// Fallback says why a call did not run in the configured tier.
	Fallback string `json:"fallback,omitempty"`
}

// TicketView is a ticket a batch waits on.
type TicketView struct {
	Ticket   batch.TicketID   `json:"ticket"`
	Run      batch.RunID      `json:"run"` // the run of the call that waits: a child's, where the batch delegates
	Kind     batch.TicketKind `json:"kind"`
	CallID   batch.CallID     `json:"call_id"`
	Tool     batch.ToolID     `json:"tool"`
	Prompt   string           `json:"prompt,omitempty"`
	DueAt    time.Time        `json:"due_at,omitzero"`
	Deadline time.Time        `json:"deadline,omitzero"`
}

// Parked reports whether the batch waits for a ticket.
func (r *Result) Parked() bool { return r.Phase == batch.BatchOpen && len(r.Tickets) > 0 }

// result projects a committed batch.
func (l *Ledger) result(ctx context.Context, b *batch.Batch) (*Result, error) {
	r := &Result{
		Run: b.Run, Batch: b.ID(), Phase: b.Phase, Dialect: Dialect(b.Dialect),
		Results: make([]CallResult, len(b.Calls)), Tickets: []TicketView{},
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		cr := CallResult{
			CallID: c.Call.ID, Tool: c.Call.Tool, Phase: c.Phase,
			Content: []batch.ContentBlock{}, Executed: executed(c),
		}
		var kind batch.TicketKind
		if c.Phase == batch.PhaseAwaiting {
			t, err := l.store.Ticket(ctx, c.Ticket)
			if err != nil {
				return nil, err
			}
			kind = t.Kind
			if t.Status == batch.TicketOpen {
				r.Tickets = append(r.Tickets, viewTicket(t))
			}
		}
		if c.Pin.Delegate && c.Phase == batch.PhaseExecuting {
			ts, err := l.childTickets(ctx, c.Call.Operation())
			if err != nil {
				return nil, err
			}
			r.Tickets = append(r.Tickets, ts...)
		}
		cr.Disposition = c.Disposition(kind)
		if b.Phase == batch.BatchFinalized {
			cr.IsError = c.Output.IsError
			cr.Content = append(cr.Content, c.Output.Content...)
		}
		r.Results[i] = cr
	}
	return r, nil
}

// executed tells the target of a call that was dispatched; nil for one that
// policy, a person or a check answered.
func executed(c *batch.CallState) *Executed {
	if c.Withdrawn() || c.Phase != batch.PhaseExecuting && c.Phase != batch.PhaseIndeterminate && c.Answer != batch.AnswerTool {
		return nil
	}
	x := &Executed{Target: c.Pin.Target}
	if c.Output != nil {
		x.Tier, x.Fallback = c.Output.Tier, c.Output.Fallback
	}
	return x
}

// childTickets are the open tickets that a delegation call waits on: its child's,
// and those of the children's children.
func (l *Ledger) childTickets(ctx context.Context, op batch.OperationID) ([]TicketView, error) {
	child, err := l.store.Run(ctx, batch.ChildRunID(op))
	if errors.Is(err, batch.ErrNotFound) || err == nil && child.OpenStep == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := l.store.Batch(ctx, child.ID, child.OpenStep)
	if err != nil {
		return nil, err
	}
	r, err := l.result(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.Tickets, nil
}

func viewTicket(t *batch.Ticket) TicketView {
	return TicketView{
		Ticket: t.ID, Run: t.Run, Kind: t.Kind, CallID: t.CallID, Tool: t.Tool,
		Prompt: t.Prompt, DueAt: t.DueAt, Deadline: t.Deadline,
	}
}
