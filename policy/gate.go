package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/print"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// Defaults of Options.
const (
	DefaultDeadline         = 100 * time.Millisecond
	DefaultMaxArgumentBytes = 4 << 20
)

// maxContextBytes bounds the input but for the arguments, so that all of it is bounded.
const maxContextBytes = 1 << 20

// Options configures a Gate. Tools is required, and a path or a bundle; Check needs no
// Tools.
type Options struct {
	// Paths are .rego, .json, .yaml and .yml files, folders of them, and unsigned
	// bundles (.tar.gz, .tgz). Tests (_test.rego) and hidden files are left out. A
	// missing or empty one is an error, and so is what is neither file nor folder,
	// larger than 4 MiB, or 64 MiB in all.
	Paths []string
	// Bundles are OPA bundles, from disk or from servers.
	Bundles []BundleOptions
	// StateDir is where bundles from servers are kept for when those are down, and
	// where the status is written; see Gate.Keep. Empty: nowhere.
	StateDir string
	// TestOnReload puts a policy in force only when the tests beside it pass, at start
	// too.
	TestOnReload bool
	// WatchEvery is how often Watch looks at files; 0: DefaultWatchEvery, negative:
	// never.
	WatchEvery time.Duration
	// Metrics gets the collectors of the gate; nil: none.
	Metrics prometheus.Registerer
	// Deadline bounds one decision, arguments read and rules evaluated; 0:
	// DefaultDeadline.
	Deadline time.Duration
	// Builtins are the OPA built-ins to let in besides those that only compute.
	Builtins []string
	// MaxArgumentBytes bounds the arguments of a call; 0: DefaultMaxArgumentBytes.
	MaxArgumentBytes int
	// Tools returns the tools in force; asked once per decision.
	Tools func() *plugins.Snapshot
	// Logger hears of failures (warn) and of print() in policies (debug); nil:
	// discard.
	Logger *slog.Logger

	tests bool // read the tests beside the policy, and leave it to the caller to run them
}

// Gate decides by policy. It is a batch.Gate: all methods are safe for concurrent
// use. It starts no goroutine that outlives a call. Close is needed after Keep only.
type Gate struct {
	o        Options
	loader   *loader
	current  atomic.Pointer[set]
	reload   sync.Mutex // held while a set is made and put in force
	subjects sync.Map   // batch.ToolID to *subject
	standing standing
	metrics  *metrics
	changed  chan struct{} // a bundle has a new version
}

var _ batch.Gate = (*Gate)(nil)

