package batch

import (
	"context"
	"errors"
	"fmt"
)

// ReasonLogUnavailable blocks a call whose decision has to be logged and cannot be.
const ReasonLogUnavailable = "log_unavailable"

// ErrLogUnavailable reports that a call goes on only once its decision is logged.
var ErrLogUnavailable = errors.New("the decision log is not available")

// DecisionLog is told of decisions for readers outside the ledger. The ledger's
// record is the truth and comes first: a log never holds what is not committed, and
// catches up from the ledger after a process stopped between the two. A record is
// named by its operation and Seq.
//
// All methods are called concurrently, for one run in order.
type DecisionLog interface {
	// Ready reports whether an allow may take effect as far as the log knows. An error
	// turns the allow into a block with ReasonLogUnavailable before it is committed.
	Ready(ctx context.Context) error
	// Begin hears of a record that is about to be committed: until Log is told of it,
	// it may be in the ledger and not in the log.
	Begin(ctx context.Context, r *DecisionRecord)
	// Log is told of a record that is committed, before what it allows begins. After
	// an error an allow does not take effect: the call is blocked, which is another
	// record. Neither argument may be retained or changed.
	Log(ctx context.Context, r *DecisionRecord, c *Call) error
}

// ready asks the log, if there is one.
func (e *Engine) ready(ctx context.Context) error {
	if e.o.DecisionLog == nil {
		return nil
	}
	if err := e.o.DecisionLog.Ready(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrLogUnavailable, err)
	}
	return nil
}

func (e *Engine) announce(ctx context.Context, c *Commit) {
	if e.o.DecisionLog == nil {
		return
	}
	for _, r := range c.Decisions {
		e.o.DecisionLog.Begin(ctx, r)
	}
}

// unlogged is a committed decision that could not be logged although it must be.
type unlogged struct {
	record *DecisionRecord
	err    error
}

// log tells the log of what c has committed; the session keeps what failed until
// its next commit.
func (s *session) log(ctx context.Context, c *Commit) {
	s.unlogged = nil
	if s.e.o.DecisionLog == nil || c.Batch == nil {
		return
	}
	for _, r := range c.Decisions {
		for _, i := range c.Changed {
			call := &c.Batch.Calls[i].Call
			if call.Operation() != r.Operation {
				continue
			}
			if err := s.e.o.DecisionLog.Log(ctx, r, call); err != nil {
				s.e.o.Logger.Error("a decision is not logged", "operation", r.Operation, "seq", r.Seq, "err", err)
				if s.unlogged == nil {
					s.unlogged = map[int]unlogged{}
				}
				s.unlogged[i] = unlogged{r, err}
			}
		}
	}
}

// requireLogged turns an allow into a block while the log cannot take its record.
func (s *session) requireLogged(ctx context.Context, cs *CallState, d *Decision) (*Decision, *Output, Answer) {
	if d.Outcome != OutcomeAllow {
		return d, nil, AnswerUnknown
	}
	err := s.e.ready(ctx)
	if err == nil {
		return d, nil, AnswerUnknown
	}
	d = &Decision{
		Outcome: OutcomeBlock, Reasons: unloggable(err),
		PolicyRevision: d.PolicyRevision, Elapsed: d.Elapsed, Input: d.Input,
	}
	return d, ErrorOutput(cs.Call.ID, blockedText(d.Reasons)), AnswerBlocked
}

func unloggable(err error) []Reason {
	return []Reason{{Code: ReasonLogUnavailable, Message: "the decision cannot be logged, and nothing runs without that", Detail: err.Error()}}
}

// withheld ends call i if the commit before held an allow for it that could not be
// logged: nothing was handed to the tool, and the block is a record of its own.
func (s *session) withheld(ctx context.Context, i int) (bool, error) {
	u, is := s.unlogged[i]
	if !is {
		return false, nil
	}
	cs := &s.b.Calls[i]
	r := *u.record
	r.Seq++
	r.Time, r.Outcome, r.Reasons, r.Grant, r.Elapsed = s.e.now(), OutcomeBlock, unloggable(u.err), nil, 0
	c := &Commit{Decisions: []*DecisionRecord{&r}}
	switch cs.Phase {
	case PhaseExecuting:
		if s.run.Counts[cs.Call.Tool]--; s.run.Counts[cs.Call.Tool] == 0 {
			delete(s.run.Counts, cs.Call.Tool)
		}
	case PhaseAwaiting:
		t, err := s.e.o.Store.Ticket(ctx, cs.Ticket)
		if err != nil {
			return true, err
		}
		t.Status, t.ClosedAt = TicketCancelled, r.Time
		c.Tickets = []*Ticket{t}
	}
	return true, s.complete(ctx, i, ErrorOutput(cs.Call.ID, blockedText(r.Reasons)), AnswerBlocked, c)
}
