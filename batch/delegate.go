package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// ChildRunID names the run that a delegation call starts. It follows from the
// operation id alone, so that the child is found again after a restart.
func ChildRunID(op OperationID) RunID {
	sum := sha256.Sum256([]byte(op))
	return RunID("child-" + hex.EncodeToString(sum[:16]))
}

// parallelDelegations bounds the children of one batch that are driven at once.
const parallelDelegations = 8

// parallel is the one exception to model order: a batch made only of delegation
// calls, none of which has begun, whose executor supports completing them side by
// side. Every gate must say allow before any of them starts; otherwise nothing is
// committed here and the calls are taken in order.
func (s *session) parallel(ctx context.Context) (parked bool, err error) {
	if !s.b.Delegations() || len(s.b.Calls) < 2 {
		return false, nil
	}
	c := &Commit{}
	tools := make([]Tool, len(s.b.Calls))
	grants := make([]*Grant, len(s.b.Calls))
	for i := range s.b.Calls {
		cs := &s.b.Calls[i]
		dg, ok := s.e.o.Executors[cs.Pin.Target].(Delegator)
		if !ok || cs.Phase != PhaseRequested || !dg.Parallel(cs.Call.Tool) {
			return false, nil
		}
		d, _, _, tool := s.precheck(cs)
		if d != nil {
			return false, nil
		}
		d, _, _ = s.ask(ctx, cs, tool, nil)
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if loggable := s.e.ready(ctx) == nil; d.Outcome != OutcomeAllow || !loggable {
			return false, nil
		}
		tools[i], grants[i] = tool, d.Grant
		c.Decisions = append(c.Decisions, s.record(cs, d, nil))
	}
	for i := range s.b.Calls {
		if err := s.b.Start(i, grants[i], s.e.now()); err != nil {
			return false, err
		}
		s.count(s.b.Calls[i].Call.Tool)
		c.Changed = append(c.Changed, i)
		c.Events = append(c.Events, Event{Kind: EventCallExecuting, Step: s.b.Step, Index: i, Attempt: 1})
	}
	if err := s.settle(ctx, c); err != nil {
		return false, err
	}
	unlogged := s.unlogged // withholding one call is another commit
	var start []int
	for i := range s.b.Calls {
		s.unlogged = unlogged
		if withheld, err := s.withheld(ctx, i); err != nil {
			return false, err
		} else if !withheld {
			start = append(start, i)
		}
	}
	return s.collect(ctx, start, tools)
}

// delegated continues delegation calls that are executing: all of them in a batch
// of nothing else, the one in turn otherwise.
func (s *session) delegated(ctx context.Context, i int) (parked bool, err error) {
	indices := []int{i}
	if s.b.Delegations() {
		indices = nil
		for j := range s.b.Calls {
			if s.b.Calls[j].Phase == PhaseExecuting {
				indices = append(indices, j)
			}
		}
	}
	tools := make([]Tool, len(s.b.Calls))
	for _, j := range indices {
		cs := &s.b.Calls[j]
		tool, ok := s.catalog.Lookup(cs.Call.Tool)
		if _, can := s.e.o.Executors[cs.Pin.Target].(Delegator); !can || !ok || tool.Descriptor().Digest != cs.Pin.ToolDigest {
			return false, s.giveUp(ctx, j, fmt.Sprintf("the delegation tool %s was changed or removed while its child run %s was under way",
				cs.Call.Tool, ChildRunID(cs.Call.Operation())))
		}
		tools[j] = tool
	}
	if err := s.e.ready(ctx); err != nil {
		return false, fmt.Errorf("batch %s: its delegations do not go on yet: %w", s.b.ID(), err)
	}
	return s.collect(ctx, indices, tools)
}

// collect invokes the given delegation calls side by side and commits each outcome
// on its own as it comes. It reports whether some child is not finished.
func (s *session) collect(ctx context.Context, indices []int, tools []Tool) (parked bool, err error) {
	type result struct {
		i   int
		out *Output
		err error
	}
	results := make(chan result)
	sem := make(chan struct{}, parallelDelegations)
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for _, i := range indices {
		call, err := s.callFor(ctx, i)
		if err != nil {
			return false, err
		}
		x := s.e.o.Executors[s.b.Calls[i].Pin.Target]
		wg.Go(func() {
			select {
			case sem <- struct{}{}:
				defer func() { <-sem }()
			case <-ctx.Done():
				return
			}
			out, err := s.e.invoke(ctx, x, call)
			select {
			case results <- result{i, out, err}:
			case <-ctx.Done():
			}
		})
	}
	for range indices {
		var r result
		select {
		case r = <-results:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		n, err := s.outcome(ctx, r.i, tools[r.i], r.out, r.err)
		if err != nil {
			return false, err
		}
		parked = parked || n == pending
		if n == again { // the child could not be reached: left executing, tried at the next resume
			parked = true
		}
	}
	return parked, nil
}

// resumeParent continues the parent of a child run that has just been published:
// the delegation call that waits for it. The child's lock is free by then, and a
// failure is the parent's: it stays to be recovered.
func (e *Engine) resumeParent(ctx context.Context, s *session) {
	if s == nil || s.run.Parent == "" || s.b == nil || s.b.Phase != BatchFinalized {
		return
	}
	parent, err := s.run.Parent.run()
	if err == nil {
		_, err = e.Resume(ctx, parent)
	}
	if err != nil && !errors.Is(err, ErrCancelled) && !errors.Is(err, ErrNotFound) {
		e.o.Logger.Error("a child run is finished, its parent could not be continued", "child", s.run.ID, "parent", s.run.Parent, "err", err)
	}
}