// Open compiles the policy under o.Paths. The error is of type Problems and names
// file and line of everything that is wrong, or it is that of ctx. What looks like
// policy and is left out goes to the log.
func Open(ctx context.Context, o Options) (*Gate, error) {
	if o.Tools == nil {
		return nil, errors.New("policy: a gate needs the tools in force")
	}
	if o.Deadline < 0 || o.MaxArgumentBytes < 0 {
		return nil, fmt.Errorf("policy: deadline %v and argument limit %d must not be negative", o.Deadline, o.MaxArgumentBytes)
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.MaxArgumentBytes == 0 {
		o.MaxArgumentBytes = DefaultMaxArgumentBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{o: o, metrics: newMetrics(), changed: make(chan struct{}, 1)}
	var err error
	if g.loader, err = newLoader(&g.o); err != nil {
		return nil, err
	}
	s, err := g.loader.first(ctx)
	if err != nil {
		return nil, err
	}
	g.putInForce(s)
	g.refused(s.refused)
	if err := g.metrics.register(o.Metrics); err != nil {
		return nil, err
	}
	return g, nil
}

// Revision is the hex SHA-256 of the set in force.
func (g *Gate) Revision() string { return g.current.Load().revision }

// Decide asks the policy in force about a call. Whatever goes wrong is a decision to
// block with a reason code of its own. The only error is that of ctx: a question
// cut short by the caller has not been decided.
func (g *Gate) Decide(ctx context.Context, q *batch.Query) (*batch.Decision, error) {
	began := time.Now()
	s := g.current.Load()
	d := g.decide(ctx, s, q)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("policy: the decision was cut short: %w", err)
	}
	d.PolicyRevision = s.revision
	d.Elapsed = time.Since(began)
	g.metrics.decided(d)
	return d, nil
}

// block is the decision for everything that is not one.
func block(code, format string, a ...any) *batch.Decision {
	return &batch.Decision{
		Outcome: batch.OutcomeBlock,
		Reasons: []batch.Reason{{Code: code, Message: clip(fmt.Sprintf(format, a...), maxMessageBytes)}},
	}
}

func (g *Gate) decide(ctx context.Context, s *set, q *batch.Query) *batch.Decision {
	if q == nil || q.Call == nil || q.Run == nil || q.Now.IsZero() {
		return block(ReasonInvalidInput, "the gate was asked without a call, a run or a time")
	}
	sub, d := g.subject(q)
	if d != nil {
		return d
	}
	var past *InputWindows
	if s.looksBack {
		// Outside the deadline: the first time a ledger is read, that takes as long as
		// it is large.
		var err error
		if past, err = lookBack(ctx, q); err != nil {
			d := block(ReasonNoHistory, "the history that policy looks at cannot be read")
			d.Reasons[0].Detail = clip(err.Error(), maxMessageBytes)
			g.o.Logger.Warn("policy blocked a call because its history cannot be read", "operation", string(q.Call.Operation()), "error", err)
			return g.recorded(q, sub, d)
		}
	}
	ctx, stop := context.WithTimeout(ctx, g.o.Deadline)
	defer stop()
	if n := len(q.Call.Arguments); n > g.o.MaxArgumentBytes {
		return g.recorded(q, sub, block(ReasonArgumentsLarge, "the arguments are %d bytes, at most %d are allowed", n, g.o.MaxArgumentBytes))
	}
	args, err := parseJSON(q.Call.Arguments)
	if err != nil {
		return g.recorded(q, sub, block(ReasonInvalidArguments, "the arguments are no proper JSON: %v", err))
	}
	if _, ok := args.(ast.Object); !ok {
		return g.recorded(q, sub, block(ReasonInvalidArguments, "the arguments are not a JSON object"))
	}
	input, record, err := document(q, sub, past, args)
	if err != nil {
		return block(ReasonInvalidInput, "the call cannot be described to a policy: %v", err)
	}
	if len(record) > maxContextBytes {
		return block(ReasonInvalidInput, "what describes the call besides its arguments is %d bytes, at most %d are allowed: its labels or annotations are too large", len(record), maxContextBytes)
	}
	d, err = g.evaluate(ctx, s, q, sub, input)
	if err != nil {
		d = g.failed(q, err)
	}
	d.Input = record
	return d
}

// subject finds the tool in force, or says why the call is blocked.
func (g *Gate) subject(q *batch.Query) (*subject, *batch.Decision) {
	var t *plugins.Tool
	if snap := g.o.Tools(); snap != nil {
		t, _ = snap.Tool(q.Call.Tool)
	}
	if t == nil {
		return nil, block(ReasonUnknownTool, "there is no tool %q", clip(string(q.Call.Tool), 80))
	}
	if t.Plugin.Digest != q.Tool.Digest {
		return nil, block(ReasonToolChanged, "tool %s was changed after the call was requested", t.Name)
	}
	if v, ok := g.subjects.Load(t.Name); ok {
		if sub := v.(*subject); sub.tool == t {
			return sub, nil
		}
	}
	sub, err := newSubject(t)
	if err != nil {
		return nil, block(ReasonInvalidInput, "%v", err)
	}
	g.subjects.Store(t.Name, sub)
	return sub, nil
}

// recorded adds what can be said of the input to a decision made without it.
func (g *Gate) recorded(q *batch.Query, sub *subject, d *batch.Decision) *batch.Decision {
	if _, record, err := document(q, sub, nil, nil); err == nil {
		d.Input = record
	}
	return d
}

// Failures of an evaluation that OPA has no error for.
var (
	errUndefined = errors.New("the policy gives no decision for this call")
	errDeadline  = errors.New("the deadline passed")
)

// evaluate asks about an input. The caller may add to how, as for a trace.
func (g *Gate) evaluate(ctx context.Context, s *set, q *batch.Query, sub *subject, input ast.Value, more ...rego.EvalOption) (d *batch.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	// OPA would start a goroutine to watch ctx; this costs none.
	cancel := topdown.NewCancel()
	defer context.AfterFunc(ctx, cancel.Cancel)()
	rs, err := s.query.Eval(ctx, append([]rego.EvalOption{
		rego.EvalParsedInput(input),
		rego.EvalRuleIndexing(!s.texts.odd(input)),
		rego.EvalTime(q.Now),
		rego.EvalExternalCancel(cancel),
		rego.EvalInterQueryBuiltinValueCache(s.values),
		rego.EvalPrintHook(printer{g.o.Logger, q.Call.Operation()}),
	}, more...)...)
	switch {
	case ctx.Err() != nil:
		// Also when an answer came: a built-in that cannot be interrupted may
		// have overrun, and the caller was promised less.
		return nil, errDeadline
	case err != nil:
		return nil, err
	case len(rs) == 0 || len(rs[0].Expressions) == 0:
		return nil, errUndefined
	case len(rs) > 1 || len(rs[0].Expressions) > 1:
		return nil, odd("the entry point gave more than one decision")
	}
	a, err := readDecision(rs[0].Expressions[0].Value)
	if err != nil {
		return nil, err
	}
	d = &batch.Decision{
		Outcome: a.outcome, Reasons: a.reasons,
		Result: a.result, Confirmation: a.confirmation, At: a.at,
	}
	if a.outcome == batch.OutcomeAllow {
		var notes []batch.Reason
		d.Grant, notes = narrow(sub.tool.Plugin.Effective, a.grants)
		d.Reasons = append(d.Reasons, notes...)
	}
	return d, nil
}

// failed turns what went wrong into a decision to block.
func (g *Gate) failed(q *batch.Query, err error) *batch.Decision {
	var d *batch.Decision
	var shape *shapeError
	var eval *topdown.Error
	switch {
	case errors.Is(err, errDeadline), topdown.IsCancel(err):
		d = block(ReasonTimeout, "the policy did not decide within %v", g.o.Deadline)
	case errors.Is(err, errUndefined):
		d = block(ReasonUndefined, "the policy gave no decision")
	case errors.As(err, &shape):
		d = block(ReasonOddShape, "the policy's decision has an odd shape")
	case errors.As(err, &eval) && eval.Code == topdown.ConflictErr:
		d = block(ReasonConflict, "policy rules contradict each other")
	default:
		d = block(ReasonEvalError, "the policy could not be evaluated")
	}
	// The error names files, lines and values of the policy: for the record and the
	// log, not for the model.
	d.Reasons[0].Detail = clip(err.Error(), maxMessageBytes)
	g.o.Logger.Warn("policy blocked a call because it failed",
		"operation", string(q.Call.Operation()), "tool", string(q.Call.Tool), "code", d.Reasons[0].Code, "error", g.loggable(err))
	return d
}

// loggable is what the host's own log may hold of a failure, which can quote arguments.
// Where a policy masks the decision log, that is the kind and the place alone.
func (g *Gate) loggable(err error) string {
	var eval *topdown.Error
	if s := g.current.Load(); s == nil || s.mask == nil {
		return err.Error()
	} else if errors.As(err, &eval) && eval.Location != nil {
		return fmt.Sprintf("%s:%d: %s; what it says is in the ledger, since a mask is in force", eval.Location.File, eval.Location.Row, eval.Code)
	}
	return "what it says is in the ledger, since a mask is in force"
}

// printer sends print() of policies to the log: standard output belongs to results.
type printer struct {
	log *slog.Logger
	op  batch.OperationID
}

func (p printer) Print(c print.Context, msg string) error {
	args := []any{"text", msg, "operation", string(p.op)}
	if c.Location != nil {
		args = append(args, "file", c.Location.File, "line", c.Location.Row)
	}
	p.log.Debug("policy print", args...)
	return nil
}
