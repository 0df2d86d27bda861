package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrCancelled reports that the run is cancelled, or is being cancelled.
var ErrCancelled = errors.New("run is cancelled")

func (r *Run) errCancelled() error {
	return fmt.Errorf("run %s was cancelled by %s at %s: %w", r.ID, r.Cancelled.By, r.Cancelled.At.Format(time.RFC3339), ErrCancelled)
}

// Cancel ends a run for good: what runs is told to stop, calls that are not
// terminal are sealed, open tickets are closed, and the open batch, if there is
// one, is published as it then stands. A call that had not run is answered as
// cancelled, one that was running is indeterminate. From the moment Cancel is
// asked no other outcome of the run is committed: an outcome that comes late is
// dropped. Child runs of its delegations are cancelled too.
//
// It returns the sealed batch, nil when no step was open. A run that is cancelled
// already is ErrCancelled.
func (e *Engine) Cancel(ctx context.Context, run RunID, by, reason string) (*Batch, error) {
	if err := checkActor("run "+string(run), by); err != nil {
		return nil, err
	}
	r, err := e.o.Store.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if r.Cancelled != nil {
		// An earlier cancel may have been cut short between the run and its children.
		if err := e.cancelChildren(ctx, r); err != nil {
			return nil, err
		}
		return nil, r.errCancelled()
	}
	release := e.stops.ask(run)
	s, err := e.seal(ctx, run, &Cancellation{By: by, Reason: reason, At: e.now()})
	release()
	if err != nil {
		return nil, err
	}
	// The children first: the parent may run for long when it goes on.
	err = e.cancelChildren(ctx, s.run)
	e.resumeParent(ctx, s)
	return s.b, err
}

// cancelChildren cancels the children of a cancelled run's last batch that are not
// finished.
func (e *Engine) cancelChildren(ctx context.Context, parent *Run) error {
	if parent.LastStep == 0 {
		return nil
	}
	b, err := e.o.Store.Batch(ctx, parent.ID, parent.LastStep)
	if err != nil {
		return err
	}
	var errs []error
	for i := range b.Calls {
		c := &b.Calls[i]
		if !c.Pin.Delegate || c.Phase != PhaseIndeterminate {
			continue
		}
		child, err := e.o.Store.Run(ctx, ChildRunID(c.Call.Operation()))
		if err == nil && (child.OpenStep != 0 || child.Cancelled != nil) {
			_, err = e.cancelChild(ctx, child.ID, parent)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// cancelChild cancels a child run in the name of who cancelled its parent.
func (e *Engine) cancelChild(ctx context.Context, child RunID, parent *Run) (*Batch, error) {
	b, err := e.Cancel(ctx, child, parent.Cancelled.By, "its parent "+string(parent.ID)+" was cancelled")
	if errors.Is(err, ErrCancelled) {
		err = nil
	}
	return b, err
}

// cancelOrphan cancels a run of whose family a process cancelled a part, and stopped
// before it came to the rest: what is open below the cancelled part ends from the top,
// so that none of it goes on meanwhile. It reports whether there was such a part.
func (e *Engine) cancelOrphan(ctx context.Context, run RunID) (bool, error) {
	r, err := e.o.Store.Run(ctx, run)
	for err == nil && r.Parent != "" && r.OpenStep != 0 {
		var id RunID
		if id, err = r.Parent.run(); err != nil {
			break
		}
		var parent *Run
		parent, err = e.o.Store.Run(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		if err == nil && parent.Cancelled != nil {
			_, err = e.cancelChild(ctx, r.ID, parent)
			return true, err
		}
		r = parent
	}
	return false, err
}

// seal commits the cancellation; the session has the sealed batch, if one was open.
func (e *Engine) seal(ctx context.Context, run RunID, c *Cancellation) (*session, error) {
	unlock, err := e.locks.lock(ctx, string(run))
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := e.attach(ctx, run)
	if err != nil {
		return nil, err
	}
	if s.run.Cancelled != nil {
		return nil, s.run.errCancelled()
	}
	s.canceller = true
	s.run.Cancelled = c
	ch := &Commit{Events: []Event{{Kind: EventRunCancelled, Step: s.run.OpenStep, Index: -1, By: c.By, Note: c.Reason}}}
	if s.run.OpenStep == 0 {
		return s, s.commit(ctx, ch)
	}
	b, err := e.o.Store.Batch(ctx, run, s.run.OpenStep)
	if err != nil {
		return nil, err
	}
	s.adopt(b)
	if err := s.sealCalls(ctx, c, ch); err != nil {
		return nil, err
	}
	return s, s.settle(ctx, ch)
}

// sealCalls makes every call terminal and closes the ticket that one waits on.
func (s *session) sealCalls(ctx context.Context, c *Cancellation, ch *Commit) error {
	why := "cancelled by " + c.By
	if c.Reason != "" {
		why += ": " + c.Reason
	}
	for i := range s.b.Calls {
		cs := &s.b.Calls[i]
		kind := EventCallCompleted
		switch {
		case cs.Phase == PhaseExecuting && !cs.Withdrawn():
			kind = EventCallIndeterminate
			if err := s.b.GiveUp(i, fmt.Sprintf("the run was %s while the call was running (attempt %d)", why, cs.Attempt), c.At); err != nil {
				return err
			}
		case cs.Phase == PhaseAwaiting:
			t, err := s.e.o.Store.Ticket(ctx, cs.Ticket)
			if err != nil {
				return err
			}
			if t.Status == TicketOpen {
				t.Status, t.ClosedAt = TicketCancelled, c.At
				ch.Tickets = append(ch.Tickets, t)
			}
			fallthrough
		case cs.Phase == PhaseRequested || cs.Withdrawn():
			if err := s.b.Complete(i, ErrorOutput(cs.Call.ID, why+"; nothing ran"), AnswerCancelled, c.At); err != nil {
				return err
			}
		default:
			continue
		}
		ch.Changed = append(ch.Changed, i)
		ch.Events = append(ch.Events, Event{Kind: kind, Step: s.b.Step, Index: i, Attempt: cs.Attempt, Note: string(cs.Answer)})
	}
	return nil
}

// stops knows which runs are being driven and which are asked to stop. The zero
// value is ready.
type stops struct {
	mu     sync.Mutex
	cancel map[RunID]context.CancelFunc
	asks   map[RunID]int
}

// begin registers the driver of a run, whose lock the caller holds.
func (s *stops) begin(ctx context.Context, run RunID) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks[run] > 0 {
		return nil, nil, fmt.Errorf("run %s: %w", run, ErrCancelled)
	}
	ctx, cancel := context.WithCancel(ctx)
	if s.cancel == nil {
		s.cancel = map[RunID]context.CancelFunc{}
	}
	s.cancel[run] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancel, run)
	}, nil
}

// ask stops the driver of a run, if there is one, and keeps others from beginning
// until the returned function is called.
func (s *stops) ask(run RunID) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks == nil {
		s.asks = map[RunID]int{}
	}
	s.asks[run]++
	if cancel := s.cancel[run]; cancel != nil {
		cancel()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asks[run]--; s.asks[run] == 0 {
			delete(s.asks, run)
		}
	}
}

func (s *stops) asked(run RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks[run] > 0
}
