package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// delegation is the Brain's executor: delegation tools start child runs through
// the same pipeline, every other tool goes on to the next executor.
type delegation struct {
	engine   *batch.Engine
	store    batch.Store
	registry *plugins.Registry
	next     batch.Executor // nil: there is none
}

var _ batch.Delegator = (*delegation)(nil)

func (d *delegation) spec(id batch.ToolID) *plugins.ToolSpec {
	if t, ok := d.registry.Load().Tool(id); ok && t.Spec.Delegate {
		return t.Spec
	}
	return nil
}

// Delegates implements batch.Delegator.
func (d *delegation) Delegates(id batch.ToolID) bool { return d.spec(id) != nil }

// Parallel implements batch.Delegator.
func (d *delegation) Parallel(id batch.ToolID) bool {
	s := d.spec(id)
	return s != nil && s.Parallel
}

// RecoveryCapability implements batch.Executor: a child is found again by the
// operation id, and its recorded result with it.
func (d *delegation) RecoveryCapability(id batch.ToolID) batch.RecoveryCapability {
	switch {
	case d.Delegates(id):
		return batch.DurableRequest
	case d.next == nil:
		return batch.NonRecoverable
	}
	return d.next.RecoveryCapability(id)
}

// Invoke implements batch.Delegator.
func (d *delegation) Invoke(ctx context.Context, call *batch.Call) (*batch.Output, error) {
	switch {
	case d.Delegates(call.Tool):
		return d.delegate(ctx, call)
	case d.next == nil:
		return nil, &batch.ToolError{Kind: batch.ToolErrorPlacement, Msg: `this host has nothing that runs target "brain"`}
	}
	return d.next.Invoke(ctx, call)
}

// childResult is what a delegation call answers with.
type childResult struct {
	Run     batch.RunID  `json:"run"`
	Results []CallResult `json:"results"`
}

// delegate submits the child batch. Submission is idempotent, so that the same
// words start the child, find it after a restart, and collect what it came to.
func (d *delegation) delegate(ctx context.Context, call *batch.Call) (*batch.Output, error) {
	parent, err := d.store.Run(ctx, call.Run)
	if err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "the parent run cannot be read", Err: err}
	}
	calls, err := parseOwn(call.Arguments)
	if err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorInvalidArguments, Msg: err.Error()}
	}
	run := batch.ChildRunID(call.Operation())
	b, err := d.engine.Submit(ctx, &batch.Request{
		Run: run, Step: 1, Principal: parent.Principal, Agent: parent.Agent, Labels: parent.Labels,
		Dialect: string(DialectOwn), Message: bytes.Clone(call.Arguments), Calls: calls,
		Parent: call.Operation(), Depth: parent.Depth + 1,
	})
	switch {
	case errors.Is(err, batch.ErrCancelled):
		return nil, batch.ErrPending // being cancelled: sealed in a moment, and then collected
	case errors.Is(err, batch.ErrInvalid) || errors.Is(err, batch.ErrBadID) || errors.Is(err, batch.ErrRecoveryPolicy):
		return batch.ErrorOutput(call.ID, "the delegated batch is refused, nothing of it ran: "+err.Error()), nil
	case err != nil:
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "the child run " + string(run) + " stopped", Err: err}
	case b.Phase != batch.BatchFinalized:
		return nil, batch.ErrPending
	}
	r, err := (&Ledger{store: d.store}).result(ctx, b)
	if err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "the result of child run " + string(run) + " cannot be read", Err: err}
	}
	text, err := json.Marshal(childResult{Run: run, Results: r.Results})
	if err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "the result of child run " + string(run) + " cannot be written", Err: err}
	}
	return &batch.Output{Content: []batch.ContentBlock{batch.JSONBlock(text)}}, nil
}
