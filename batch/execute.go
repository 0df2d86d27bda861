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
		if err := s.b.Start(i, grant, s.e.now()); err != nil {
			return err
		}
		if cs.Attempt == 1 {
			counts := s.run.Counts
			if counts == nil {
				counts = map[ToolID]int{}
			}
			counts[cs.Call.Tool]++
			s.run.Counts = counts
		}
		c.Changed = []int{i}
		c.Events = append(c.Events, Event{Kind: EventCallExecuting, Step: s.b.Step, Index: i, Attempt: cs.Attempt})
		if err := s.settle(ctx, c); err != nil {
			return err
		}
		again, err := s.attempt(ctx, i, tool)
		if err != nil || !again {
			return err
		}
		if err := sleep(ctx, delay); err != nil {
			return err
		}
		delay *= 2
		c = &Commit{}
	}
}

// attempt invokes call i once and commits what came of it. It reports whether
// another attempt is to be made: the failure allows it and the budget has room.
func (s *session) attempt(ctx context.Context, i int, tool Tool) (again bool, err error) {
	cs := &s.b.Calls[i]
	st, err := s.state(ctx)
	if err != nil {
		return false, err
	}
	call := cs.Call
	call.Attempt, call.ToolDigest, call.Grant = cs.Attempt, cs.Pin.ToolDigest, cs.Grant
	call.State = st.view(cs.Pin.Plugin)
	out, err := invokeSafely(ctx, s.e.o.Executors[cs.Pin.Target], &call)
	if err == nil {
		return false, s.complete(ctx, i, s.accept(cs, tool, st, out), AnswerTool, nil)
	}
	s.e.o.Logger.Warn("call failed in the host", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "attempt", cs.Attempt, "err", err)
	var te *ToolError
	kind := ToolErrorExecution
	if errors.As(err, &te) {
		kind = te.Kind
	}
	switch kind {
	case ToolErrorInvalidArguments:
		return false, s.complete(ctx, i, ErrorOutput(cs.Call.ID, "invalid arguments: "+te.Msg), AnswerInvalid, nil)
	case ToolErrorPlacement:
		return false, s.complete(ctx, i, ErrorOutput(cs.Call.ID, "placement: "+te.Msg+"; nothing ran"), AnswerPlacement, nil)
	}
	if ctx.Err() != nil {
		// The host is stopping. What the tool did is not known here; the committed
		// phase says so, and recovery decides by the pinned policy.
		return false, fmt.Errorf("operation %s: stopped while executing: %w", cs.Call.Operation(), ctx.Err())
	}
	if kind == ToolErrorUnavailable {
		if cs.Attempt < cs.Pin.MaxAttempts {
			return true, nil
		}
		return false, s.complete(ctx, i, ErrorOutput(cs.Call.ID, fmt.Sprintf(
			"tool %s was unavailable in %d attempts, nothing ran: %s", cs.Call.Tool, cs.Attempt, te.Msg)), AnswerFailed, nil)
	}
	why := cs.MayReplay()
	if why == nil {
		return true, nil
	}
	return false, s.giveUp(ctx, i, fmt.Sprintf("the host failed after the call was dispatched (attempt %d): %v; it is not repeated: %v", cs.Attempt, err, why))
}

// accept turns what the executor returned into the output that is recorded. An
// output that breaks the contract is the tool's failure, not the host's.
func (s *session) accept(cs *CallState, tool Tool, st *state, out *Output) *Output {
	out.CallID = cs.Call.ID
	bad := func(format string, a ...any) *Output {
		n := ErrorOutput(cs.Call.ID, fmt.Sprintf(format, a...))
		n.Tier = out.Tier
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
func (s *session) recoverCall(ctx context.Context, i int) error {
	cs := &s.b.Calls[i]
	reason := func(why error) string {
		return fmt.Sprintf("the host stopped while the call was running (attempt %d, started %s); it is not repeated: %v",
			cs.Attempt, cs.StartedAt.Format(time.RFC3339), why)
	}
	if err := cs.MayReplay(); err != nil {
		return s.giveUp(ctx, i, reason(err))
	}
	tool, ok := s.catalog.Lookup(cs.Call.Tool)
	if !ok || tool.Descriptor().Digest != cs.Pin.ToolDigest {
		return s.giveUp(ctx, i, reason(errors.New("the tool was changed or removed meanwhile")))
	}
	x := s.e.o.Executors[cs.Pin.Target]
	if x == nil {
		return s.giveUp(ctx, i, reason(fmt.Errorf("target %q is not configured any more", string(cs.Pin.Target))))
	}
	if now := x.RecoveryCapability(cs.Call.Tool); now != cs.Pin.Capability {
		return s.giveUp(ctx, i, reason(fmt.Errorf("the tool now promises %s, it was pinned with %s", now, cs.Pin.Capability)))
	}
	s.e.o.Logger.Info("repeating a call after a stop", "operation", cs.Call.Operation(), "tool", cs.Call.Tool, "attempt", cs.Attempt+1)
	return s.execute(ctx, i, tool, cs.Grant, &Commit{})
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
