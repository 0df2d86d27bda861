package standard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
)

// question is what is asked about a call. Without q the call has its answer already.
type question struct {
	call PolicyCall
	q    *policy.Question
}

// documentQuestions are those of a document: a whole input, one call, or a message.
func documentQuestions(ctx context.Context, e *PolicyEval, o Options) ([]question, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(e.Document, &top); err != nil || top == nil {
		return nil, e.bad(errors.New(`not a JSON object: a call {"tool", "arguments"}, a message of calls, or a whole input document is needed`))
	}
	if tool := bytes.TrimSpace(top["tool"]); len(tool) > 0 && tool[0] == '{' {
		return inputQuestion(e)
	}
	message := e.Document
	if top["tool"] != nil {
		var err error
		if message, err = oneCall(e.Document); err != nil {
			return nil, e.bad(err)
		}
	}
	m, err := host.ParseMessage(message)
	if err != nil {
		return nil, e.bad(err)
	}
	snapshot, _, err := LoadTools(ctx, e.File, o)
	if err != nil {
		return nil, err
	}
	var qs []question
	for i := range m.Calls {
		q, err := e.Caller.about(snapshot, &m.Calls[i], i)
		if err != nil {
			return nil, err
		}
		qs = append(qs, *q)
	}
	return qs, nil
}

// bad is what is wrong with the document.
func (e *PolicyEval) bad(err error) error { return setupError{fmt.Errorf("%s: %w", e.Name, err)} }

func inputQuestion(e *PolicyEval) ([]question, error) {
	if !e.Caller.IsZero() {
		return nil, e.bad(errors.New("a whole input document says itself who calls, when and after which approval: leave out the flags that would say it again"))
	}
	q, err := policy.ReadQuestion(e.Document)
	if err != nil {
		return nil, e.bad(err)
	}
	var shown struct {
		Tool struct {
			ID ToolID `json:"id"`
		} `json:"tool"`
		Call struct {
			ID string `json:"id"`
		} `json:"call"`
	}
	_ = json.Unmarshal(e.Document, &shown) // for show: a name that is no text is policy's to judge
	return []question{{PolicyCall{ID: shown.Call.ID, Tool: shown.Tool.ID}, q}}, nil
}

// oneCall makes a message of a call that stands alone.
func oneCall(doc []byte) ([]byte, error) {
	call := struct {
		ID        string          `json:"id"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}{ID: "call", Arguments: json.RawMessage("{}")}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&call); err != nil {
		return nil, fmt.Errorf(`not a call {"id", "tool", "arguments"}: %w`, err)
	}
	return json.Marshal(map[string]any{"calls": []any{call}})
}

// about is the question that the host would put to the gate about a call, or the
// answer that it would give itself.
func (c *PolicyCaller) about(snapshot *plugins.Snapshot, call *batch.RequestedCall, index int) (*question, error) {
	shown := PolicyCall{ID: string(call.ID), Tool: call.Tool}
	refused := func(code, format string, a ...any) (*question, error) {
		shown.Evaluation = policy.Evaluation{
			Answer: &policy.Answer{Outcome: batch.OutcomeBlock, Reasons: []batch.Reason{{Code: code, Message: fmt.Sprintf(format, a...)}}},
			Rules:  []policy.FiredRule{},
		}
		return &question{call: shown}, nil
	}
	t, ok := snapshot.Tool(call.Tool)
	if !ok {
		return refused(batch.ReasonUnknownTool, "there is no tool %q", string(call.Tool))
	}
	if err := t.CheckArguments(call.Arguments); err != nil {
		return refused(batch.ReasonInvalidArguments, "invalid arguments for %s: %v", call.Tool, err)
	}
	query, err := c.query(t, call, index)
	if err != nil {
		return nil, err
	}
	q, err := policy.QuestionAbout(query, t)
	if err != nil {
		return refused(batch.ReasonInvalidArguments, "%v", err)
	}
	return &question{shown, q}, nil
}

func (c *PolicyCaller) query(t *plugins.Tool, call *batch.RequestedCall, index int) (*batch.Query, error) {
	asked, now := batch.Call{Run: batch.RunID(c.Run), Step: 1, Index: index, ID: call.ID, Tool: call.Tool, Arguments: call.Arguments}, c.Now
	if asked.Run == "" {
		asked.Run = "eval"
	}
	if err := asked.Run.Validate(); err != nil {
		return nil, err
	}
	if now.IsZero() {
		now = time.Now()
	}
	q := &batch.Query{
		Call: &asked, Tool: t.Descriptor(), Now: now.UTC(),
		Run: &batch.Run{ID: asked.Run, Principal: c.Principal, Agent: c.Agent, Labels: c.Labels, Counts: c.Counts},
	}
	if len(c.Approved) > 0 || c.Due {
		q.Approval = &batch.Approval{Kind: batch.TicketPermission, Ticket: "tk-eval", By: c.Approved, At: q.Now, Requested: q.Now}
		if c.Due {
			q.Approval.Kind = batch.TicketSchedule
		}
	}
	return q, nil
}
