package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// What a helper cannot read without doubt blocks, also under not, whichever way the
// rule that asks is turned.
func TestHelpersFailOnWhatTheyCannotRead(t *testing.T) {
	tests := map[string][]string{ // expression over input.call.arguments.v to values
		`paths.within(v, "/workspace")`:                 {`"/workspace/../etc"`, `""`, `"a"`, `5`, `null`, `["/workspace"]`, `"/a\\b"`, `"/a\nb"`},
		`paths.within("/workspace", v)`:                 {`"../x"`, `"x"`, `5`},
		`paths.within_any(v, ["/workspace"])`:           {`"../x"`, `{}`},
		`paths.matches(v, "/workspace/*")`:              {`"../x"`, `"x"`, `7`},
		`paths.matches("/x", v)`:                        {`"x"`, `7`, `"/[a"`},
		`commands.matches(v, "git status *")`:           {`"git status; id"`, `"git status $(id)"`, `""`, `5`, `null`, `[]`, `["git", 5]`, `{}`},
		`commands.matches("git", v)`:                    {`""`, `"*"`, `"* x"`, `5`},
		`commands.matches_any(v, ["git *"])`:            {`"git|id"`},
		`hosts.reaches(v, ["*.example.com"])`:           {`"api.example.com"`, `"https://u@api.example.com"`, `"https://api.example.com\\@evil.org"`, `5`, `null`, `"ftp://api.example.com"`},
		`hosts.reaches("https://a.example.com", [v])`:   {`"*"`, `"*.*.com"`, `"a.*.com"`, `"https://a/b"`, `""`, `5`, `"*.localhost"`, `"*.10.0.0.1"`, `"a:*"`},
		`hosts.covered(v, ["*.example.com"])`:           {`"a/b"`, `5`},
		`rate.run(v) < 3`:                               {`5`, `null`, `["a"]`},
		`rate.principal(v, "notes__save") < 3`:          {`"2h"`, `"1H"`, `""`, `60`, `null`},
		`rate.principal("1h", v) < 3`:                   {`5`, `null`},
		`rate.principal_total(v) < 3`:                   {`"2h"`},
		`hours.during(v, "2030-01-01T00:00:00Z")`:       {`"2031-01-01T00:00:00Z"`, `"today"`, `5`},
		`hours.open(object.union(office, {"zone": v}))`: {`"Mars/Base"`, `5`, `"../UTC"`},
		`hours.open(object.union(office, {"days": v}))`: {`[]`, `["Mon"]`, `"Monday"`, `["Monday", "monday"]`},
		`hours.open(object.union(office, {"from": v}))`: {`"9:00"`, `"25:00"`, `"17:00"`, `9`, `"09:60"`, `null`},
		`hours.open(object.remove(office, [v]))`:        {`"days"`, `"from"`, `"to"`, `"zone"`},
	}
	imports := "import data.awaken.lib.commands\nimport data.awaken.lib.hosts\nimport data.awaken.lib.hours\nimport data.awaken.lib.paths\nimport data.awaken.lib.rate\n"
	for expr, values := range tests {
		t.Run(expr, func(t *testing.T) {
			var used strings.Builder
			for _, line := range strings.SplitAfter(imports, "\n") {
				if name := line[strings.LastIndex(line, ".")+1:]; name != "" && strings.Contains(expr, strings.TrimSpace(name)+".") {
					used.WriteString(line)
				}
			}
			head := "package awaken.policy\n" + used.String()
			if strings.Contains(expr, "office") {
				head += "office := {\"days\": [\"Monday\"], \"from\": \"09:00\", \"to\": \"17:00\", \"zone\": \"UTC\"}\n"
			}
			for _, rules := range []string{
				"allow if { v := input.call.arguments.v; " + expr + " }",
				"allow if { v := input.call.arguments.v; not " + expr + " }",
				"allow := true\nblock if { v := input.call.arguments.v; " + expr + " }",
				"allow := true\nblock if { v := input.call.arguments.v; not " + expr + " }",
			} {
				g := open(t, options(t, head+rules))
				for _, v := range values {
					d := decide(t, g, query("read", `{"v": `+v+`}`))
					if d.Outcome != batch.OutcomeBlock || codes(d) != ReasonEvalError {
						t.Errorf("%s with %s: got %s with %+v", rules, v, d.Outcome, d.Reasons)
					}
				}
			}
		})
	}
}

