package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/tester"
)

// DefaultTestTimeout bounds one test.
const DefaultTestTimeout = 5 * time.Second

// TestOptions says which tests are run, and how.
type TestOptions struct {
	// Policy is what is tested, with the tests beside it. Tools is not needed.
	Policy Options
	// Tests are more tests: files of them, and folders.
	Tests []string
	// Run selects tests by a regular expression on their names, as in
	// data.awaken.policy_test.test_reading; empty: all.
	Run string
	// Trace keeps the whole trace of tests that do not pass.
	Trace bool
	// Coverage measures which lines of the policy the tests reach.
	Coverage bool
	// Timeout bounds one test; 0: DefaultTestTimeout.
	Timeout time.Duration
}

// TestOutcome is how a test ended.
type TestOutcome string

// The outcomes of tests.
const (
	TestPassed  TestOutcome = "pass"
	TestFailed  TestOutcome = "fail"
	TestErrored TestOutcome = "error" // it could not be evaluated
	TestSkipped TestOutcome = "skip"  // its name starts with todo_test_
)

// TestReport is what came of all tests. Cases of a test count one each.
type TestReport struct {
	Revision string        `json:"revision"` // of the policy that was tested
	Tests    []TestResult  `json:"tests"`
	Passed   int           `json:"passed"`
	Failed   int           `json:"failed"`
	Errors   int           `json:"errors"`
	Skipped  int           `json:"skipped"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Coverage *Coverage     `json:"coverage,omitempty"`
}

// TestResult is what came of one test.
type TestResult struct {
	Name     string        `json:"name"` // awaken.policy_test.test_reading
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Outcome  TestOutcome   `json:"outcome"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Error    string        `json:"error,omitempty"`
	FailedAt *Problem      `json:"failed_at,omitempty"` // the expression that was not true
	Output   string        `json:"output,omitempty"`    // of print()
	Trace    []string      `json:"trace,omitempty"`
	Cases    []TestCase    `json:"cases,omitempty"` // of a test such as test_paths[name]
}

// TestCase is one case of a test.
type TestCase struct {
	Name string `json:"name"`
	Pass bool   `json:"pass"`
}

// Test runs the tests of a policy with OPA's own runner, on the policy as it is
// compiled to decide: with the base policy, and with the built-ins let in only. The
// error is of type Problems when the policy or its tests do not compile, or says
// what is wrong with the options, or is that of ctx.
func Test(ctx context.Context, o TestOptions) (*TestReport, error) {
	if _, err := regexp.Compile(o.Run); err != nil {
		return nil, Problems{{Message: fmt.Sprintf("the pattern %q for names of tests is not valid: %v", o.Run, err)}}
	}
	o.Policy.TestOnReload, o.Policy.tests = false, true
	s, err := load(ctx, &o.Policy)
	if err != nil {
		return nil, err
	}
	tests, err := readTests(ctx, s.tests, o.Tests)
	if err != nil {
		return nil, err
	}
	return runTests(ctx, s, tests, o)
}

// runTests runs tests against a policy that is compiled already.
func runTests(ctx context.Context, s *set, tests []source, o TestOptions) (*TestReport, error) {
	t := &testRun{s: s, o: o, modules: map[string]*ast.Module{}}
	if err := t.parse(tests); err != nil {
		return nil, err
	}
	began := time.Now()
	r := &TestReport{Revision: s.revision, Tests: []TestResult{}}
	if len(tests) == 0 {
		return r, nil
	}
	var measure *cover.Cover
	if o.Coverage {
		measure = cover.New()
	}
	results, err := t.run(ctx, o.Run, measure, false)
	if err != nil {
		return nil, err
	}
	traced, err := t.again(ctx, results)
	if err != nil {
		return nil, err
	}
	for _, res := range results {
		r.add(t.result(res, traced[res.Package+"."+res.Name]))
	}
	slices.SortFunc(r.Tests, func(a, b TestResult) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Name, b.Name))
	})
	if measure != nil {
		r.Coverage = coverage(measure, s.modules)
	}
	r.Elapsed = time.Since(began)
	return r, nil
}

type testRun struct {
	s       *set
	o       TestOptions
	modules map[string]*ast.Module // of tests
}

