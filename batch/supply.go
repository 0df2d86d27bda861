package batch

import (
	"context"
	"errors"
	"fmt"
)

// ErrResult reports an external result that does not fit the tool: nothing is
// recorded and the ticket stays open.
var ErrResult = errors.New("result does not fit the tool")

// ExternalResult is what a client answers for a tool that it executes.
type ExternalResult struct {
	By      string // who supplies it; required
	Content []ContentBlock
	IsError bool
}

// Supply records the result of a client-executed call, closes its ticket, and
// continues the batch, which is returned as Submit does. The content is validated
// like any tool's output. Errors are those of Decide, and ErrResult.
func (e *Engine) Supply(ctx context.Context, id TicketID, r ExternalResult) (*Batch, error) {
	if err := checkActor("ticket "+string(id), r.By); err != nil {
		return nil, err
	}
	return e.onTicket(ctx, id, TicketExternalResult, func(ctx context.Context, s *session, t *Ticket) error {
		cs := &s.b.Calls[t.Index]
		out := &Output{CallID: t.CallID, Content: r.Content, IsError: r.IsError}
		by := AnswerExternal
		tool, ok := s.catalog.Lookup(t.Tool)
		if !ok || tool.Descriptor().Digest != t.ToolDigest {
			by = AnswerChanged
			out = ErrorOutput(t.CallID, fmt.Sprintf("tool %s was changed or removed while its result was awaited", t.Tool))
		} else if err := s.checkExternal(cs, tool, out); err != nil {
			return fmt.Errorf("ticket %s: %w: %w", id, err, ErrResult)
		}
		now := e.now()
		t.Status, t.ClosedAt = TicketResolved, now
		t.Decisions = append(t.Decisions, TicketDecision{By: r.By, Approve: true, At: now})
		return s.complete(ctx, t.Index, out, by, &Commit{
			Tickets: []*Ticket{t},
			Events: []Event{{Kind: EventTicketDecided, Step: t.Step, Index: t.Index, Ticket: t.ID, By: r.By,
				Note: string(TicketResolved) + " by " + r.By}},
		})
	})
}

func (s *session) checkExternal(cs *CallState, tool Tool, out *Output) error {
	if n := out.Size(); n > s.e.o.MaxOutputBytes {
		return fmt.Errorf("it is %d bytes, at most %d are allowed", n, s.e.o.MaxOutputBytes)
	}
	if err := cs.checkOutput(out); err != nil {
		return err
	}
	if out.IsError {
		return nil
	}
	return tool.CheckOutput(out)
}

// ErrNotIndeterminate reports an amendment of a call whose outcome is known.
var ErrNotIndeterminate = errors.New("call is not indeterminate")

// Amendment is what a person found out about an indeterminate call.
type Amendment struct {
	By      string         // required
	Failed  bool           // it is known that it failed, or did not happen
	Content []ContentBlock // what it returned; only when it did not fail
	Note    string
}

// Amend records what a person found out about an indeterminate call, as an event
// of its run. What was published is not rewritten; a later amendment stands beside
// the earlier ones.
func (e *Engine) Amend(ctx context.Context, run RunID, step, index int, a Amendment) error {
	if err := checkActor("run "+string(run), a.By); err != nil {
		return err
	}
	unlock, err := e.locks.lock(ctx, string(run))
	if err != nil {
		return err
	}
	defer unlock()
	b, err := e.o.Store.Batch(ctx, run, step)
	if err != nil {
		return err
	}
	if index < 0 || index >= len(b.Calls) {
		return fmt.Errorf("batch %s has no call %d: %w", b.ID(), index, ErrNotFound)
	}
	cs := &b.Calls[index]
	if cs.Phase != PhaseIndeterminate {
		return fmt.Errorf("operation %s is %s: %w", cs.Call.Operation(), cs.Phase, ErrNotIndeterminate)
	}
	ev := Event{Kind: EventCallAmended, Step: step, Index: index, Attempt: cs.Attempt, By: a.By, Note: a.Note}
	if !a.Failed {
		ev.Output = &Output{CallID: cs.Call.ID, Content: a.Content}
		if err := cs.checkOutput(ev.Output); err != nil {
			return fmt.Errorf("operation %s: %w: %w", cs.Call.Operation(), err, ErrResult)
		}
		if n := ev.Output.Size(); n > e.o.MaxOutputBytes {
			return fmt.Errorf("operation %s: the result is %d bytes, at most %d are allowed: %w", cs.Call.Operation(), n, e.o.MaxOutputBytes, ErrResult)
		}
	}
	s, err := e.attach(ctx, run)
	if err != nil {
		return err
	}
	return s.commit(ctx, &Commit{Events: []Event{ev}})
}
