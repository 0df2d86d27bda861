package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/print"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Candidate is one compiled policy that decides about nothing: it can be asked what
// it would say. It never changes and is safe for concurrent use.
type Candidate struct {
	s *set
	g *Gate
}

// Compile compiles the policy under o.Paths as Open does; Tools is not needed. The
// error is that of Open.
func Compile(ctx context.Context, o Options) (*Candidate, error) {
	o.TestOnReload = false // it is asked about, not put in force
	s, err := load(ctx, &o)
	if err != nil {
		return nil, err
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	o.Logger = slog.New(slog.DiscardHandler)
	return &Candidate{s: s, g: &Gate{o: o}}, nil
}

// Revision is the hex SHA-256 of the policy; see Gate.Revision.
func (c *Candidate) Revision() string { return c.s.revision }

// Warnings name files that look like policy and are left out.
func (c *Candidate) Warnings() []Problem { return c.s.unread }

// Answer is what a policy says to a question. Fields of other outcomes than the one
// given are absent.
type Answer struct {
	Outcome      batch.Outcome  `json:"outcome"`
	Reasons      []batch.Reason `json:"reasons"`
	Grant        *batch.Grant   `json:"grant,omitempty"`        // allow: narrowing
	Confirmation *Confirmation  `json:"confirmation,omitempty"` // require_confirmation
	Result       *Result        `json:"result,omitempty"`       // set_result
	At           time.Time      `json:"at,omitzero"`            // schedule: not before
}

// Confirmation is batch.Confirmation with names for JSON.
type Confirmation struct {
	Prompt    string        `json:"prompt"`
	Approvers []string      `json:"approvers,omitempty"`
	Quorum    int           `json:"quorum"`
	Timeout   time.Duration `json:"timeout_ns,omitempty"`
}

// Result is batch.Result with names for JSON.
type Result struct {
	Content []batch.ContentBlock `json:"content"`
	IsError bool                 `json:"is_error"`
}

// attempts is how often a question is put that has no answer within the deadline: a busy
// machine is no slow policy, and makes a difference that the policy does not.
const attempts = 3

// Decide asks for a decision, under the deadline and with nothing else observed. The
// only error is that of ctx.
func (c *Candidate) Decide(ctx context.Context, q *Question) (a *Answer, err error) {
	for range attempts {
		a, err = c.decide(ctx, c.g.o.Deadline, q)
		if err != nil || a.Reasons[0].Code != ReasonTimeout {
			break
		}
	}
	return a, err
}

func (c *Candidate) decide(ctx context.Context, deadline time.Duration, q *Question, more ...rego.EvalOption) (*Answer, error) {
	bounded, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	asked := &batch.Query{Call: &batch.Call{}, Run: &batch.Run{}, Now: q.now}
	sub := &subject{tool: &plugins.Tool{Plugin: &plugins.Plugin{Effective: q.effective}}}
	d, err := c.g.evaluate(bounded, c.s, asked, sub, q.input, more...)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("policy: the decision was cut short: %w", ctx.Err())
	}
	if err != nil {
		d = c.g.failed(asked, err)
	}
	return answerOf(d), nil
}

func answerOf(d *batch.Decision) *Answer {
	a := &Answer{Outcome: d.Outcome, Reasons: d.Reasons, Grant: d.Grant, At: d.At}
	if k := d.Confirmation; k != nil {
		a.Confirmation = &Confirmation{k.Prompt, k.Approvers, k.Quorum, k.Timeout}
	}
	if r := d.Result; r != nil {
		a.Result = &Result{r.Content, r.IsError}
	}
	return a
}

// The ways to explain an evaluation, as in OPA. The host's own rules are shown by
// the full one only.
const (
	ExplainFails = "fails" // what was not true, and what led there
	ExplainNotes = "notes" // what the policy says with trace()
	ExplainFull  = "full"  // everything
)

// EvaluateOptions says what is observed besides the decision.
type EvaluateOptions struct {
	Explain  string // one of the ways above; empty: no trace
	Coverage bool
}

// Evaluation is an answer with how it came about.
type Evaluation struct {
	Answer   *Answer       `json:"decision"`
	Rules    []FiredRule   `json:"rules"`      // of the operator's, in the order of precedence; none after a timeout that is not observed
	Elapsed  time.Duration `json:"elapsed_ns"` // of the decision alone
	Printed  []string      `json:"printed,omitempty"`
	Trace    []string      `json:"trace,omitempty"`
	Coverage *Coverage     `json:"coverage,omitempty"`
}

// FiredRule is a rule of package awaken.policy that was true.
type FiredRule struct {
	Rule    string          `json:"rule"` // allow, block, …
	File    string          `json:"file"`
	Line    int             `json:"line"`
	Entry   json.RawMessage `json:"entry,omitempty"` // what it added, where it adds one thing
	Decided bool            `json:"decided"`         // false: a rule of an outcome that comes first made it moot
}

