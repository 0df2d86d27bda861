package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// problemsOf opens the policy under files and returns what is wrong.
func problemsOf(t *testing.T, o Options) Problems {
	t.Helper()
	g, err := Open(context.Background(), o)
	if err == nil {
		t.Fatalf("opened, revision %s", g.Revision())
	}
	var ps Problems
	if !errors.As(err, &ps) || len(ps) == 0 {
		t.Fatalf("not a list of problems: %v", err)
	}
	var again Problems
	if _, err := Check(context.Background(), o); !errors.As(err, &again) || len(again) != len(ps) {
		t.Errorf("check says %v, open says %v", err, ps)
	}
	return ps
}

func TestPoliciesThatDoNotLoad(t *testing.T) {
	tests := []struct {
		name string
		rego string
		line int
		says string
	}{
		{"no Rego", "package awaken.policy\nallow contains", 2, "unexpected"},
		{"empty", "# package in a comment", 0, "start it with: package awaken.policy"},
		{"old Rego", "package awaken.policy\nallow[\"x\"] { true }", 2, "if"},
		{"an unknown name", "package awaken.policy\nallow contains \"x\" if user == \"a\"", 2, "user"},
		{"an unknown function", "package awaken.policy\nallow contains \"x\" if frob(1)", 2, "frob"},
		{"a wrong type", "package awaken.policy\nallow contains \"x\" if startswith(1, \"a\")", 2, "startswith"},
		{"an unused variable", "package awaken.policy\nallow contains \"x\" if { y := 1 }", 2, "y"},
		{"set and boolean", "package awaken.policy\nallow contains \"x\"\nallow if true", 2, "allow"},
		{"recursion", "package awaken.policy\nallow contains \"x\" if data.awaken.gate.decision.outcome == \"allow\"", 2, "recursive"},
		{"the gate's package", "package awaken.gate\ndecision := {\"outcome\": \"allow\"}", 1, "package awaken.gate is the host's own"},
		{"below the gate's package", "package awaken.gate.shape\nx := 1", 1, "package awaken.gate is the host's own"},
		{"into the gate's package", "package awaken\ngate.decision := {\"outcome\": \"allow\"}", 2, "adds to package awaken.gate"},
		{"over the gate's package", "package awaken\ngate := {\"decision\": {\"outcome\": \"allow\"}}", 2, "adds to package awaken.gate"},
		{"into the gate's package by a variable", "package awaken\ngate[k] := 1 if some k in [\"decision\"]", 2, "adds to package awaken.gate"},
		{"a misspelt rule", "package awaken.policy\nallow contains \"x\"\nblocks contains \"y\"", 3, "did you mean block?"},
		{"another misspelt rule", "package awaken.policy\nrequire_confirmaton contains \"y\"", 2, "did you mean require_confirmation?"},
		{"a misspelt package", "package awaken.polcy\nallow contains \"x\"", 1, "did you mean awaken.policy?"},
		{"a misspelt package of the log", "package system.logs\nmask contains \"/input\"", 1, "did you mean system.log?"},
		{"another package of the log", "package sytem.log\nmask contains \"/input\"", 1, "did you mean system.log?"},
		{"a rule of another tool", "package awaken.policy\nallow contains \"x\"\ndeny contains \"y\"", 3, "did you mean block?"},
		{"a rule in capitals", "package awaken.policy\nallow contains \"x\"\nBLOCK contains \"y\"", 3, "did you mean block?"},
		{"a rule by its verb", "package awaken.policy\nallow contains \"x\"\nconfirm contains \"y\"", 3, "did you mean require_confirmation?"},
		{"a function", "package awaken.policy\nallow contains \"x\"\nblock(x) if x", 3, "block is a function"},
		{"an object", "package awaken.policy\nblock[\"x\"] := true", 2, "block must be a set"},
		{"a default that allows", "package awaken.policy\ndefault allow := true", 2, "default allow := true would speak for every call"},
		{"a default that blocks", "package awaken.policy\nallow if input.call.arguments.x\ndefault block := true", 3, "only default block := false may be written"},
		{"a default of another kind", "package awaken.policy\ndefault grant := {\"memory_mib\": 1}", 2, "default grant"},
		{"a default confirmation", "package awaken.policy\ndefault require_confirmation := {\"x\"}", 2, "default require_confirmation"},
		{"an object by name", "package awaken.policy\nblock.x contains \"y\"", 2, "block must be a set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ps := problemsOf(t, options(t, tt.rego))
			p := ps[0]
			if !strings.Contains(p.Message, tt.says) || tt.line > 0 && p.Line != tt.line || tt.line > 0 && !strings.HasSuffix(p.File, "policy.rego") {
				t.Errorf("got %q, want line %d with %q", p.String(), tt.line, tt.says)
			}
		})
	}
}

