package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

const allowAll = "allow contains \"ok\"\n"

// Every way to fail blocks with its own code, although a rule allows.
func TestFailClosed(t *testing.T) {
	tests := []struct {
		name   string
		policy string
		code   string
		says   string
	}{
		{"a built-in fails", allowAll + `block contains "x" if to_number(input.call.arguments.text) > 3`, "eval_error", "to_number"},
		// Without strict errors "not" would turn the failure into a match.
		{"a built-in fails under not", `allow contains "x" if not to_number(input.call.arguments.text) > 3`, "eval_error", "to_number"},
		{"a rule that would lose fails", "block contains \"b\"\nallow contains \"x\" if to_number(input.call.arguments.text) > 3", "eval_error", "to_number"},
		{"a prefix of no text", allowAll + `block contains "x" if startswith(input.call.arguments.n, "/etc")`, "eval_error", "startswith"},
		{"a prefix of no text under not", "bad if startswith(input.call.arguments.n, \"/etc\")\nallow if not bad", "eval_error", "startswith"},
		{"a suffix of no text under not", "bad if endswith(input.call.arguments.n, \".key\")\nallow if not bad", "eval_error", "endswith"},
		{"any prefix of no text under not", "bad if strings.any_prefix_match(input.call.arguments.n, [\"/etc\"])\nallow if not bad", "eval_error", "any_prefix_match"},
		{"any suffix of no text under not", "bad if strings.any_suffix_match(input.call.arguments.n, [\".key\"])\nallow if not bad", "eval_error", "any_suffix_match"},
		{"a glob of no text under not", "bad if glob.match(\"/etc/*\", [\"/\"], input.call.arguments.n)\nallow if not bad", "eval_error", "glob.match"},
		{"a function of no text under not", "under(p) if startswith(p, \"/etc\")\nallow if not under(input.call.arguments.n)", "eval_error", "startswith"},
		{"a date does not exist", `schedule contains {"at": concat("-", ["2025", "13", "41T00:00:00Z"])}`, "eval_error", "parse_rfc3339"},
		{"complete rules conflict", allowAll + "level := 1 if input.call.arguments.n\nlevel := 2 if input.call.arguments.text\nblock contains \"x\" if level == 3", "conflict", "policy.rego:"},
		{"booleans conflict", "allow := true\nallow := false if input.call.arguments.n", "conflict", "policy.rego:"},
		{"a function conflicts", allowAll + "f(_) := 1\nf(x) := 2 if x\nblock contains \"x\" if f(input.call.arguments.n) == 3", "conflict", "policy.rego:"},
		{"results differ", "set_result contains {\"text\": \"a\"}\nset_result contains {\"text\": \"b\"}", "conflict", "2 different answers"},
		{"results differ in is_error", allowAll + "set_result contains {\"text\": \"a\"}\nset_result contains {\"text\": \"a\", \"is_error\": true}", "conflict", "2 different answers"},
		{"results differ below a confirmation", "require_confirmation contains \"?\"\nset_result contains {\"text\": \"a\"}\nset_result contains {\"text\": \"b\"}", "conflict", "2 different answers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l logs
			o := options(t, tt.policy)
			o.Logger = l.logger()
			d := decide(t, open(t, o), query("read", `{"text":"abc","n":7}`))
			if d.Outcome != batch.OutcomeBlock || codes(d) != tt.code {
				t.Fatalf("got %s with %+v, want block with %s", d.Outcome, d.Reasons, tt.code)
			}
			if r := d.Reasons[0]; !strings.Contains(r.Message+" "+r.Detail, tt.says) {
				t.Errorf("message %q and detail %q do not say %q", r.Message, r.Detail, tt.says)
			}
			if d.Input == nil {
				t.Error("the record lacks its input")
			}
			if tt.code == "eval_error" && !strings.Contains(l.String(), "code=eval_error") {
				t.Errorf("the log does not say so: %s", l.String())
			}
		})
	}
}

