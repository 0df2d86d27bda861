package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/awaken-agents/awaken-host/batch"
)

var updateParity = flag.Bool("update-parity", false, "write testdata/parity.json anew")

const parityFile = "testdata/parity.json"

// parityPolicy is a policy and the questions put to it.
type parityPolicy struct {
	name, rego string
	queries    []parityQuery
}

type parityQuery struct {
	name string
	q    *batch.Query
}

// parityCase is one line of the corpus: what the gate asked OPA, and what came of it.
// Answer is the entry point's, null where evaluation failed; Outcome and Codes are the
// gate's decision.
type parityCase struct {
	Policy  string          `json:"policy"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Answer  json.RawMessage `json:"answer"`
	Outcome batch.Outcome   `json:"outcome"`
	Codes   string          `json:"codes"`
}

// mirror adds what the arguments hold, so that a question can have any entries.
const mirror = `package awaken.policy

allow contains e if some e in input.call.arguments.allow

block contains e if some e in input.call.arguments.block

require_confirmation contains e if some e in input.call.arguments.confirm

schedule contains e if some e in input.call.arguments.schedule

set_result contains e if some e in input.call.arguments.result

grant contains e if some e in input.call.arguments.grant
`

const parityHelpers = `package awaken.policy

import data.awaken.lib.commands
import data.awaken.lib.hosts
import data.awaken.lib.hours
import data.awaken.lib.paths
import data.awaken.lib.rate

allow contains "a harmless command" if commands.matches_any(input.call.arguments.command, ["git status *", "ls *"])

allow contains "a known host" if hosts.reaches(input.call.arguments.url, ["*.example.com"])

allow contains "the workspace" if paths.within(input.call.arguments.path, "/workspace")

block contains "a key" if paths.matches(input.call.arguments.path, "**/*.{pem,key}")

block contains "too often" if rate.run(input.tool.id) >= 2

block contains "too often today" if rate.principal("24h", input.tool.id) >= 5

schedule contains {"after": "12h", "reason": "at night"} if not hours.open({"days": hours.everyday, "from": "06:00", "to": "22:00", "zone": "America/New_York"})
`

const parityStrict = `package awaken.policy

bad if startswith(input.call.arguments.path, "/etc")

allow if not bad

block contains "a large one" if to_number(input.call.arguments.size) > 100

level := 1 if input.call.arguments.low

level := 2 if input.call.arguments.high

block contains "high" if level == 2
`

// parityPolicies are all policies with all questions.
func parityPolicies(t testing.TB) []parityPolicy {
	ask := func(ps *parityPolicy, name, tool, args string, change func(*batch.Query)) {
		q := query(tool, args)
		q.Recent = func(context.Context, ...time.Duration) ([]map[batch.ToolID]int, error) {
			return []map[batch.ToolID]int{{}, {"notes__read": 1}, {"notes__read": 2, "notes__save": 4}, {"notes__read": 2, "notes__save": 5}}, nil
		}
		if change != nil {
			change(q)
		}
		ps.queries = append(ps.queries, parityQuery{name, q})
	}
	back := func(kind batch.TicketKind, by ...string) func(*batch.Query) {
		return func(q *batch.Query) { q.Approval = approval(kind, by...) }
	}

	starter := parityPolicy{name: "starter"}
	raw, err := fs.ReadFile(Starter(), "policy.rego")
	if err != nil {
		t.Fatal(err)
	}
	starter.rego = string(raw)
	for _, tool := range []string{"read", "save", "wipe", "mute"} {
		ask(&starter, tool, tool, `{}`, nil)
		ask(&starter, tool+" approved", tool, `{}`, back(batch.TicketPermission, "bob"))
		ask(&starter, tool+" in production", tool, `{}`, func(q *batch.Query) { q.Run.Labels = map[string]string{"environment": "production"} })
	}
	ask(&starter, "nobody's run", "save", `{}`, func(q *batch.Query) { q.Run = &batch.Run{ID: "r9"} })

	outcomes := parityPolicy{name: "mirror", rego: mirror}
	parts := []string{`"block": ["b", {"code": "own", "message": "m"}]`, `"confirm": ["c", {"prompt": "p", "quorum": 2, "timeout": "1h"}]`,
		`"schedule": [{"after": "10m"}, {"at": "2030-01-01T00:00:00Z", "reason": "r"}]`, `"result": [{"text": "t", "reason": "r"}]`, `"allow": ["a", {"code": "x"}]`}
	for set := range 1 << len(parts) {
		var with []string
		for i, p := range parts {
			if set&(1<<i) != 0 {
				with = append(with, p)
			}
		}
		ask(&outcomes, fmt.Sprintf("outcomes %05b", set), "save", "{"+strings.Join(with, ", ")+"}", nil)
		if set%3 == 2 { // a confirmation, and more beside it
			ask(&outcomes, fmt.Sprintf("outcomes %05b after two approvals", set), "save", "{"+strings.Join(with, ", ")+"}", back(batch.TicketPermission, "bob", "carol"))
			ask(&outcomes, fmt.Sprintf("outcomes %05b when due", set), "save", "{"+strings.Join(with, ", ")+"}", back(batch.TicketSchedule))
		}
	}
	for i, args := range []string{
		`{"allow": [5]}`, `{"allow": ["a"], "block": [null]}`, `{"allow": ["a"], "confirm": [{"promt": "p"}]}`, `{"allow": ["a"], "schedule": [{"after": "soon"}]}`,
		`{"allow": ["a"], "result": [{"text": 1}]}`, `{"allow": ["a"], "grant": [{}]}`, `{"allow": ["a"], "grant": [{"host": ["x"]}]}`, `{"schedule": [{"at": 1751328000}]}`,
		`{"result": [{"text": "a"}, {"text": "b"}]}`, `{"result": [{"text": "a", "reason": "one"}, {"text": "a", "reason": "two"}]}`, `{"result": [{"json": {"a": [1, null, 1.5]}}]}`,
		`{"result": [{"content": [{"type": "image", "data": "AAEC", "mime_type": "image/png"}], "is_error": true}]}`,
		`{"allow": ["a"], "grant": [{"hosts": ["api.example.com", "evil.org"], "timeout": "1s"}, {"memory_mib": 8, "commands": ["git"]}]}`, `{"allow": ["a"], "grant": [{"paths": {"/data": "rw"}}]}`,
		`{"confirm": [{"approvers": ["alice", "bob"], "quorum": 2}]}`, `{"confirm": [{"approvers": ["Bob", "carol"]}, {"approvers": ["carol", "dave"]}]}`,
		`{"confirm": [{"approvers": ["bob"]}, {"approvers": ["carol"]}]}`, `{"confirm": [{"timeout": "2d", "reason": {"code": "why"}}]}`, `{"schedule": [{"after": "1d"}, {"at": 1900000000000000000}]}`,
	} {
		ask(&outcomes, fmt.Sprint("shape ", i), "save", args, nil)
	}
	for by, want := range map[string][]string{"enough": {"bob", "carol"}, "too few": {"bob"}, "others": {"eve", "mallory"}} {
		ask(&outcomes, "quorum "+by, "save", `{"confirm": [{"approvers": ["bob", "carol", "dave"], "quorum": 2}]}`, back(batch.TicketPermission, want...))
	}
	slices.SortStableFunc(outcomes.queries, func(a, b parityQuery) int { return strings.Compare(a.name, b.name) })

	helpers := parityPolicy{name: "helpers", rego: parityHelpers}
	for _, args := range []string{
		`{"command": "git status -s"}`, `{"command": ["git", "status", "; id"]}`, `{"command": "git push"}`, `{"command": "ls; id"}`,
		`{"url": "https://a.example.com/x"}`, `{"url": "https://example.com"}`, `{"url": "https://a.example.com@evil.org"}`,
		`{"path": "/workspace/a"}`, `{"path": "/workspace/a.pem"}`, `{"path": "/etc/passwd"}`, `{"path": "/workspace/../etc"}`, `{"path": 5}`,
	} {
		ask(&helpers, args, "read", args, nil)
	}
	ask(&helpers, "too often", "save", `{"path": "/workspace/a"}`, nil)
	ask(&helpers, "at night", "read", `{"path": "/workspace/a"}`, func(q *batch.Query) { q.Now = q.Now.Add(14 * time.Hour) })

	strict := parityPolicy{name: "strict", rego: parityStrict}
	for _, args := range []string{
		`{"path": "/home"}`, `{"path": "/etc/passwd"}`, `{"path": ["/etc/passwd"]}`, `{"path": 5}`, `{}`, `{"size": "5"}`, `{"size": 500}`, `{"size": "abc"}`,
		`{"high": true}`, `{"low": true}`, `{"high": true, "low": true}`,
	} {
		ask(&strict, args, "read", args, nil)
	}
	return []parityPolicy{starter, outcomes, helpers, strict}
}

// decideAll asks the gate everything.
func decideAll(t *testing.T) []parityCase {
	t.Helper()
	var out []parityCase
	for _, p := range parityPolicies(t) {
		g := open(t, options(t, p.rego))
		s := g.current.Load()
		for _, pq := range p.queries {
			d := decide(t, g, pq.q)
			c := parityCase{Policy: p.name, Name: pq.name, Input: inputDocument(t, g, pq.q), Outcome: d.Outcome, Codes: codes(d)}
			v, err := parseJSON(c.Input)
			if err != nil {
				t.Fatal(err)
			}
			c.Answer = json.RawMessage("null")
			if rs, err := s.query.Eval(t.Context(), rego.EvalParsedInput(v), rego.EvalRuleIndexing(!s.texts.odd(v)), rego.EvalTime(pq.q.Now)); err == nil && len(rs) == 1 {
				if c.Answer, err = json.Marshal(rs[0].Expressions[0].Value); err != nil {
					t.Fatal(err)
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// The corpus is what the gate asks and decides. It covers every outcome and failure
// that a policy can have.
func TestParityCorpus(t *testing.T) {
	got := decideAll(t)
	var lines bytes.Buffer
	lines.WriteString("[\n")
	for i, c := range got {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(raw)
		if i < len(got)-1 {
			lines.WriteByte(',')
		}
		lines.WriteByte('\n')
	}
	lines.WriteString("]\n")
	if *updateParity {
		if err := os.MkdirAll(filepath.Dir(parityFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(parityFile, lines.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(parityFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, lines.Bytes()) {
		t.Errorf("%s is not what the gate asks and decides; if that is meant: go test ./policy -run TestParityCorpus -update-parity", parityFile)
	}
	if len(got) < 60 {
		t.Errorf("%d cases", len(got))
	}
	seen := map[string]int{}
	for _, c := range got {
		seen[string(c.Outcome)]++
		for _, code := range strings.Fields(c.Codes) {
			seen[code]++
		}
	}
	for _, want := range []string{
		"allow", "block", "set_result", "require_confirmation", "schedule",
		ReasonNoRule, ReasonEvalError, ReasonConflict, ReasonOddShape, ReasonNoApprover, ReasonConfirmMissing, ReasonApprovalWeak,
		ReasonApproved, ReasonScheduleDue, ReasonGrantNarrowed,
	} {
		if seen[want] == 0 {
			t.Errorf("nothing in the corpus is %s: %v", want, seen)
		}
	}
}

// opaProgram is OPA's own command line, of the version that the host has built in.
func opaProgram(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs("../bin/opa")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		const how = "bin/opa is missing: make opa builds it"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	return file
}

// The same policies give the same answers through "opa eval". Its indices are off:
// with them OPA passes over a rule whose built-in would fail, see strict.go.
func TestParityWithOPA(t *testing.T) {
	opa := opaProgram(t)
	raw, err := os.ReadFile(parityFile)
	if err != nil {
		t.Fatal(err)
	}
	var corpus []parityCase
	if err := json.Unmarshal(raw, &corpus); err != nil {
		t.Fatal(err)
	}
	for _, p := range parityPolicies(t) {
		t.Run(p.name, func(t *testing.T) {
			files := map[string]string{"policy.rego": p.rego}
			for _, src := range baseModules() {
				files[src.name] = string(src.raw)
			}
			dir := folder(t, files)
			ask := func(input any, query string) (json.RawMessage, error) {
				doc, err := json.Marshal(input)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), opa, "eval", "--strict-builtin-errors", "--disable-indexing", "--format", "json",
					"--data", dir, "--stdin-input", query)
				cmd.Stdin = bytes.NewReader(doc)
				out, err := cmd.Output()
				if err != nil {
					return nil, fmt.Errorf("%w: %s", err, out)
				}
				var a struct {
					Result []struct {
						Expressions []struct{ Value json.RawMessage }
					}
				}
				if err := json.Unmarshal(out, &a); err != nil || len(a.Result) != 1 {
					return nil, fmt.Errorf("%w: %s", err, out)
				}
				return a.Result[0].Expressions[0].Value, nil
			}

			// What fails ends a process; all the rest is asked of one.
			all := map[string]json.RawMessage{}
			want := map[string]json.RawMessage{}
			asked := 0
			for _, c := range corpus {
				if c.Policy != p.name {
					continue
				}
				asked++
				if string(c.Answer) != "null" {
					all[c.Name], want[c.Name] = c.Input, c.Answer
					continue
				}
				if got, err := ask(c.Input, entryPoint); err == nil {
					t.Errorf("%s: the gate fails with %s, OPA answers %s", c.Name, c.Codes, got)
				}
			}
			if asked != len(p.queries) {
				t.Errorf("%d cases in the corpus, %d questions", asked, len(p.queries))
			}
			raw, err := ask(map[string]any{"cases": all}, "{name: d | some name, x in input.cases; d := "+entryPoint+" with input as x}")
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]json.RawMessage
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got[name] == nil {
					t.Errorf("%s: OPA has no answer, the gate has %s", name, want[name])
					continue
				}
				sameJSON(t, got[name], string(want[name]))
			}
		})
	}
}