func (t *testRun) parse(tests []source) error {
	var problems Problems
	for _, src := range tests {
		m, err := ast.ParseModuleWithOpts(src.file, string(src.raw), ast.ParserOptions{
			RegoVersion: ast.RegoV1, Capabilities: capabilities(t.o.Policy.Builtins), ProcessAnnotation: true,
		})
		if err != nil {
			problems = append(problems, explain(err, src.file, t.o.Policy.Builtins)...)
			continue
		}
		t.modules[src.file] = m
	}
	if problems = append(problems, checkTests(t.modules)...); len(problems) > 0 {
		return problems
	}
	return nil
}

// run runs the tests that fit a pattern. A runner cannot be used twice.
func (t *testRun) run(ctx context.Context, pattern string, measure *cover.Cover, trace bool) ([]*tester.Result, error) {
	modules := map[string]*ast.Module{}
	for _, part := range []map[string]*ast.Module{t.s.base, t.s.modules, t.modules} {
		for file, m := range part {
			modules[file] = m
		}
	}
	txn, err := t.s.store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer t.s.store.Abort(context.WithoutCancel(ctx), txn)
	runner := tester.NewRunner().
		SetCompiler(newCompiler(ctx, capabilities(t.o.Policy.Builtins), t.s.store, nil)).
		SetStore(t.s.store).
		SetRuntime(runtimeTerm(t.o.Policy.Builtins)).
		SetModules(modules).
		Filter(pattern).
		SetTimeout(cmp.Or(t.o.Timeout, DefaultTestTimeout)).
		RaiseBuiltinErrors(true).
		CapturePrintOutput(true).
		EnableTracing(trace)
	if measure != nil {
		runner.SetCoverageQueryTracer(measure)
	}
	ch, err := runner.RunTests(ctx, txn)
	if ctx.Err() != nil {
		return nil, cutShort(ctx)
	}
	if err != nil {
		return nil, explain(err, "", t.o.Policy.Builtins)
	}
	var out []*tester.Result
	for res := range ch {
		out = append(out, res)
	}
	if ctx.Err() != nil {
		return nil, cutShort(ctx)
	}
	return out, nil
}

// again runs what failed once more, to see where: tracing all would cost much, and
// cannot be had beside coverage.
func (t *testRun) again(ctx context.Context, results []*tester.Result) (map[string]*tester.Result, error) {
	var names []string
	for _, res := range results {
		if res.Fail || res.Error != nil && t.o.Trace {
			names = append(names, regexp.QuoteMeta(res.Package+"."+res.Name))
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	traced, err := t.run(ctx, "^("+strings.Join(names, "|")+")$", nil, true)
	byName := map[string]*tester.Result{}
	for _, res := range traced {
		byName[res.Package+"."+res.Name] = res
	}
	return byName, err
}

func (t *testRun) result(res, traced *tester.Result) TestResult {
	r := TestResult{
		Name:    strings.TrimPrefix(res.Package+"."+res.Name, "data."),
		Outcome: TestPassed, Elapsed: res.Duration, Output: clip(string(res.Output), maxTestOutput),
	}
	if res.Location != nil {
		r.File, r.Line = res.Location.File, res.Location.Row
	}
	switch {
	case res.Skip:
		r.Outcome = TestSkipped
	case res.Error != nil:
		r.Outcome, r.Error = TestErrored, res.Error.Error()
		if errors.Is(res.Error, context.DeadlineExceeded) || strings.Contains(r.Error, "eval_cancel_error") {
			r.Error = fmt.Sprintf("it did not end within %v", cmp.Or(t.o.Timeout, DefaultTestTimeout))
		}
	case res.Fail:
		r.Outcome = TestFailed
	}
	for name, c := range res.SubResults.Iter {
		if len(c.SubResults) == 0 {
			r.Cases = append(r.Cases, TestCase{Name: strings.Join(name, " "), Pass: !c.Fail})
		}
	}
	if traced != nil {
		if r.Outcome == TestFailed {
			r.FailedAt = failedAt(traced.Trace, r.File)
		}
		if t.o.Trace {
			r.Trace = traceLines(traced.Trace, true)
		}
	}
	return r
}

// maxTestOutput bounds what is kept of the print() calls of one test.
const maxTestOutput = 64 << 10

func (r *TestReport) add(t TestResult) {
	r.Tests = append(r.Tests, t)
	switch {
	case t.Outcome == TestSkipped:
		r.Skipped++
	case t.Outcome == TestErrored:
		r.Errors++
	case len(t.Cases) > 0:
		for _, c := range t.Cases {
			if c.Pass {
				r.Passed++
			} else {
				r.Failed++
			}
		}
	case t.Outcome == TestFailed:
		r.Failed++
	default:
		r.Passed++
	}
}