// An entry of an odd shape blocks, whatever the other rules say.
func TestOddShapes(t *testing.T) {
	entries := map[string][]string{
		"allow": {`1`, `true`, `null`, `{}`, `{"message": "m"}`, `{"code": ""}`, `{"code": "Bad Code"}`, `{"code": 1}`,
			`{"code": "a", "message": 1}`, `{"code": "a", "note": "x"}`, `["a"]`, `{"a"}`},
		"block": {`1`, `false`, `null`, `{"message": "m"}`, `{"code": "a", "msg": "x"}`},
		"require_confirmation": {`1`, `null`, `["a"]`, `{"prompt": ""}`, `{"prompt": 1}`, `{"promt": "a"}`, `{"approvers": []}`,
			`{"approvers": "bob"}`, `{"approvers": [""]}`, `{"approvers": [1]}`, `{"approvers": ["alice "]}`, `{"approvers": ["\u00a0bob"]}`, `{"approvers": ["bo\u200bb"]}`, `{"approvers": ["bob", "bob\u001b[1m"]}`, `{"approvers": ["bob\n"]}`, `{"approvers": ["b\u3164ob"]}`, `{"approvers": ["b\u202eob"]}`, `{"approvers": ["\ufeffbob"]}`, `{"approvers": ["\u2060"]}`, `{"quorum": 0}`, `{"quorum": 1.5}`, `{"quorum": "2"}`, `{"quorum": 1001}`,
			`{"timeout": 10}`, `{"timeout": "soon"}`, `{"timeout": "0s"}`, `{"timeout": "-1h"}`, `{"timeout": ""}`, `{"reason": 1}`, `{"reason": {"code": "A"}}`},
		"schedule": {`"10m"`, `null`, `{}`, `{"reason": "r"}`, `{"at": "2025-07-01T00:00:00Z", "after": "1h"}`, `{"at": "tomorrow"}`, `{"at": "2025-07-01"}`,
			`{"at": 1751328000}`, `{"at": 1751328000000}`, `{"at": 1.5e18, "x": 1}`, `{"at": 99e18}`, `{"after": 10}`, `{"after": "1w"}`, `{"after": "0d"}`, `{"after": "1h", "reason": 1}`},
		"set_result": {`"x"`, `null`, `{}`, `{"text": 1}`, `{"text": "a", "json": 1}`, `{"content": []}`, `{"content": "x"}`, `{"content": {}}`, `{"text": "a", "is_error": "no"}`,
			`{"content": [{"type": "video", "text": "x"}]}`, `{"content": [{"text": "x"}]}`, `{"content": [{"type": "text", "text": "a", "x": 1}]}`,
			`{"content": [{"type": "text", "text": 1}]}`, `{"content": [{"type": "text", "text": "a", "uri": "b"}]}`, `{"content": [{"type": "image", "data": "!!", "mime_type": "image/png"}]}`,
			`{"content": [{"type": "image", "data": "AAEC"}]}`, `{"text": "a", "state": []}`},
		"grant": {`"x"`, `null`, `{}`, `{"hosts": "a"}`, `{"hosts": [""]}`, `{"hosts": [1]}`, `{"hosts": ["*"]}`, `{"hosts": ["a.b/c"]}`, `{"hosts": ["127.1"]}`, `{"host": ["a"]}`, `{"paths": ["a"]}`, `{"paths": {"/a": "w"}}`, `{"paths": {"": "ro"}}`,
			`{"commands": 1}`, `{"timeout": 2}`, `{"timeout": "0s"}`, `{"memory_mib": 0}`, `{"memory_mib": 1.5}`, `{"memory_mib": "1"}`, `{"memory_mib": -1}`, `{"secrets": []}`},
	}
	for rule, bad := range entries {
		// Written out, each is found before any call.
		ps := problemsOf(t, options(t, "package awaken.policy\n"+rule+" contains "+strings.Join(bad, "\n"+rule+" contains ")))
		found := map[int]string{}
		for _, p := range ps {
			found[p.Line] = p.Message
		}
		g := open(t, options(t, allowAll+rule+" contains input.call.arguments.entry"))
		for i, entry := range bad {
			t.Run(rule+" "+entry, func(t *testing.T) {
				if !strings.Contains(found[i+2], "of "+rule) && !strings.Contains(found[i+2], "result.content") && !strings.Contains(found[i+2], "grant") {
					t.Errorf("at check: %q", found[i+2])
				}
				args := fmt.Sprintf(`{"entry": %s}`, entry)
				if !json.Valid([]byte(args)) { // a set
					args = `{}`
					g = open(t, options(t, allowAll+fmt.Sprintf("%s contains e if e := %s", rule, entry)))
				}
				d := decide(t, g, query("read", args))
				if d.Outcome != batch.OutcomeBlock || !strings.Contains(codes(d), "odd_shape") {
					t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
				}
			})
		}
	}
}

