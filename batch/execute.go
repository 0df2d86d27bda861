package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// execute commits executing, invokes, and commits the outcome. C carries what is
// committed together with the first attempt.
func (s *session) execute(ctx context.Context, i int, tool Tool, grant *Grant, c *Commit) error {
	cs := &s.b.Calls[i]
	delay := s.e.o.RetryDelay
	for {
		note := ""
		if cs.Withdrawn() {
			note = noteBegunAgain
		}
		if err := s.b.Start(i, grant, s.e.now()); err != nil {
			return err
		}
		if cs.Attempt == 1 && note == "" {
			s.count(cs.Call.Tool)
		}
		c.Changed = []int{i}
		c.Events = append(c.Events, Event{Kind: EventCallExecuting, Step: s.b.Step, Index: i, Attempt: cs.Attempt, Note: note})
		if err := s.settle(ctx, c); err != nil {
			return err
		}
		if withheld, err := s.withheld(ctx, i); withheld {
			return err
		}
		next, err := s.attempt(ctx, i, tool)
		if err != nil || next != again && next != retry {
			return err
		}
		if err := sleep(ctx, delay); err != nil {
			if next == retry {
				return s.withdraw(ctx, i)
			}
			return err
		}
		delay *= 2
		c = &Commit{}
	}
}

// noteBegunAgain marks the beginning of an attempt that was withdrawn before: it is
// not another call to those who count them.
const noteBegunAgain = "nothing of it had run when the host was stopped before"

// withdraw takes back an attempt of which nothing crossed the boundary, since ctx has
// ended: the next start begins it again. It returns the error of the stop.
func (s *session) withdraw(ctx context.Context, i int) error {
	cs := &s.b.Calls[i]
	stopped := fmt.Errorf("operation %s: stopped before it began: %w", cs.Call.Operation(), ctx.Err())
	if err := s.b.Withdraw(i, "the host was stopped before anything of it ran, and begins it again when it is started"); err != nil {
		return errors.Join(stopped, err)
	}
	// It is no outcome, which an accepted cancel would win over: it tells the cancel that
	// nothing ran.
	s.withdrawing = true
	defer func() { s.withdrawing = false }()
	if err := s.settle(ctx, &Commit{Changed: []int{i}}); err != nil {
		return errors.Join(stopped, err)
	}
	return stopped
}

// count adds a call to the history of the run.
func (s *session) count(tool ToolID) {
	if s.run.Counts == nil {
		s.run.Counts = map[ToolID]int{}
	}
	s.run.Counts[tool]++
}

// next is what follows an attempt.
type next int

const (
	done    next = iota // the outcome is committed
	again               // it was dispatched and may be replayed, and the budget has room
	retry               // nothing was dispatched, and the budget has room
	pending             // a delegation's child is not finished
)

// attempt invokes call i once and commits what came of it.
func (s *session) attempt(ctx context.Context, i int, tool Tool) (next, error) {
	call, err := s.callFor(ctx, i)
	if err != nil {
		if ctx.Err() != nil && !s.b.Calls[i].Pin.Delegate {
			return done, s.withdraw(ctx, i)
		}
		return done, err
	}
	out, err := s.e.invoke(ctx, s.e.o.Executors[s.b.Calls[i].Pin.Target], call)
	return s.outcome(ctx, i, tool, out, err)
}

// callFor is what the executor is given of call i.
func (s *session) callFor(ctx context.Context, i int) (*Call, error) {
	cs := &s.b.Calls[i]
	st, err := s.state(ctx)
	if err != nil {
		return nil, err
	}
	call := cs.Call
	call.RunBegan = s.run.CreatedAt
	call.Attempt, call.ToolDigest, call.Grant = cs.Attempt, cs.Pin.ToolDigest, cs.Grant
	call.State = st.view(cs.Pin.Plugin)
	return &call, nil
}