// A helper with a name close to a rule's is fine as long as something uses it.
func TestHelpersCloseToRuleNames(t *testing.T) {
	o := options(t, allowAll)
	o.Paths = []string{folder(t, map[string]string{
		"a.rego": "package awaken.policy\nimport data.awaken.polic\nblocks contains \"x\"\nallow contains \"y\" if { \"x\" in blocks; polic.ok; grants(1) }",
		"b.rego": "package awaken.policy\ngrants(n) if n == 1",
		"c.rego": "package awaken.polic\nok := true",
	})}
	if d := decide(t, open(t, o), query("read", `{}`)); d.Outcome != batch.OutcomeAllow {
		t.Errorf("got %+v", d.Reasons)
	}
}

func TestEveryProblemIsListed(t *testing.T) {
	o := options(t, allowAll)
	dir := folder(t, map[string]string{
		"a.rego":      "package awaken.policy\nallow contains",
		"b.rego":      "package awaken.policy\n\nblocks contains \"x\"",
		"c.json":      "{\n \"a\": 1,\n}",
		"d/data.yaml": "a: 1\nb: [",
		"e.json":      `["no object"]`,
	})
	o.Paths = []string{dir}
	got := problemsOf(t, o).Error()
	for _, want := range []string{"a.rego:2", "b.rego:3", "c.json:3", "d/data.yaml:", "e.json: must be an object"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	o.Paths = []string{folder(t, map[string]string{"a.rego": "package awaken.policy\nallow contains \"x\" if http.send({})\nblock contains \"y\" if frob(1)"})}
	if got := problemsOf(t, o); len(got) != 2 || got[0].Line != 2 || got[1].Line != 3 {
		t.Errorf("got %v", got)
	}
}

func TestBuiltins(t *testing.T) {
	calls := map[string]string{
		"http.send":          `http.send({"method": "get", "url": "http://localhost:1", "raise_error": false}).status_code == 0`,
		"net.lookup_ip_addr": `count(net.lookup_ip_addr("localhost")) > 0`,
		"json.match_schema":  `json.match_schema({}, {"type": "object"})[0]`,
		"json.verify_schema": `json.verify_schema({"type": "object"})[0]`,
		"opa.runtime":        `opa.runtime().env`,
		"rego.parse_module":  `rego.parse_module("a.rego", "package a")`,
		"rand.intn":          `rand.intn("x", 2) < 3`,
		"uuid.rfc4122":       `uuid.rfc4122("x")`,
	}
	if len(calls) != len(shut) {
		t.Fatalf("%d built-ins are shut, %d are tested", len(shut), len(calls))
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			o := options(t, fmt.Sprintf("package awaken.policy\nallow contains \"x\" if %s", call))
			p := problemsOf(t, o)[0]
			if p.Line != 2 || !strings.HasSuffix(p.File, "policy.rego") ||
				!strings.Contains(p.Message, fmt.Sprintf("builtins = [%q] under [policy] in host.toml", name)) {
				t.Errorf("got %s", p)
			}
			o.Builtins = []string{name}
			if d := decide(t, open(t, o), query("read", `{}`)); d.Outcome != batch.OutcomeAllow {
				t.Errorf("let in, it got %+v", d.Reasons)
			}
		})
	}

	// One that is let in is kept in the advice for the next.
	o := options(t, `allow contains "x" if rand.intn("x", 2) == 1`)
	o.Builtins = []string{"http.send"}
	if p := problemsOf(t, o)[0]; !strings.Contains(p.Message, `builtins = ["http.send", "rand.intn"]`) {
		t.Errorf("got %s", p)
	}
	o.Builtins = []string{"http.sent"}
	if p := problemsOf(t, o)[0]; !strings.Contains(p.Message, `did you mean "http.send"?`) {
		t.Errorf("got %s", p)
	}
	o.Builtins = []string{"internal.print", ""}
	if ps := problemsOf(t, o); len(ps) != 2 {
		t.Errorf("got %v", ps)
	}
	// What only computes needs no leave.
	pure := options(t, `allow contains "x" if {
		net.cidr_contains("10.0.0.0/8", "10.1.2.3")
		regex.match("^a", "ab")
		glob.match("git *", [], "git status")
		time.weekday(time.now_ns()) == "Monday"
		crypto.sha256("x")
		uuid.parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8").version == 1
		semver.compare("1.2.0", "1.1.9") == 1
	}`)
	if d := decide(t, open(t, pure), query("read", `{}`)); d.Outcome != batch.OutcomeAllow {
		t.Errorf("got %+v", d.Reasons)
	}
}

