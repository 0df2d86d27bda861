package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func testOptions(t *testing.T, files map[string]string) TestOptions {
	t.Helper()
	o := options(t, allowAll)
	o.Paths = []string{folder(t, files)}
	return TestOptions{Policy: o}
}

func TestTestsRun(t *testing.T) {
	o := testOptions(t, map[string]string{
		"p.rego": "package awaken.policy\nallow contains \"a\" if input.tool.id == data.names.tool\nblock contains \"b\" if {\n\tinput.tool.id == \"bad\"\n}\n",
		// Data is seen by tests as it is by calls.
		"names/data.json": `{"tool": "good"}`,
		"p_test.rego": `package awaken.policy_test
import data.awaken.gate
test_good if gate.decision.outcome == "allow" with input as {"tool": {"id": "good"}}
test_other if gate.decision.outcome == "allow" with input as {"tool": {"id": "other"}}
test_error if to_number("x") == 1
test_silent_error if not to_number("x") == 1
todo_test_x if false
test_deep if {
	decision := gate.decision with input as {"tool": {"id": "good"}}
	decision.outcome == "block"
}
test_cases[n] if {
	some n, v in {"one": true, "two": false}
	v
}
`,
	})
	// Builtin errors count, as they do in a decision: under "not" they must not pass.
	want := map[string]TestOutcome{
		"test_good": TestPassed, "test_other": TestFailed, "test_error": TestErrored, "test_silent_error": TestErrored,
		"todo_test_x": TestSkipped, "test_cases": TestFailed, "test_deep": TestFailed,
	}
	o.Coverage, o.Trace = true, true
	r, err := Test(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range r.Tests {
		short := strings.TrimPrefix(res.Name, "awaken.policy_test.")
		if res.Outcome != want[short] || res.File == "" || res.Line == 0 {
			t.Errorf("%s: %+v", short, res)
		}
		switch res.Outcome {
		case TestFailed:
			if res.FailedAt == nil || !strings.Contains("4 10 14", strconv.Itoa(res.FailedAt.Line)) || len(res.Trace) == 0 {
				t.Errorf("%s failed at %v, trace of %d lines", short, res.FailedAt, len(res.Trace))
			}
			if i := slices.IndexFunc(res.Trace, func(l string) bool { return strings.Contains(l, basePrefix) }); i >= 0 {
				t.Errorf("the trace shows the base policy: %s", res.Trace[i])
			}
		case TestErrored:
			if !strings.Contains(res.Error, "to_number") {
				t.Errorf("%s: error %q", short, res.Error)
			}
		}
	}
	if len(r.Tests) != len(want) {
		t.Errorf("%d tests, want %d", len(r.Tests), len(want))
	}
	// The body of block was not reached.
	if c := r.Coverage; c == nil || len(c.Files) != 1 || c.Percent >= 100 || c.Percent <= 0 || !slices.Contains(c.Files[0].Missed, Lines{3, 4}) {
		t.Errorf("coverage %+v", r.Coverage)
	}
}

func TestTestsThatNeverEnd(t *testing.T) {
	o := testOptions(t, map[string]string{
		"p.rego":      "package awaken.policy\n" + allowAll,
		"p_test.rego": "package p_test\ntest_long if count([x | some x in numbers.range(1, 100000000)]) == 1\n",
	})
	o.Timeout = 50 * time.Millisecond
	r, err := Test(context.Background(), o)
	if err != nil || r.Errors != 1 || !strings.Contains(r.Tests[0].Error, "50ms") {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	o.Timeout = time.Hour
	if r, err := Test(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTestsOfBrokenSources(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"does not parse":        {"p_test.rego", "package x\ntest_a if {{", "p_test.rego:2"},
		"does not compile":      {"p_test.rego", "package x\ntest_a if y == 1", "p_test.rego:2:11: var y is unsafe"},
		"adds a rule":           {"p_test.rego", "package awaken.policy\nallow contains \"x\" if true", "awaken.policy.allow, which decides"},
		"adds to the gate":      {"p_test.rego", "package awaken.gate\nextra if true", "awaken.gate.extra, which decides"},
		"a built-in not let in": {"p_test.rego", "package x\ntest_a if opa.runtime() == {}", "opa.runtime is not available"},
		"the policy is broken":  {"q.rego", "package awaken.policy\nalow contains \"x\" if true", "did you mean allow"},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t, map[string]string{"p.rego": "package awaken.policy\n" + allowAll, c.file: c.text})
			_, err := Test(context.Background(), o)
			var ps Problems
			if !errors.As(err, &ps) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestAppearance: a change that WatchTests must not miss.
func TestAppearance(t *testing.T) {
	o := testOptions(t, map[string]string{"p.rego": allowAll, "sub/q.rego": allowAll})
	seen := map[uint64]string{appearance(o): "before"}
	dir := o.Policy.Paths[0]
	for what, files := range map[string]map[string]string{
		"new file": {"new.rego": "x"}, "other size": {"sub/q.rego": "longer than it was before"},
	} {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if at, ok := seen[appearance(o)]; ok {
			t.Errorf("%s looks like %s", what, at)
		}
		seen[appearance(o)] = what
	}
	if _, ok := seen[appearance(o)]; !ok {
		t.Error("without a change it looks otherwise")
	}
}