// The helpers are the host's own.
func TestHelpersCannotBeReplaced(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a package":       {"a.rego": "package awaken.lib.hosts\nreaches(_, _) := true"},
		"a package below": {"a.rego": "package awaken.lib.hosts.more\nx := 1"},
		"the package":     {"a.rego": "package awaken.lib\nx := 1"},
		"from above":      {"a.rego": "package awaken\nlib.hosts.x := 1"},
		"data":            {"awaken/lib/hosts/data.json": `{"x": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, allowAll)
			files["b.rego"] = "package awaken.policy\n" + allowAll
			o.Paths = []string{folder(t, files)}
			if got := problemsOf(t, o).Error(); !strings.Contains(got, "the host's own") {
				t.Error(got)
			}
		})
	}
}

// asked prepares a query over the base modules.
func asked(t testing.TB, query string) func(input ast.Value) any {
	t.Helper()
	modules := []func(*rego.Rego){rego.Query(query), rego.StrictBuiltinErrors(true)}
	for _, src := range baseModules() {
		if strings.Contains(src.file, "/") {
			modules = append(modules, rego.Module(src.file, string(src.raw)))
		}
	}
	q, err := rego.New(modules...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func(input ast.Value) any {
		rs, err := q.Eval(context.Background(), rego.EvalParsedInput(input))
		if err != nil {
			return nil
		}
		if len(rs) != 1 {
			panic(fmt.Sprintf("%v for %v", rs, input)) // t is not that of a fuzz target
		}
		return rs[0].Expressions[0].Value
	}
}

// A URL that hosts.reaches reads leads where Go's client would go, and a pattern means
// what it means in manifests.
func FuzzHostsAgreeWithManifests(f *testing.F) {
	for _, s := range [][2]string{
		{"https://api.example.com/x", "*.example.com"}, {"http://a:80", "http://a"}, {"https://[::2]:443/", "[0::2]"}, {"https://[::FFFF:1:2]/", "[::ffff:1:2]"},
		{"https://1.2.3.4", "1.2.3.4"}, {"https://a.", "a"}, {"https://u:p@a", "a"}, {"HTTPS://A?x", "A:443"}, {"https://0x7f", "0x7f"}, {"https://[1:2:3:4:5:6:7::]", "[1:2:3:4:5:6:7::]"},
	} {
		f.Add(s[0], s[1])
	}
	reaches := asked(f, `data.awaken.lib.hosts.reaches(input.url, [input.pattern])`)
	f.Fuzz(func(t *testing.T, u, pattern string) {
		got := reaches(ast.NewObject(
			[2]*ast.Term{ast.StringTerm("url"), ast.StringTerm(u)}, [2]*ast.Term{ast.StringTerm("pattern"), ast.StringTerm(pattern)},
		))
		if got == nil {
			return // not read
		}
		p, err := plugins.ParseHostPattern(pattern)
		if err != nil {
			t.Fatalf("pattern %q is read, and is none: %v", pattern, err)
		}
		to, err := url.Parse(u)
		if err != nil || to.User != nil {
			t.Fatalf("URL %q is read, and is none: %v", u, err)
		}
		host, err := plugins.CanonicalHost(strings.TrimSuffix(to.Hostname(), "."))
		if err != nil {
			t.Fatalf("URL %q is read, and %v", u, err)
		}
		port := map[string]uint16{"http": 80, "https": 443}[to.Scheme]
		if to.Port() != "" {
			n, err := strconv.ParseUint(to.Port(), 10, 16)
			if err != nil {
				t.Fatalf("URL %q: %v", u, err)
			}
			port = uint16(n)
		}
		if want := p.Match(to.Scheme, host, port); got != want {
			t.Fatalf("%q with %q: %v, and plugins say %v", u, pattern, got, want)
		}
		if a, err := netip.ParseAddr(host); err == nil && a.Is4() && strings.Contains(u, "[") {
			t.Fatalf("URL %q hides an IPv4 address", u)
		}
	})
}

// A path that paths.within says is within a folder is so after cleaning.
func FuzzPathsAgreeWithGo(f *testing.F) {
	for _, s := range [][2]string{{"/a/b", "/a"}, {"a//b/./c", "a/b"}, {"/a/..b", "/a"}, {"/", "/"}, {".", "."}, {"ab", "a"}} {
		f.Add(s[0], s[1])
	}
	within := asked(f, `data.awaken.lib.paths.within(input.path, input.folder)`)
	f.Fuzz(func(t *testing.T, p, dir string) {
		got := within(ast.NewObject(
			[2]*ast.Term{ast.StringTerm("path"), ast.StringTerm(p)}, [2]*ast.Term{ast.StringTerm("folder"), ast.StringTerm(dir)},
		))
		if got == nil {
			return
		}
		c, d := path.Clean(p), path.Clean(dir)
		want := c == d || d == "." || strings.HasPrefix(c, strings.TrimSuffix(d, "/")+"/")
		if got != want {
			t.Fatalf("%q in %q: %v", p, dir, got)
		}
	})
}

// A line that is plain is the same words to a shell, and what matches a pattern of
// one program runs that program.
func FuzzCommandsArePlain(f *testing.F) {
	for _, s := range []string{"git status -s", "a;b", "a b", " x ", "a\tb", "é"} {
		f.Add(s)
	}
	words := asked(f, `data.awaken.lib.commands.words(input)`)
	f.Fuzz(func(t *testing.T, line string) {
		got := words(ast.String(line))
		if got == nil {
			return
		}
		if strings.ContainsAny(line, "\n\t\r;&|<>()$`\\\"'*?[]#~{}!^") {
			t.Fatalf("%q is plain", line)
		}
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if string(raw) != string(want) {
			t.Fatalf("%q is %s, and %s to a shell", line, raw, want)
		}
	})
}
