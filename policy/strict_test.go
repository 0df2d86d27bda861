package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/rego"
)

// TestIndexHidesNoFailure asks with values of every kind whether an index makes a
// failure of a built-in look like a rule that does not match.
func TestIndexHidesNoFailure(t *testing.T) {
	values := []string{`"/etc/passwd"`, `"/home"`, `""`, `["/etc"]`, `[]`, `{}`, `{"a":"/etc"}`, `1`, `null`, `true`, ``}
	for _, body := range []string{
		`startswith(input.call.arguments.path, "/etc")`,
		`endswith(input.call.arguments.path, "passwd")`,
		`strings.any_prefix_match(input.call.arguments.path, ["/etc", "/root"])`,
		`strings.any_suffix_match(input.call.arguments.path, {"passwd", "shadow"})`,
		`glob.match("/etc/*", ["/"], input.call.arguments.path)`,
		`p := input.call.arguments.path; startswith(p, "/etc")`,
		`p := input.call.arguments.path; startswith(p, "/etc"); endswith(p, "passwd")`,
		`some p in [input.call.arguments.path]; startswith(p, "/etc")`,
		`input.tool.id == "fs__read"; startswith(input.call.arguments.path, "/etc")`,
		`args := input.call.arguments; startswith(args.path, "/etc")`,
		`args := input.call.arguments; startswith(args["path"], "/etc")`,
		`key := "path"; startswith(input.call.arguments[key], "/etc")`,
		`startswith("/etc/passwd", input.call.arguments.path)`,
		`under("/etc")`,
		`beneath(input.call.arguments.path)`,
		`same(input.call.arguments.other)`,
		`every p in [input.call.arguments.path] { startswith(p, "/etc") }`,
		`count([1 | startswith(input.call.arguments.path, "/etc")]) > 0`,
		`startswith(input.call.arguments.path, "/etc") with input.call.arguments.path as input.call.arguments.other`,
	} {
		o := options(t, `package awaken.policy
allow contains "not bad" if not bad
bad if { `+body+` }
under(prefix) if startswith(input.call.arguments.path, prefix)
beneath(path) if startswith(path, "/etc")
same(path) if { startswith(path, "/etc"); path = input.call.arguments.path }
`)
		g := open(t, o)
		s := g.current.Load()
		for _, v := range values {
			q := query("read", `{"path":`+v+`,"other":`+v+`}`)
			if v == "" {
				q = query("read", `{}`)
			}
			got := decide(t, g, q)
			sub, _ := g.subject(q)
			args, err := parseJSON(q.Call.Arguments)
			if err != nil {
				t.Fatal(err)
			}
			input, _, err := document(q, sub, nil, args)
			if err != nil {
				t.Fatal(err)
			}
			want, err := g.evaluate(context.Background(), s, q, sub, input, rego.EvalRuleIndexing(false))
			if err != nil {
				want = g.failed(q, err)
			}
			if got.Outcome != want.Outcome || got.Reasons[0].Code != want.Reasons[0].Code {
				t.Errorf("%s\nwith path %s: %s %s, and without an index %s %s", body, v, got.Outcome, codes(got), want.Outcome, codes(want))
			}
		}
	}
}

// TestWhatIsIndexed holds the exceptions to what can be told from the rules alone.
func TestWhatIsIndexed(t *testing.T) {
	for _, c := range []struct {
		rules string
		want  []string
	}{
		{`bad if startswith(input.call.arguments.path, "/etc")`, []string{"input.call.arguments.path"}},
		{`bad if { p := input.call.arguments.path; startswith(p, "/etc"); endswith(p, "x") }`, []string{"input.call.arguments.path"}},
		{`bad if strings.any_prefix_match(input.run.id, ["a", "b"])`, []string{"input.run.id"}},
		{`bad if glob.match("/etc/*", ["/"], input.call.arguments.path)`, nil},
		{`bad if startswith(input.call.arguments.path, input.run.id)`, nil},
		{`bad if startswith("/etc", input.call.arguments.path)`, nil},
		{`bad if { some p in [input.call.arguments.path]; startswith(p, "/etc") }`, nil},
		{`bad if not startswith(input.call.arguments.path, "/etc")`, nil},
		{`bad if { key := "path"; startswith(input.call.arguments[key], "/etc") }`, nil},
		{"bad if startswith(input.call.arguments.path, \"/etc\")\nother if bad with input as {}", nil},
		{`f(x) if startswith(x, "/etc")`, nil},
		{`f(x) if { startswith(x, "/etc"); x = input.call.arguments.path }`, nil},
		{`bad if count([1 | p := input.call.arguments.path; startswith(p, "/etc")]) > 0`, nil},
		{"bad if { input.run.step == 2 } else if { endswith(input.run.id, \"x\") }", []string{"input.run.id"}},
	} {
		g := open(t, options(t, "package awaken.policy\nallow contains \"x\" if input.run.step == 1\n"+c.rules+"\n"))
		var got []string
		for _, r := range g.current.Load().texts.refs {
			got = append(got, fmt.Sprint(r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: indexed by %v, want %v", c.rules, got, c.want)
		}
	}
}