// Rules that are neither a set nor a boolean block too.
func TestOddRules(t *testing.T) {
	for _, tt := range []struct{ rule, value string }{
		{"block", `"no"`}, {"block", `null`}, {"block", `["no"]`}, {"block", `{"code": "x"}`}, {"block", `0`},
		{"require_confirmation", `{"prompt": "?"}`}, {"schedule", `{"after": "1h"}`}, {"schedule", `true`},
		{"set_result", `{"text": "x"}`}, {"set_result", `true`}, {"grant", `{"memory_mib": 1}`}, {"grant", `true`},
	} {
		t.Run(tt.rule+" "+tt.value, func(t *testing.T) {
			for _, written := range []string{tt.rule + " := " + tt.value, tt.rule + " := true if input.call.arguments.never\nelse := " + tt.value} {
				if p := problemsOf(t, options(t, "package awaken.policy\n"+written))[0]; !strings.Contains(p.Message, tt.rule+" gives no set of entries") || p.Line == 0 {
					t.Errorf("%s at check: %s", written, p)
				}
			}
			d := decide(t, open(t, options(t, allowAll+tt.rule+" := input.call.arguments.v")), query("read", `{"v": `+tt.value+`}`))
			if d.Outcome != batch.OutcomeBlock || codes(d) != "odd_shape" {
				t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
			}
		})
	}
}