// Nothing nondeterministic is reachable without leave, apart from what depends on
// the query's own time: a new version of OPA may bring more.
func TestNothingNewIsLetIn(t *testing.T) {
	byTime := map[string]bool{"time.now_ns": true, "io.jwt.decode_verify": true, "io.jwt.encode_sign": true, "io.jwt.encode_sign_raw": true}
	for _, b := range capabilities(nil).Builtins {
		if b.Nondeterministic && !byTime[b.Name] {
			t.Errorf("%s is let in", b.Name)
		}
	}
}

func TestPrintGoesToTheLog(t *testing.T) {
	var l logs
	o := options(t, "allow contains \"x\" if { print(\"looking at\", input.call.arguments.path); true }")
	o.Logger = l.logger()
	decide(t, open(t, o), query("read", `{"path":"/a"}`))
	for _, want := range []string{"level=DEBUG", `msg="policy print"`, `text="looking at /a"`, "operation=r1/3/1", "policy.rego", "line=2"} {
		if !strings.Contains(l.String(), want) {
			t.Errorf("%q is not in %s", want, l.String())
		}
	}
}

func TestCheckReports(t *testing.T) {
	dir := folder(t, map[string]string{
		"policy.rego":      "package awaken.policy\ndefault allow := false\nallow if input.call.arguments.x\nallow if input.call.arguments.y\nblock contains \"a\"\nhelper := 1",
		"lib/h.rego":       "package lib.h\nf(x) := x",
		"lib/data.json":    `{"limits": {"a": 1}}`,
		"policy_test.rego": "package awaken.policy_test\nthis is not even Rego",
	})
	o := Options{Paths: []string{dir}, Builtins: []string{"time.now_ns"}}
	r, err := Check(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Input != InputSchemaID || len(r.Modules) != 2 || r.Modules[1].Package != "awaken.policy" || r.Modules[1].Rules != 5 || len(r.Data) != 1 {
		t.Errorf("got %+v", r)
	}
	if r.Rules["allow"] != 2 || r.Rules["block"] != 1 || r.Rules["grant"] != 0 || len(r.Rules) != len(ruleNames) {
		t.Errorf("got %v", r.Rules)
	}
	if len(r.Warnings) != 3 || !strings.Contains(r.Warnings[0].Message, "time.now_ns") ||
		!strings.Contains(r.Warnings[1].Message, "lib.h.f is used by nothing") || !strings.Contains(r.Warnings[2].Message, "awaken.policy.helper is used by nothing") {
		t.Errorf("got %v", r.Warnings)
	}
	o.Tools, o.Builtins = tools(snapshot(t)), []string{"time.now_ns"}
	if g := open(t, o); g.Revision() != r.Revision {
		t.Errorf("check says %s, the gate %s", r.Revision, g.Revision())
	}
	r, err = Check(context.Background(), options(t, "block contains \"x\""))
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Message, "every call is blocked") {
		t.Errorf("got %+v, %v", r, err)
	}
}