// outcome commits what came of an attempt.
func (s *session) outcome(ctx context.Context, i int, tool Tool, out *Output, err error) (next, error) {
	cs := &s.b.Calls[i]
	if err == nil && out.CallID != "" && out.CallID != cs.Call.ID {
		// Whose it is, and what this call did, is not known.
		err = &ToolError{Kind: ToolErrorExecution, Msg: fmt.Sprintf("the executor returned the output of call %q", string(out.CallID))}
	}
	if err == nil {
		st, err := s.state(ctx)
		if err != nil {
			return done, err
		}
		return done, s.complete(ctx, i, s.accept(cs, tool, st, out), AnswerTool, nil)
	}
	if cs.Pin.Delegate && errors.Is(err, ErrPending) {
		return pending, nil
	}
	s.e.o.Logger.Warn("call failed in the host", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "attempt", cs.Attempt, "err", err)
	var te *ToolError
	kind := ToolErrorExecution
	if errors.As(err, &te) {
		kind = te.Kind
	}
	switch kind {
	case ToolErrorInvalidArguments:
		return done, s.complete(ctx, i, ErrorOutput(cs.Call.ID, "invalid arguments: "+te.Text()), AnswerInvalid, nil)
	case ToolErrorPlacement:
		return done, s.complete(ctx, i, ErrorOutput(cs.Call.ID, "placement: "+te.Text()+"; nothing ran"), AnswerPlacement, nil)
	}
	if ctx.Err() != nil && kind == ToolErrorUnavailable && !cs.Pin.Delegate {
		return done, s.withdraw(ctx, i)
	}
	if ctx.Err() != nil {
		// The host is stopping. What the tool did is not known here; the committed
		// phase says so, and recovery decides by the pinned policy.
		return done, fmt.Errorf("operation %s: stopped while executing: %w", cs.Call.Operation(), ctx.Err())
	}
	if kind == ToolErrorUnavailable {
		if cs.Attempt < cs.Pin.MaxAttempts {
			return retry, nil
		}
		return done, s.complete(ctx, i, ErrorOutput(cs.Call.ID, fmt.Sprintf(
			"tool %s was unavailable in %d attempts, nothing ran: %s", cs.Call.Tool, cs.Attempt, te.Text())), AnswerFailed, nil)
	}
	why := cs.MayReplay()
	if why == nil {
		return again, nil
	}
	return done, s.giveUp(ctx, i, fmt.Sprintf("the host failed after the call was dispatched (attempt %d): %v; it is not repeated: %v", cs.Attempt, err, why))
}

// accept turns what the executor returned into the output that is recorded. An
// output that breaks the contract is the tool's failure, not the host's.
func (s *session) accept(cs *CallState, tool Tool, st *state, out *Output) *Output {
	out.CallID = cs.Call.ID
	bad := func(format string, a ...any) *Output {
		n := ErrorOutput(cs.Call.ID, fmt.Sprintf(format, a...))
		n.Tier, n.Fallback = out.Tier, out.Fallback
		return n
	}
	if out.IsError && len(out.State) > 0 {
		out.State = nil // a failed call changes nothing
	}
	if n := out.Size(); n > s.e.o.MaxOutputBytes {
		return bad("the output of %s is %d bytes, at most %d are allowed", cs.Call.Tool, n, s.e.o.MaxOutputBytes)
	}
	if err := cs.checkOutput(out); err != nil {
		return bad("%s returned an invalid output: %v", cs.Call.Tool, err)
	}
	if cs.Pin.Delegate && len(out.State) > 0 {
		return bad("%s is a delegation and may not change state", cs.Call.Tool)
	}
	if out.IsError {
		return out
	}
	if err := tool.CheckOutput(out); err != nil {
		return bad("%s returned an output that breaks its schema: %v", cs.Call.Tool, err)
	}
	trial := &state{published: st.published, staged: maps.Clone(st.staged)}
	if err := trial.stage(cs.Pin.Plugin, out.State, tool.CheckState); err != nil {
		return bad("%s: %v; none of the call's state commands were applied", cs.Call.Tool, err)
	}
	return out
}

func (s *session) giveUp(ctx context.Context, i int, reason string) error {
	cs := &s.b.Calls[i]
	if err := s.b.GiveUp(i, reason, s.e.now()); err != nil {
		return err
	}
	return s.settle(ctx, &Commit{
		Changed: []int{i},
		Events:  []Event{{Kind: EventCallIndeterminate, Step: s.b.Step, Index: i, Attempt: cs.Attempt, Note: reason}},
	})
}

// recoverCall decides about a call that was executing when its process stopped:
// invoked again with the same operation id if the pinned policy and the
// capability allow and the tool is the same, indeterminate otherwise.
func (s *session) recoverCall(ctx context.Context, i int) (parked bool, err error) {
	cs := &s.b.Calls[i]
	if cs.Pin.Delegate {
		return s.delegated(ctx, i)
	}
	reason := func(why error) string {
		return fmt.Sprintf("the host stopped while the call was running (attempt %d, started %s); it is not repeated: %v",
			cs.Attempt, cs.StartedAt.Format(time.RFC3339), why)
	}
	// A tool that changed meanwhile may mean another thing by the same record.
	tool, ok := s.catalog.Lookup(cs.Call.Tool)
	same := ok && tool.Descriptor().Digest == cs.Pin.ToolDigest
	x := s.e.o.Executors[cs.Pin.Target]
	if cs.Withdrawn() {
		return false, s.beginAgain(ctx, i, tool, same, x)
	}
	if r, is := x.(Recaller); is && same {
		if known, err := s.recall(ctx, i, tool, r); known || err != nil {
			return false, err
		}
	}
	if err := cs.MayReplay(); err != nil {
		return false, s.giveUp(ctx, i, reason(err))
	}
	if !same {
		return false, s.giveUp(ctx, i, reason(errors.New("the tool was changed or removed meanwhile")))
	}
	if x == nil {
		return false, s.giveUp(ctx, i, reason(fmt.Errorf("target %q is not configured any more", string(cs.Pin.Target))))
	}
	if now := x.RecoveryCapability(cs.Call.Tool); now != cs.Pin.Capability {
		return false, s.giveUp(ctx, i, reason(fmt.Errorf("the tool now promises %s, it was pinned with %s", now, cs.Pin.Capability)))
	}
	if err := s.e.ready(ctx); err != nil {
		return false, fmt.Errorf("operation %s: not repeated yet: %w", cs.Call.Operation(), err)
	}
	s.e.o.Logger.Info("repeating a call after a stop", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "attempt", cs.Attempt+1)
	return false, s.execute(ctx, i, tool, cs.Grant, &Commit{})
}

