package standard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/policy"
)

// PolicyEval says what a policy is asked. Exactly one of Document and Operation is
// set.
type PolicyEval struct {
	File  string   // the host file
	Paths []string // in place of the policy that File names

	// Document is a call {"id", "tool", "arguments"}, a message of calls in any
	// dialect, or a whole input document as a policy sees it.
	Document []byte
	Name     string // of the document, for messages
	// Operation is a call of the ledger, "<run>/<step>/<index>", which is asked about
	// as it was when it was last decided.
	Operation string

	Caller PolicyCaller // of the calls of a Document

	Explain  string // "fails", "notes", "full"; empty: no trace
	Coverage bool
}

// PolicyCaller is what the host would know of a call besides what the model wrote.
type PolicyCaller struct {
	Run       string // empty: "eval"
	Principal string
	Agent     string
	Labels    map[string]string
	Now       time.Time      // zero: now
	Counts    map[ToolID]int // how often tools were called in the run
	Approved  []string       // who approved; then the call comes back from waiting
	Due       bool           // the call comes back at its scheduled time
}

// IsZero reports whether nothing is said.
func (c *PolicyCaller) IsZero() bool {
	return c.Run == "" && c.Principal == "" && c.Agent == "" && len(c.Labels) == 0 && c.Now.IsZero() &&
		len(c.Counts) == 0 && len(c.Approved) == 0 && !c.Due
}

// PolicyEvalReport is what a policy says.
type PolicyEvalReport struct {
	Revision string       `json:"revision"`
	Calls    []PolicyCall `json:"calls"`
}

// PolicyCall is one call with what a policy says of it.
type PolicyCall struct {
	ID        string            `json:"id,omitempty"`
	Operation batch.OperationID `json:"operation,omitempty"` // of the ledger
	Tool      ToolID            `json:"tool,omitempty"`
	// Asked is false for a call that the host refuses before it asks policy.
	Asked bool `json:"asked"`
	policy.Evaluation
	Recorded *batch.DecisionRecord `json:"recorded,omitempty"` // what was decided then
	Input    json.RawMessage       `json:"input,omitempty"`
}

// PolicyAnswer is what a policy says to a question.
type PolicyAnswer = policy.Answer

// PolicyReason is one reason of an answer.
type PolicyReason = batch.Reason

// EvalPolicy asks a policy about calls. Nothing is executed, and nothing is written to
// the ledger.
func EvalPolicy(ctx context.Context, e PolicyEval, o Options) (*PolicyEvalReport, error) {
	c, err := compilePolicy(ctx, e.File, e.Paths, o)
	if err != nil {
		return nil, err
	}
	qs, err := e.questions(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &PolicyEvalReport{Revision: c.Revision()}
	for _, q := range qs {
		if q.q != nil {
			ev, err := c.Evaluate(ctx, q.q, policy.EvaluateOptions{Explain: e.Explain, Coverage: e.Coverage})
			if err != nil {
				return nil, err
			}
			q.call.Asked, q.call.Evaluation = true, *ev
			if q.call.Input, err = q.q.Document(); err != nil {
				return nil, err
			}
		}
		r.Calls = append(r.Calls, q.call)
	}
	return r, nil
}

// compilePolicy makes a candidate of what a host file names, or of paths in its place.
func compilePolicy(ctx context.Context, file string, paths []string, o Options) (*policy.Candidate, error) {
	po, err := optionsOfPolicy(file, false, paths, o)
	if err != nil {
		return nil, err
	}
	c, err := policy.Compile(ctx, po)
	if err != nil {
		return nil, asSetup(ctx, err)
	}
	for _, w := range c.Warnings() {
		po.Logger.Warn("a file beside the policy is not read", "problem", w.String())
	}
	return c, nil
}

func (e *PolicyEval) questions(ctx context.Context, o Options) ([]question, error) {
	if e.Operation == "" {
		return documentQuestions(ctx, e, o)
	}
	run, step, index, err := batch.ParseOperationID(batch.OperationID(e.Operation))
	if err != nil {
		return nil, err
	}
	var q *question
	err = withLedger(e.File, o, func(store batch.Store) error {
		q, err = fromLedger(ctx, store, run, step, index)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []question{*q}, nil
}

// IsOperation reports whether s has the form of an operation id.
func IsOperation(s string) bool {
	_, _, _, err := batch.ParseOperationID(batch.OperationID(s))
	return err == nil
}

// withLedger opens the ledger of file, which must be there, and closes it.
func withLedger(file string, o Options, use func(batch.Store) error) error {
	cfg, _, err := existingLedger(file, o)
	if err != nil {
		return err
	}
	store, err := openStore(cfg, o.Logger)
	if err != nil {
		return err
	}
	return errors.Join(use(store), store.Close())
}

// fromLedger is the question that was last asked about a call.
func fromLedger(ctx context.Context, store batch.Store, run batch.RunID, step, index int) (*question, error) {
	op := batch.NewOperationID(run, step, index)
	b, err := store.Batch(ctx, run, step)
	if err != nil {
		return nil, err
	}
	if index >= len(b.Calls) {
		return nil, fmt.Errorf("operation %s: the calls of step %d of run %s are 0 to %d: %w", op, step, run, len(b.Calls)-1, batch.ErrNotFound)
	}
	decisions, err := store.Decisions(ctx, run)
	if err != nil {
		return nil, err
	}
	var last *batch.DecisionRecord
	for _, d := range decisions {
		if d.Operation == op {
			last = d
		}
	}
	switch {
	case last == nil:
		return nil, fmt.Errorf("operation %s is not decided yet", op)
	case len(last.Input) == 0:
		return nil, fmt.Errorf("operation %s was refused before policy was asked (%s): there is no input to ask with", op, last.Reasons[0].Code)
	}
	q, err := policy.RecordedQuestion(last.Input, b.Calls[index].Call.Arguments)
	if err != nil {
		return nil, fmt.Errorf("operation %s cannot be put to a policy: %w", op, err)
	}
	shown := *last
	shown.Input = nil // the whole input stands beside it
	return &question{PolicyCall{ID: string(b.Calls[index].Call.ID), Operation: op, Tool: last.Tool, Recorded: &shown}, q}, nil
}