// A package or data at a rule's name is no rule, and would block every call.
func TestDataInsteadOfRules(t *testing.T) {
	rules := "package awaken.policy\n" + allowAll
	tests := map[string]struct {
		files map[string]string
		says  string
	}{
		"a package":       {map[string]string{"a.rego": "package awaken.policy.block\nx := 1"}, "a.rego:1:1: this package takes the place of rule block"},
		"a package below": {map[string]string{"a.rego": "package awaken.policy.allow.more\nx := 1"}, "takes the place of rule allow"},
		"data":            {map[string]string{"awaken/policy/data.json": `{"block": ["x"]}`}, "data.json: sets data.awaken.policy.block"},
		"a rule outside":  {map[string]string{"a.rego": "package awaken\npolicy.allow contains \"x\""}, "a.rego:2:1: this rule adds to package awaken.policy from outside"},
		"a default outside": {map[string]string{"a.rego": "package awaken\ndefault policy.block := false"},
			"a.rego:2:1: this rule adds to package awaken.policy from outside"},
		"by a variable": {map[string]string{"a.rego": "package awaken\npolicy[k] contains \"x\" if some k in [\"grant\"]"}, "from outside"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := options(t, allowAll)
			tt.files["b.rego"] = rules
			o.Paths = []string{folder(t, tt.files)}
			if got := problemsOf(t, o).Error(); !strings.Contains(got, tt.says) {
				t.Errorf("%q is not in %s", tt.says, got)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	expensive := map[string]string{
		"comprehension": `allow contains "x" if count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); some c in numbers.range(1, 3000); a * b == c]) > 0`,
		"one built-in":  `allow contains "x" if count(numbers.range(1, 2000000000)) > 0`,
	}
	for name, policy := range expensive {
		t.Run(name, func(t *testing.T) {
			o := options(t, policy)
			o.Deadline = 50 * time.Millisecond
			g := open(t, o)
			began := time.Now()
			d := decide(t, g, query("read", `{}`))
			if d.Outcome != batch.OutcomeBlock || codes(d) != "timeout" {
				t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the decision took %v", took)
			}
			if d.Elapsed < o.Deadline {
				t.Errorf("elapsed %v is below the deadline", d.Elapsed)
			}
		})
	}
}

// An answer that comes after the deadline is none.
func TestLateAnswer(t *testing.T) {
	o := options(t, allowAll)
	o.Deadline = time.Nanosecond
	if d := decide(t, open(t, o), query("read", `{}`)); codes(d) != "timeout" {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}
}

func TestCallerGivesUp(t *testing.T) {
	o := options(t, `allow contains "x" if count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a * b == -1]) > 0`)
	o.Deadline = time.Minute
	g := open(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if d, err := g.Decide(ctx, query("read", `{}`)); d != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestQuestionsThatDoNotReachPolicy(t *testing.T) {
	o := options(t, allowAll)
	o.MaxArgumentBytes = 100
	g := open(t, o)
	changed := query("read", `{}`)
	changed.Tool.Digest = "other"
	unpinned := query("read", `{}`)
	unpinned.Tool.Digest = ""
	noRun, noCall, noTime := query("read", `{}`), query("read", `{}`), query("read", `{}`)
	noRun.Run, noCall.Call, noTime.Now = nil, nil, time.Time{}
	tests := []struct {
		name   string
		q      *batch.Query
		code   string
		record bool
	}{
		{"unknown tool", query("nope", `{}`), "unknown_tool", false},
		{"changed tool", changed, "tool_changed", false},
		{"tool without a digest", unpinned, "tool_changed", false},
		{"no arguments", query("read", ``), "invalid_arguments", true},
		{"not JSON", query("read", `{"a":`), "invalid_arguments", true},
		{"no object", query("read", `[1]`), "invalid_arguments", true},
		{"a key twice", query("read", `{"path":"/a","path":"/etc"}`), "invalid_arguments", true},
		{"not UTF-8", query("read", "{\"a\":\"\xff\"}"), "invalid_arguments", true},
		{"half a pair", query("read", `{"a":"\ud800"}`), "invalid_arguments", true},
		{"an absurd number", query("read", `{"a":1e999999999}`), "invalid_arguments", true},
		{"more after the end", query("read", `{} {}`), "invalid_arguments", true},
		{"too large", query("read", `{"a":"`+strings.Repeat("x", 100)+`"}`), "arguments_too_large", true},
		{"no run", noRun, "invalid_input", false},
		{"no call", noCall, "invalid_input", false},
		{"no time", noTime, "invalid_input", false},
		{"nothing", nil, "invalid_input", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, g, tt.q)
			if d.Outcome != batch.OutcomeBlock || codes(d) != tt.code {
				t.Errorf("got %s with %+v, want %s", d.Outcome, d.Reasons, tt.code)
			}
			if (d.Input != nil) != tt.record {
				t.Errorf("input recorded: %s", d.Input)
			}
			if strings.Contains(string(d.Input), "arguments") {
				t.Errorf("the record holds the arguments: %s", d.Input)
			}
		})
	}
	if d := decide(t, g, query("read", `{"a":1}`)); d.Outcome != batch.OutcomeAllow {
		t.Errorf("a proper call got %+v", d.Reasons)
	}
	o.Tools = tools(nil)
	if d := decide(t, open(t, o), query("read", `{}`)); codes(d) != "unknown_tool" {
		t.Errorf("without any tools got %+v", d.Reasons)
	}
}

// What a base policy other than ours could answer: only the exact shape counts.
func TestEntryPoint(t *testing.T) {
	tests := []struct{ name, rego, code string }{
		{"undefined", `decision := {"outcome": "allow"} if input.call.arguments.never`, "undefined"},
		{"missing", `other := 1`, "undefined"},
		{"a boolean", `decision := true`, "odd_shape"},
		{"a field more", `decision := {"outcome": "allow", "reasons": [{"code": "a"}], "grants": [], "extra": 1}`, "odd_shape"},
		{"a field less", `decision := {"outcome": "allow", "reasons": [{"code": "a"}]}`, "odd_shape"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, allowAll)
			g := open(t, o)
			s, err := compile(context.Background(), &o, []source{{file: "base", name: "base.rego", raw: []byte("package awaken.gate\n" + tt.rego)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.current.Store(s)
			if d := decide(t, g, query("read", `{}`)); d.Outcome != batch.OutcomeBlock || codes(d) != tt.code {
				t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
			}
		})
	}
}

// A panic below OPA is a decision to block, not the end of the host.
func TestPanic(t *testing.T) {
	o := options(t, `allow contains "x" if print("x")`)
	o.Logger = slog.New(panicking{})
	d := decide(t, open(t, o), query("read", `{}`))
	if d.Outcome != batch.OutcomeBlock || codes(d) != "eval_error" || !strings.Contains(d.Reasons[0].Detail, "panic: no disk") || strings.Contains(d.Reasons[0].Message, "no disk") {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}
}

// panicking is a log that fails where print() of a policy calls it.
type panicking struct{ slog.Handler }

func (panicking) Enabled(_ context.Context, l slog.Level) bool { return l == slog.LevelDebug }
func (panicking) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "policy loaded" {
		return nil
	}
	panic("no disk")
}