// beginAgain begins a call whose attempt was withdrawn. The gate has allowed it, and its
// decision is pinned with it.
func (s *session) beginAgain(ctx context.Context, i int, tool Tool, same bool, x Executor) error {
	cs := &s.b.Calls[i]
	if !same {
		return s.complete(ctx, i, ErrorOutput(cs.Call.ID, changedText(cs)), AnswerChanged, nil)
	}
	if x == nil {
		return s.complete(ctx, i, ErrorOutput(cs.Call.ID, noTargetText(cs)), AnswerPlacement, nil)
	}
	if err := s.e.ready(ctx); err != nil {
		return fmt.Errorf("operation %s: not begun yet: %w", cs.Call.Operation(), err)
	}
	s.e.o.Logger.Info("beginning a call again that a stop kept from running", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "attempt", cs.Attempt)
	return s.execute(ctx, i, tool, cs.Grant, &Commit{})
}

// recall commits what the executor has on record of call i. It reports whether there
// was anything.
func (s *session) recall(ctx context.Context, i int, tool Tool, r Recaller) (known bool, err error) {
	cs := &s.b.Calls[i]
	call, err := s.callFor(ctx, i)
	if err != nil {
		return false, err
	}
	out, known, err := recallSafely(ctx, r, call)
	if stopped := ctx.Err(); stopped != nil && !known {
		return false, fmt.Errorf("operation %s: stopped before its record was read: %w", cs.Call.Operation(), stopped)
	}
	if !known {
		if err != nil {
			s.e.o.Logger.Warn("the record of a call cannot be read", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "err", err)
		}
		return false, nil
	}
	s.e.o.Logger.Info("a call had ended before the host stopped, its record says how", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "attempt", cs.Attempt)
	next, err := s.outcome(ctx, i, tool, out, err)
	// What failed such that it may be tried again is for the rules of a replay.
	return next == done, err
}

// recallSafely turns a panic of the executor, or a missing output, into no record.
func recallSafely(ctx context.Context, r Recaller, call *Call) (out *Output, known bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, known, err = nil, false, fmt.Errorf("the executor panicked: %v", p)
		}
	}()
	out, known, err = r.Recall(ctx, call)
	if known && out == nil && err == nil {
		return nil, false, errors.New("the executor has a record without an output")
	}
	return out, known, err
}

// invoke runs the executor beside the caller, so that one that ignores the end of
// its context cannot hold the run: after a grace it is left to itself, its result
// is dropped, and the call counts as failed after dispatch.
func (e *Engine) invoke(ctx context.Context, x Executor, call *Call) (*Output, error) {
	type result struct {
		out *Output
		err error
	}
	ch := make(chan result, 1)
	go func() {
		out, err := invokeSafely(ctx, x, call)
		ch <- result{out, err}
	}()
	select {
	case r := <-ch:
		return r.out, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(e.o.StopGrace)
	defer grace.Stop()
	select {
	case r := <-ch:
		return r.out, r.err
	case <-grace.C:
		e.o.Logger.Error("an executor does not stop; it is left to itself", "operation", call.Operation(), "tool", call.Tool)
		return nil, &ToolError{Kind: ToolErrorExecution, Msg: fmt.Sprintf("the executor did not stop within %v", e.o.StopGrace), Err: ctx.Err()}
	}
}

// invokeSafely turns a panic of the executor, or a missing output, into an error
// of kind execution.
func invokeSafely(ctx context.Context, x Executor, call *Call) (out *Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, &ToolError{Kind: ToolErrorExecution, Msg: fmt.Sprintf("the executor panicked: %v", p)}
		}
	}()
	out, err = x.Invoke(ctx, call)
	if err == nil && out == nil {
		err = &ToolError{Kind: ToolErrorExecution, Msg: "the executor returned no output"}
	}
	return out, err
}