// explainDeadline bounds an evaluation that is observed, which takes longer than one
// that decides.
const explainDeadline = 30 * time.Second

// Evaluate asks for a decision, and which rules made it. An evaluation that fails is
// an answer to block, as it is in the gate. The only error is that of ctx.
func (c *Candidate) Evaluate(ctx context.Context, q *Question, o EvaluateOptions) (*Evaluation, error) {
	began := time.Now()
	a, err := c.Decide(ctx, q)
	if err != nil {
		return nil, err
	}
	e := &Evaluation{Answer: a, Elapsed: time.Since(began)}
	if a.Reasons[0].Code == ReasonTimeout && o.Explain == "" && !o.Coverage {
		// To look on for longer takes what an endless policy takes: minutes and gigabytes.
		e.Rules = []FiredRule{}
		return e, nil
	}
	printed := &prints{}
	more := []rego.EvalOption{rego.EvalPrintHook(printed)}
	var events *topdown.BufferTracer
	if o.Explain != "" {
		events = topdown.NewBufferTracer()
		more = append(more, rego.EvalQueryTracer(events))
	}
	var measure *cover.Cover
	if o.Coverage {
		measure = cover.New()
		more = append(more, rego.EvalQueryTracer(measure))
	}
	if _, err := c.decide(ctx, max(explainDeadline, c.g.o.Deadline), q, more...); err != nil {
		return nil, err
	}
	if e.Rules, err = c.fired(ctx, q, a.Outcome); err != nil {
		return nil, err
	}
	e.Printed = printed.lines
	if events != nil {
		e.Trace = explained(*events, o.Explain)
	}
	if measure != nil {
		e.Coverage = coverage(measure, c.s.modules)
	}
	return e, nil
}

// fired asks for each kind of rule in turn, since a decision is made without those
// of outcomes that come later. One that fails has not fired.
func (c *Candidate) fired(ctx context.Context, q *Question, outcome batch.Outcome) ([]FiredRule, error) {
	ctx, stop := context.WithTimeout(ctx, explainDeadline)
	defer stop()
	out := []FiredRule{}
	for _, name := range ruleNames {
		query, err := c.s.prepare(ctx, policyPackage+"."+name)
		if err != nil {
			continue // a rule that nobody wrote
		}
		t := &firings{set: c.s, name: name}
		_, _ = query.Eval(ctx, rego.EvalParsedInput(q.input), rego.EvalRuleIndexing(!c.s.texts.odd(q.input)), rego.EvalTime(q.now),
			rego.EvalInterQueryBuiltinValueCache(c.s.values), rego.EvalQueryTracer(t))
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("policy: looking for the rules that fired was cut short: %w", err)
		}
		for _, f := range t.out {
			f.Decided = name == string(outcome) || name == "grant" && outcome == batch.OutcomeAllow
			out = append(out, f)
		}
	}
	return out, nil
}

// firings notes the rules of one name that were true.
type firings struct {
	set  *set
	name string
	out  []FiredRule
}

func (*firings) Enabled() bool { return true }

func (*firings) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

func (t *firings) TraceEvent(e topdown.Event) {
	r, ok := e.Node.(*ast.Rule)
	if !ok || e.Op != topdown.ExitOp || r.Location == nil || t.set.modules[r.Location.File] == nil || ruleName(r) != t.name ||
		r.Module == nil || r.Module.Package.Path.String() != policyPackage {
		return
	}
	f := FiredRule{Rule: t.name, File: r.Location.File, Line: r.Location.Row}
	if k := r.Head.Key; k != nil {
		f.Entry = entryText(e.Plug(k))
	}
	if !slices.ContainsFunc(t.out, func(o FiredRule) bool {
		return o.File == f.File && o.Line == f.Line && string(o.Entry) == string(f.Entry)
	}) {
		t.out = append(t.out, f)
	}
}

// entryText is an entry as JSON, nil where it has parts that are not known.
func entryText(t *ast.Term) json.RawMessage {
	if t == nil || !t.IsGround() {
		return nil
	}
	v, err := ast.JSON(t.Value)
	if err != nil {
		return nil
	}
	raw, err := compactJSON(v)
	if err != nil {
		return nil
	}
	return raw
}

// prints collects print() with places.
type prints struct{ lines []string }

func (p *prints) Print(c print.Context, msg string) error {
	if len(p.lines) < maxTraceLines {
		where := ""
		if c.Location != nil {
			where = fmt.Sprintf("%s:%d: ", c.Location.File, c.Location.Row)
		}
		p.lines = append(p.lines, where+strings.TrimSuffix(msg, "\n"))
	}
	return nil
}
