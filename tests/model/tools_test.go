package model

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
)

// Host is the executor of its own engine: tools that do what the script says, of which
// there may be a record, and delegations that start child runs.
var (
	_ batch.Delegator = (*host)(nil)
	_ batch.Recaller  = (*host)(nil)
)

// Delegates implements batch.Delegator.
func (h *host) Delegates(id batch.ToolID) bool { return kinds[string(id)].delegate }

// Parallel implements batch.Delegator.
func (h *host) Parallel(id batch.ToolID) bool { return kinds[string(id)].parallel }

// RecoveryCapability implements batch.Executor.
func (h *host) RecoveryCapability(id batch.ToolID) batch.RecoveryCapability {
	return batch.RecoveryCapability(kinds[string(id)].capability)
}

// Invoke implements batch.Executor.
func (h *host) Invoke(ctx context.Context, c *batch.Call) (*batch.Output, error) {
	s := h.w.script(c)
	if h.Delegates(c.Tool) {
		return h.delegate(ctx, c, s)
	}
	saw := "state"
	for _, k := range []string{"list", "n"} {
		if v, ok := c.State[k]; ok {
			saw += " " + k + "=" + string(v)
		}
	}
	if c.Grant != nil {
		saw += " narrowed"
	}
	h.w.happened(ctx, c, deed{"run", c.Step, c.Index, c.Attempt, saw})
	return produce(c, s, s.does(c.Attempt), fmt.Sprintf("%s#%d", c.Operation(), c.Attempt))
}

// Recall implements batch.Recaller.
func (h *host) Recall(ctx context.Context, c *batch.Call) (*batch.Output, bool, error) {
	s := h.w.script(c)
	h.w.happened(ctx, c, deed{"look", c.Step, c.Index, c.Attempt, s.Record})
	switch s.Record {
	case "":
		return nil, false, nil
	case "error":
		return nil, false, errors.New("the record cannot be read")
	}
	out, err := produce(c, s, s.Record, fmt.Sprintf("recorded %s#%d", c.Operation(), c.Attempt))
	return out, true, err
}

// produce is what comes of a call that does what a word says.
func produce(c *batch.Call, s *script, word, say string) (*batch.Output, error) {
	out := &batch.Output{Content: text("say " + say)}
	cmds := make([]batch.Command, 0, len(s.Cmds))
	for _, x := range s.Cmds {
		cmd := batch.Command{Op: batch.Op(x.Op), Key: x.Key}
		if x.Value != "" {
			cmd.Value = []byte(x.Value)
		}
		cmds = append(cmds, cmd)
	}
	failure := func(kind batch.ToolErrorKind) (*batch.Output, error) {
		return nil, &batch.ToolError{Kind: kind, Msg: "it does not work"}
	}
	switch word {
	case "ok":
		out.State = cmds
	case "another":
		out.CallID, out.State = "another", cmds
	case "fail":
		out.Content, out.IsError = text("say failed "+say), true
	case "failstate":
		out.Content, out.IsError, out.State = text("say failed "+say), true, cmds
	case "badblock":
		out.Content = []batch.ContentBlock{{Type: "video", Text: "x"}}
	case "huge":
		out.Content = text(strings.Repeat("x", maxOutBytes+1))
	case "badschema":
		out.Content = text("breaks the schema")
	case "invalid":
		return failure(batch.ToolErrorInvalidArguments)
	case "placement":
		return failure(batch.ToolErrorPlacement)
	case "unavailable":
		return failure(batch.ToolErrorUnavailable)
	case "execution":
		return failure(batch.ToolErrorExecution)
	case "error":
		return nil, errors.New("it broke")
	case "nothing":
		return nil, nil
	case "panic":
		panic("the tool panics")
	}
	return out, nil
}

// delegate submits the child's batch, in the same words every time.
func (h *host) delegate(ctx context.Context, c *batch.Call, s *script) (*batch.Output, error) {
	parent, err := h.w.mem.Run(ctx, c.Run)
	if err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "no parent", Err: err}
	}
	b, err := h.engine.Submit(ctx, &batch.Request{
		Run: batch.ChildRunID(c.Operation()), Step: 1, Principal: parent.Principal,
		Parent: c.Operation(), Depth: parent.Depth + 1, Calls: requested(s.children),
	})
	switch {
	case errors.Is(err, batch.ErrCancelled):
		return nil, batch.ErrPending
	case errors.Is(err, batch.ErrInvalid) || errors.Is(err, batch.ErrRecoveryPolicy):
		return batch.ErrorOutput(c.ID, "say refused"), nil
	case err != nil:
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "the child stopped", Err: err}
	case b.Phase != batch.BatchFinalized:
		return nil, batch.ErrPending
	}
	say := "say child"
	for i := range b.Calls {
		say += " " + string(b.Calls[i].Phase) + "/" + string(b.Calls[i].Answer)
		if b.Calls[i].Output.IsError {
			say += "!"
		}
	}
	return &batch.Output{Content: text(say)}, nil
}

func requested(cs []*script) []batch.RequestedCall {
	out := make([]batch.RequestedCall, len(cs))
	for i, s := range cs {
		out[i] = batch.RequestedCall{ID: batch.CallID(s.id), Tool: batch.ToolID(s.tool), Arguments: []byte(s.args)}
	}
	return out
}
