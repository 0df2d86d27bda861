package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Errors of ticket decisions, to be compared with errors.Is; returned errors name
// the ticket.
var (
	ErrTicketClosed   = errors.New("ticket is closed")
	ErrTicketLate     = errors.New("ticket's deadline has passed")
	ErrTicketKind     = errors.New("ticket does not take this decision")
	ErrApprover       = errors.New("not allowed to decide this ticket")
	ErrAlreadyDecided = errors.New("approver has decided already")
	ErrArguments      = errors.New("decision is about other arguments")
)

// TicketAnswer is a decision on a permission ticket.
type TicketAnswer struct {
	By      string // who decides; required
	Approve bool
	Reason  string
	// ArgumentDigest, when set, is the digest of the arguments the approver saw; a
	// ticket for others is not decided.
	ArgumentDigest string
}

// Decide records a decision on a permission ticket and continues its batch, which
// is returned as Submit does. A decision is accepted once; on a closed ticket it
// is ErrTicketClosed, after the deadline ErrTicketLate, by somebody who may not
// decide (not among the approvers, or the run's own principal) ErrApprover. A late
// decision settles the ticket as expired and the batch goes on.
func (e *Engine) Decide(ctx context.Context, id TicketID, a TicketAnswer) (*Batch, error) {
	if err := checkActor("ticket "+string(id), a.By); err != nil {
		return nil, err
	}
	return e.onTicket(ctx, id, TicketPermission, func(ctx context.Context, s *session, t *Ticket) error {
		if err := t.mayDecide(a, s.run, &s.b.Calls[t.Index]); err != nil {
			return err
		}
		return s.answer(ctx, t, a)
	})
}

// onTicket lets act decide an open ticket of the given kind under the run's lock,
// and continues the batch.
func (e *Engine) onTicket(ctx context.Context, id TicketID, kind TicketKind, act func(context.Context, *session, *Ticket) error) (*Batch, error) {
	t, err := e.o.Store.Ticket(ctx, id)
	if err != nil {
		return nil, err
	}
	var b *Batch
	var s *session
	err = e.hold(ctx, t.Run, func(ctx context.Context) (err error) {
		if s, t, err = e.openTicket(ctx, id, kind); err != nil {
			return err
		}
		if !t.Deadline.IsZero() && !e.now().Before(t.Deadline) {
			if err := s.drive(ctx); err != nil {
				return err
			}
			b = s.b
			return fmt.Errorf("ticket %s: the deadline was %s: %w", id, t.Deadline.Format(time.RFC3339), ErrTicketLate)
		}
		if err := act(ctx, s, t); err != nil {
			return err
		}
		b = s.b
		return s.drive(ctx)
	})
	e.resumeParent(ctx, s)
	return b, err
}

// openTicket attaches to the run of an open ticket and checks that the call it is
// for awaits it.
func (e *Engine) openTicket(ctx context.Context, id TicketID, kind TicketKind) (*session, *Ticket, error) {
	t, err := e.o.Store.Ticket(ctx, id) // as it is under the lock
	if err != nil {
		return nil, nil, err
	}
	if t.Status != TicketOpen {
		return nil, nil, fmt.Errorf("ticket %s was %s at %s: %w", id, t.Status, t.ClosedAt.Format(time.RFC3339), ErrTicketClosed)
	}
	if t.Kind != kind {
		return nil, nil, fmt.Errorf("ticket %s waits for %s: %w", id, t.Kind, ErrTicketKind)
	}
	s, err := e.attachOpen(ctx, t.Run)
	if err != nil {
		return nil, nil, err
	}
	if s == nil || s.b.Step != t.Step || s.b.Awaiting() != t.Index || s.b.Calls[t.Index].Ticket != id {
		return nil, nil, fmt.Errorf("ticket %s: its call does not await it: %w", id, ErrCorrupt)
	}
	return s, t, nil
}

func (t *Ticket) mayDecide(a TicketAnswer, r *Run, cs *CallState) error {
	if digest := cs.Call.ArgumentDigest(); t.ArgumentDigest != digest || a.ArgumentDigest != "" && a.ArgumentDigest != digest {
		return fmt.Errorf("ticket %s: the call's arguments have digest %s: %w", t.ID, digest, ErrArguments)
	}
	if r.Principal != "" && samePerson(a.By, r.Principal) {
		return fmt.Errorf("ticket %s: %s submitted the call and may not decide it: %w", t.ID, a.By, ErrApprover)
	}
	if len(t.Approvers) > 0 && !slices.Contains(t.Approvers, a.By) {
		return fmt.Errorf("ticket %s: %s is not among its approvers: %w", t.ID, a.By, ErrApprover)
	}
	if slices.ContainsFunc(t.Decisions, func(d TicketDecision) bool { return samePerson(d.By, a.By) }) {
		return fmt.Errorf("ticket %s: %s: %w", t.ID, a.By, ErrAlreadyDecided)
	}
	return nil
}

