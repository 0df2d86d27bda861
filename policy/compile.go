package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown/cache"
)

// entryPoint is the document that decides.
const entryPoint = "data.awaken.gate.decision"

// set is one compiled policy. It never changes and is safe for concurrent use.
type set struct {
	revision string
	query    rego.PreparedEvalQuery
	mask     *rego.PreparedEvalQuery // of the decision log; nil: no policy has one
	// values remembers compiled patterns and the like between evaluations.
	values  cache.InterQueryValueCache
	modules map[string]*ast.Module // the operator's, as parsed
	base    map[string]*ast.Module // the host's own, as parsed
	store   storage.Store          // of data
	data    []string               // files
	unread  Problems               // files that look like policy and are left out
	texts   textParts              // what must be text for rules to be indexed
	// looksBack: decisions depend on input.history.principal.
	looksBack bool
	// prepare makes another question to the same policy.
	prepare func(ctx context.Context, query string) (rego.PreparedEvalQuery, error)

	// What the loader adds.
	tests    []source   // beside the policy, if they were read
	tested   bool       // they were run and passed
	versions []*version // of the loader's bundles, in their order
	digest   string     // of everything that was read
	took     time.Duration
	refused  error // why the newest bundles are not in it; nil: they are
}

// compile builds a set from a base policy and what operators wrote. The error is
// of type Problems and holds all that was found at the stage that failed first, or
// it is that of ctx.
func compile(ctx context.Context, o *Options, base, sources []source) (*set, error) {
	var problems Problems
	modules := map[string]*ast.Module{}
	s := &set{
		revision: revision(append(slices.Clone(base), sources...), o.Builtins),
		modules:  map[string]*ast.Module{}, base: map[string]*ast.Module{},
	}
	caps := capabilities(o.Builtins)
	parse := func(src source) *ast.Module {
		m, err := ast.ParseModuleWithOpts(src.file, string(src.raw), ast.ParserOptions{
			RegoVersion: ast.RegoV1, Capabilities: caps, ProcessAnnotation: true,
		})
		if len(bytes.TrimSpace(src.raw)) == 0 || err != nil && strings.Contains(err.Error(), "empty module") {
			err = errors.New("has nothing in it; start it with: package awaken.policy")
		}
		if err != nil {
			problems = append(problems, explain(err, src.file, o.Builtins)...)
			return nil
		}
		modules[src.file] = m
		return m
	}
	for _, src := range base {
		if m := parse(src); m != nil {
			s.base[src.file] = m
		}
	}
	for _, src := range sources {
		if ctx.Err() != nil {
			return nil, cutShort(ctx)
		}
		if !src.rego() {
			s.data = append(s.data, src.file)
		} else if m := parse(src); m != nil {
			s.modules[src.file] = m
		}
	}
	data, dataProblems := mergeData(sources)
	problems = append(problems, dataProblems...)
	problems = append(problems, checkRules(s.modules)...)
	problems = append(problems, checkValues(s.modules)...)
	certain, _ := overlaps(s.modules)
	problems = append(problems, certain...)
	if len(problems) > 0 {
		return nil, problems
	}

	describeEvents(s.modules)
	s.store = inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
	c := newCompiler(ctx, caps, s.store, &s.texts)
	if c.Compile(modules); ctx.Err() != nil {
		return nil, cutShort(ctx)
	} else if c.Failed() {
		return nil, explain(c.Errors, "", o.Builtins)
	}
	s.looksBack = looksBack(c)

	s.values = cache.NewInterQueryValueCache(ctx, nil)
	options := []func(*rego.Rego){
		rego.Compiler(c),
		rego.Capabilities(caps),
		rego.Store(s.store),
		rego.StoreReadAST(true),
		rego.StrictBuiltinErrors(true),
		rego.SetRegoVersion(ast.RegoV1),
	}
	if rt := runtimeTerm(o.Builtins); rt != nil {
		options = append(options, rego.Runtime(rt))
	}
	problems = checkEntries(ctx, s.modules, options...)
	if ctx.Err() != nil {
		return nil, cutShort(ctx)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	s.prepare = func(ctx context.Context, query string) (rego.PreparedEvalQuery, error) {
		return rego.New(append(slices.Clip(options), rego.Query(query))...).PrepareForEval(ctx)
	}
	var err error
	if s.query, err = s.prepare(ctx, entryPoint); err != nil {
		return nil, explain(err, "", o.Builtins)
	}
	if s.mask, err = prepareMask(ctx, s.modules, data, options); err != nil {
		return nil, explain(err, "", o.Builtins)
	}
	return s, nil
}

// newCompiler is how every policy is compiled, with its tests too. Indexed is that of
// evaluateFully.
func newCompiler(ctx context.Context, caps *ast.Capabilities, store storage.Store, indexed *textParts) *ast.Compiler {
	conflict := func(path []string) (bool, error) {
		hit := false
		err := storage.Txn(ctx, store, storage.TransactionParams{}, func(txn storage.Transaction) error {
			var err error
			hit, err = storage.NonEmpty(ctx, store, txn)(path)
			return err
		})
		return hit, err
	}
	return evaluateFully(interruptible(ctx, ownSchemas(ast.NewCompiler()).
		WithCapabilities(caps).
		WithDefaultRegoVersion(ast.RegoV1).
		WithStrict(true).
		WithSchemas(inputSchemas()).
		WithUseTypeCheckAnnotations(true).
		WithEnablePrintStatements(true).
		WithPathConflictsCheck(conflict).
		SetErrorLimit(0)), indexed)
}

func cutShort(ctx context.Context) error {
	return fmt.Errorf("policy: loading was cut short: %w", ctx.Err())
}

// interruptible lets ctx end a compilation between any two of its stages: a policy of
// many megabytes takes minutes.
func interruptible(ctx context.Context, c *ast.Compiler) *ast.Compiler {
	stop := ast.CompilerStageDefinition{Name: "Interrupt", MetricName: "interrupt", Stage: func(*ast.Compiler) *ast.Error {
		if ctx.Err() != nil {
			return ast.NewError(ast.CompileErr, nil, "interrupted")
		}
		return nil
	}}
	for _, stage := range ast.AllStages() {
		c = c.WithStageAfterID(stage, stop)
	}
	return c
}

// explain turns OPA's errors into problems with file and line.
func explain(err error, file string, letIn []string) Problems {
	var many ast.Errors
	var one *ast.Error
	switch {
	case errors.As(err, &many):
	case errors.As(err, &one):
		many = ast.Errors{one}
	default:
		return Problems{{File: file, Message: err.Error()}}
	}
	var ps Problems
	for _, e := range many {
		p := Problem{File: file, Message: explainRef(e, explainShut(e.Message, letIn))}
		if e.Location != nil {
			p.File, p.Line, p.Col = e.Location.File, e.Location.Row, e.Location.Col
		}
		if !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	// What an operator breaks may show in the base policy too, as with recursion.
	theirs := slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return strings.HasPrefix(p.File, basePrefix) })
	if len(theirs) > 0 {
		ps = theirs
	}
	slices.SortFunc(ps, func(a, b Problem) int {
		return strings.Compare(fmt.Sprintf("%s\x00%09d%09d", a.File, a.Line, a.Col), fmt.Sprintf("%s\x00%09d%09d", b.File, b.Line, b.Col))
	})
	return ps
}
