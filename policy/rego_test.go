package policy

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/tester"
)

func parseAll(t testing.TB, fsys fs.FS, pattern string) map[string]*ast.Module {
	t.Helper()
	names, err := fs.Glob(fsys, pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files for %s: %v", pattern, err)
	}
	modules := map[string]*ast.Module{}
	for _, n := range names {
		raw, err := fs.ReadFile(fsys, n)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ast.ParseModuleWithOpts(n, string(raw), ast.ParserOptions{RegoVersion: ast.RegoV1})
		if err != nil {
			t.Fatal(err)
		}
		modules[n] = m
	}
	return modules
}

// runRego runs the tests in modules and returns how many passed and what failed.
func runRego(t testing.TB, modules map[string]*ast.Module) (int, []string) {
	t.Helper()
	c := ast.NewCompiler().WithStrict(true).WithCapabilities(capabilities(nil)).WithDefaultRegoVersion(ast.RegoV1)
	results, err := tester.NewRunner().SetCompiler(c).RaiseBuiltinErrors(true).SetModules(modules).RunTests(context.Background(), nil)
	if err != nil {
		return 0, []string{err.Error()} // does not compile
	}
	passed, failed := 0, []string(nil)
	for r := range results {
		if r.Pass() {
			passed++
		} else {
			failed = append(failed, fmt.Sprintf("%s.%s: %v", r.Package, r.Name, r.Error))
		}
	}
	return passed, failed
}

func TestBasePolicyInRego(t *testing.T) {
	passed, failed := runRego(t, parseAll(t, baseFiles, "rego/*.rego"))
	if len(failed) > 0 || passed < 15 {
		t.Errorf("%d passed, failed: %s", passed, strings.Join(failed, "\n"))
	}
}

func TestLibraryInRego(t *testing.T) {
	passed, failed := runRego(t, parseAll(t, baseFiles, "lib/*.rego"))
	if len(failed) > 0 || passed < 20 {
		t.Errorf("%d passed, failed: %s", passed, strings.Join(failed, "\n"))
	}
}

func TestStarterPolicyInRego(t *testing.T) {
	passed, failed := runRego(t, parseAll(t, Starter(), "*.rego"))
	if len(failed) > 0 || passed < 8 {
		t.Errorf("%d passed, failed: %s", passed, strings.Join(failed, "\n"))
	}
}

// Without any one of its rules the starter policy fails its own tests.
func TestStarterPolicyNeedsEveryRule(t *testing.T) {
	rules := len(parseAll(t, Starter(), "*.rego")["policy.rego"].Rules)
	if rules < 5 {
		t.Fatalf("the starter policy has %d rules", rules)
	}
	for i := range rules {
		modules := parseAll(t, Starter(), "*.rego")
		m := modules["policy.rego"]
		gone := m.Rules[i]
		m.Rules = append(m.Rules[:i:i], m.Rules[i+1:]...)
		t.Run(fmt.Sprintf("line %d", gone.Location.Row), func(t *testing.T) {
			if _, failed := runRego(t, modules); len(failed) == 0 {
				t.Errorf("no test misses: %s", gone)
			}
		})
	}
}

// Without any one condition of its rules it does too, and where the condition is turned
// around.
func TestStarterPolicyNeedsEveryCondition(t *testing.T) {
	parse := func() (map[string]*ast.Module, []*ast.Rule) {
		modules := parseAll(t, Starter(), "*.rego")
		return modules, modules["policy.rego"].Rules
	}
	_, rules := parse()
	mutants := 0
	for i, r := range rules {
		for j, e := range r.Body {
			for _, how := range []string{"without", "turned around"} {
				modules, rules := parse()
				body := rules[i].Body
				_, declares := e.Terms.(*ast.SomeDecl)
				switch {
				case how == "without" && len(body) == 1:
					rules[i].Body = ast.NewBody(ast.NewExpr(ast.BooleanTerm(true)))
				case how == "without":
					rules[i].Body = append(body[:j:j], body[j+1:]...)
				case declares:
					continue
				default:
					body[j] = e.Copy()
					body[j].Negated = !e.Negated
				}
				mutants++
				t.Run(fmt.Sprintf("line %d %s", e.Location.Row, how), func(t *testing.T) {
					if _, failed := runRego(t, modules); len(failed) == 0 {
						t.Errorf("no test misses: %s", e)
					}
				})
			}
		}
	}
	if mutants < 15 {
		t.Errorf("%d mutants", mutants)
	}
}

// The starter policy as the host loads it.
func TestStarterPolicyInTheGate(t *testing.T) {
	files := map[string]string{}
	err := fs.WalkDir(Starter(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(Starter(), p)
		files[path.Base(p)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, allowAll)
	o.Paths = []string{folder(t, files)}
	g := open(t, o)
	for tool, want := range map[string]string{
		"read": "allow", "save": "require_confirmation", "wipe": "require_confirmation", "mute": "require_confirmation",
	} {
		if d := decide(t, g, query(tool, `{}`)); string(d.Outcome) != want {
			t.Errorf("%s: got %s with %+v, want %s", tool, d.Outcome, d.Reasons, want)
		}
	}
	q := query("wipe", `{}`)
	q.Run.Labels = map[string]string{"environment": "production"}
	q.Approval = approval("permission", "bob")
	if d := decide(t, g, q); codes(d) != "production" {
		t.Errorf("in production: got %s with %+v", d.Outcome, d.Reasons)
	}
	p := testPlugin()
	p.Effective.Paths = nil
	o.Tools = tools(snapshot(t, p))
	if d := decide(t, open(t, o), query("mute", `{}`)); codes(d) != "no_rule" {
		t.Errorf("a tool of which nothing is known: got %s with %+v", d.Outcome, d.Reasons)
	}
	r, err := Check(context.Background(), o)
	if err != nil || len(r.Warnings) > 0 {
		t.Errorf("check: %v, %v", r, err)
	}
}