// answer commits the decision. An approval that reaches the quorum closes the
// ticket and leaves the call awaiting: it is durable before the gate is asked
// again, and stays if that fails. A denial ends the call in the same commit.
func (s *session) answer(ctx context.Context, t *Ticket, a TicketAnswer) error {
	now := s.e.now()
	t.Decisions = append(t.Decisions, TicketDecision{By: a.By, Approve: a.Approve, Reason: a.Reason, At: now})
	note := fmt.Sprintf("%d of %d approvals", len(t.Decisions), t.Quorum)
	if !a.Approve {
		t.Status, t.ClosedAt, note = TicketDenied, now, string(TicketDenied)
	} else if len(t.Decisions) >= t.Quorum {
		t.Status, t.ClosedAt, note = TicketApproved, now, string(TicketApproved)
	}
	c := &Commit{
		Tickets: []*Ticket{t},
		Events:  []Event{{Kind: EventTicketDecided, Step: t.Step, Index: t.Index, Ticket: t.ID, Note: note + " by " + a.By}},
	}
	if t.Status == TicketDenied {
		text := "denied by " + a.By
		if a.Reason != "" {
			text += ": " + a.Reason
		}
		return s.complete(ctx, t.Index, ErrorOutput(t.CallID, text), AnswerDenied, c)
	}
	return s.settle(ctx, c)
}

// resume looks at the ticket call i awaits. It reports whether the call still
// waits.
func (s *session) resume(ctx context.Context, i int) (parked bool, err error) {
	cs := &s.b.Calls[i]
	t, err := s.e.o.Store.Ticket(ctx, cs.Ticket)
	if err != nil {
		return false, fmt.Errorf("operation %s awaits ticket %s: %w", cs.Call.Operation(), cs.Ticket, err)
	}
	now := s.e.now()
	if t.Status == TicketOpen {
		if !t.settles(now) {
			return true, nil
		}
		t.ClosedAt = now
		if t.Kind == TicketSchedule {
			t.Status = TicketApproved
			return false, s.decide(ctx, i, t.approval(), t)
		}
		t.Status = TicketExpired
		return false, s.complete(ctx, i, ErrorOutput(t.CallID,
			fmt.Sprintf("nobody decided by %s; nothing ran", t.Deadline.Format(time.RFC3339))), AnswerExpired, &Commit{
			Tickets: []*Ticket{t},
			Events:  []Event{{Kind: EventTicketDecided, Step: t.Step, Index: i, Ticket: t.ID, Note: string(TicketExpired)}},
		})
	}
	if t.Status != TicketApproved {
		return false, fmt.Errorf("operation %s awaits ticket %s, which is %s: %w", cs.Call.Operation(), t.ID, t.Status, ErrCorrupt)
	}
	return false, s.decide(ctx, i, t.approval(), nil)
}

func (t *Ticket) settles(now time.Time) bool {
	due := t.due()
	return t.Status == TicketOpen && !due.IsZero() && !now.Before(due)
}

func (t *Ticket) approval() *Approval {
	a := &Approval{Kind: t.Kind, Ticket: t.ID, At: t.ClosedAt, Requested: t.CreatedAt}
	for _, d := range t.Decisions {
		a.By = append(a.By, d.By)
	}
	return a
}

// Resume continues the open batch of a run from its committed phase and returns
// it as Submit does; a run without an open batch is nil without an error.
func (e *Engine) Resume(ctx context.Context, run RunID) (*Batch, error) {
	var s *session
	err := e.hold(ctx, run, func(ctx context.Context) (err error) {
		if s, err = e.attachOpen(ctx, run); err != nil || s == nil {
			return err
		}
		return s.drive(ctx)
	})
	e.resumeParent(ctx, s)
	if s == nil {
		return nil, err
	}
	return s.b, err
}

// recoverWorkers bounds how many runs Recover drives side by side.
const recoverWorkers = 8

// Recover continues every open batch that can go on: calls left requested or
// executing by a process that stopped, decided tickets, tickets whose time has
// come. It returns how many runs it continued. One run's failure does not keep
// the others from being continued; all failures are joined.
func (e *Engine) Recover(ctx context.Context) (int, error) {
	ids, err := e.o.Store.Open(ctx)
	if err != nil {
		return 0, err
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		errs []error
		n    int
		sem  = make(chan struct{}, recoverWorkers)
	)
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			continued, err := e.recoverBatch(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if continued {
				n++
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("batch %s: %w", id, err))
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// recoverBatch continues one batch if it can go on. Whether it can is looked at
// before the run is claimed, so that waiting runs cost no commit.
func (e *Engine) recoverBatch(ctx context.Context, id BatchID) (bool, error) {
	run, step, err := ParseBatchID(id)
	if err != nil {
		return false, err
	}
	if orphan, err := e.cancelOrphan(ctx, run); orphan || err != nil {
		return orphan, err
	}
	b, err := e.o.Store.Batch(ctx, run, step)
	if err != nil {
		return false, err
	}
	if i := b.Next(); i >= 0 && b.Calls[i].Phase == PhaseAwaiting {
		t, err := e.o.Store.Ticket(ctx, b.Calls[i].Ticket)
		if err != nil {
			return false, err
		}
		if t.Status == TicketOpen && !t.settles(e.now()) {
			return false, nil
		}
	}
	if _, err = e.Resume(ctx, run); errors.Is(err, ErrCancelled) {
		err = nil // it is being cancelled at this moment: whoever does that ends it
	}
	return true, err
}

// Due returns the runs whose open ticket settles by itself now, because its
// schedule or its deadline has come, and when the next one will; zero: none.
func (e *Engine) Due(ctx context.Context) (runs []RunID, next time.Time, err error) {
	ts, err := e.o.Store.Tickets(ctx, TicketFilter{Open: true})
	if err != nil {
		return nil, time.Time{}, err
	}
	now := e.now()
	for _, t := range ts {
		if t.settles(now) {
			runs = append(runs, t.Run)
		} else if due := t.due(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return runs, next, nil
}
