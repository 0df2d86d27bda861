package policy

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func candidate(t testing.TB, o Options) *Candidate {
	t.Helper()
	c, err := Compile(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func toolOf(t testing.TB, o Options, q *batch.Query) *Question {
	t.Helper()
	tool, ok := o.Tools().Tool(q.Call.Tool)
	if !ok {
		t.Fatalf("no tool %s", q.Call.Tool)
	}
	asked, err := QuestionAbout(q, tool)
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// everyOutcome has a rule for each outcome, by the path argument, and one that fails.
const everyOutcome = `package awaken.policy
allow contains sprintf("path %s", [input.call.arguments.path]) if input.call.arguments.path != "nothing"
grant contains {"hosts": ["api.example.com:443", "elsewhere.org"], "timeout": "1s"} if input.call.arguments.path == "grant"
block contains {"code": "no", "message": "blocked"} if input.call.arguments.path == "block"
require_confirmation contains {"prompt": "Sure?", "approvers": ["bob", "carol"], "quorum": 2, "timeout": "1h"} if input.call.arguments.path == "ask"
schedule contains {"after": "10m"} if input.call.arguments.path == "later"
set_result contains {"json": {"n": 1}, "is_error": true} if input.call.arguments.path == "answer"
allow contains "fails" if {
	input.call.arguments.path == "fail"
	to_number("x") == 1
}
`

// TestCandidateDecidesAsTheGate: what the tools say is what calls meet.
func TestCandidateDecidesAsTheGate(t *testing.T) {
	o := options(t, everyOutcome)
	g, c := open(t, o), candidate(t, o)
	if c.Revision() != g.Revision() {
		t.Errorf("revisions %s and %s", c.Revision(), g.Revision())
	}
	seen := map[batch.Outcome]bool{}
	for _, path := range []string{"plain", "nothing", "grant", "block", "ask", "later", "answer", "fail"} {
		for _, approved := range []bool{false, true} {
			q := query("save", `{"path":"`+path+`","big":123456789012345678901234567890}`)
			if approved {
				q.Approval = approval(batch.TicketPermission, "bob", "carol")
			}
			d := decide(t, g, q)
			want := answerOf(d)
			asked := toolOf(t, o, q)
			whole, err := asked.Document()
			if err != nil {
				t.Fatal(err)
			}
			read, err := ReadQuestion(whole)
			if err != nil {
				t.Fatal(err)
			}
			recorded, err := RecordedQuestion(d.Input, q.Call.Arguments)
			if err != nil {
				t.Fatal(err)
			}
			for from, asked := range map[string]*Question{"query": asked, "document": read, "record": recorded} {
				got, err := c.Decide(context.Background(), asked)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s from %s: %+v, %v, want %+v", path, from, got, err, want)
				}
			}
			seen[d.Outcome] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("the gate gave the outcomes %v", seen)
	}
}

func TestEvaluateShowsRules(t *testing.T) {
	o := options(t, everyOutcome)
	c := candidate(t, o)
	// Both block and allow are true; one decides.
	e, err := c.Evaluate(context.Background(), toolOf(t, o, query("save", `{"path":"block"}`)), EvaluateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := o.Paths[0] + "/policy.rego"
	want := []FiredRule{
		{"block", file, 4, json.RawMessage(`{"code":"no","message":"blocked"}`), true},
		{"allow", file, 2, json.RawMessage(`"path block"`), false},
	}
	if !reflect.DeepEqual(e.Rules, want) || e.Answer.Outcome != batch.OutcomeBlock || e.Elapsed <= 0 || e.Trace != nil || e.Coverage != nil {
		t.Errorf("%+v", e)
	}
	e, err = c.Evaluate(context.Background(), toolOf(t, o, query("save", `{"path":"grant"}`)), EvaluateOptions{})
	if err != nil || len(e.Rules) != 2 || !e.Rules[0].Decided || e.Rules[1].Rule != "grant" || !e.Rules[1].Decided {
		t.Errorf("%+v, %v", e, err)
	}
	// A rule that fails makes the whole decision one to block, and did not fire.
	e, err = c.Evaluate(context.Background(), toolOf(t, o, query("save", `{"path":"fail"}`)), EvaluateOptions{})
	if err != nil || e.Answer.Reasons[0].Code != ReasonEvalError || !strings.Contains(e.Answer.Reasons[0].Detail, "to_number") {
		t.Errorf("%+v, %v", e.Answer, err)
	}
}

func TestEvaluateExplains(t *testing.T) {
	o := options(t, "allow contains \"a\" if {\n\tprint(\"path\", input.call.arguments.path)\n\ttrace(\"looking\")\n\tinput.call.arguments.path == \"b\"\n}\n")
	c := candidate(t, o)
	q := toolOf(t, o, query("save", `{"path":"a"}`))
	for way, want := range map[string]struct{ has, hasNot string }{
		ExplainFails: {"Fail input.call.arguments.path = \"b\"", "Note"},
		ExplainNotes: {"Note \"looking\"", "Fail"},
		ExplainFull:  {"awaken-host:gate.rego", "\x00"},
	} {
		e, err := c.Evaluate(context.Background(), q, EvaluateOptions{Explain: way, Coverage: true})
		if err != nil {
			t.Fatal(err)
		}
		trace := strings.Join(e.Trace, "\n")
		if !strings.Contains(trace, want.has) || strings.Contains(trace, want.hasNot) || (way != ExplainFull) == strings.Contains(trace, basePrefix) {
			t.Errorf("%s:\n%s", way, trace)
		}
		if len(e.Printed) != 1 || !strings.HasSuffix(e.Printed[0], "policy.rego:3: path a") {
			t.Errorf("printed %q", e.Printed)
		}
		if e.Coverage == nil || len(e.Coverage.Files) != 1 || e.Coverage.Files[0].Percent == 100 {
			t.Errorf("coverage %+v", e.Coverage)
		}
	}
}

func TestEvaluateDeadline(t *testing.T) {
	o := options(t, "allow contains \"a\" if count([x | some x in numbers.range(1, 100000000)]) == 1\n")
	o.Deadline = 20 * time.Millisecond
	c := candidate(t, o)
	q := toolOf(t, o, query("save", `{}`))
	if a, err := c.Decide(context.Background(), q); err != nil || a.Reasons[0].Code != ReasonTimeout {
		t.Errorf("%+v, %v", a, err)
	}
	// Nobody asked for more than the answer, and it is there as soon as it is known.
	began := time.Now()
	if e, err := c.Evaluate(context.Background(), q, EvaluateOptions{}); err != nil || e.Answer.Reasons[0].Code != ReasonTimeout || len(e.Rules) > 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	if e, err := c.Evaluate(ctx, q, EvaluateOptions{Explain: ExplainFails}); err == nil {
		t.Errorf("%+v", e)
	}
}

func TestQuestionsThatCannotBeAsked(t *testing.T) {
	for doc, want := range map[string]string{
		`[]`:                                    "not a JSON object",
		`{"tool":{},"tool":{}}`:                 `key "tool" twice`,
		`{"now_ns":"x","tool":{}}`:              "",
		`{"now_ns":-1}`:                         "now_ns of the input is -1",
		`{"now_ns":1e300}`:                      "now_ns of the input",
		`{"tool":{"capabilities":{"hosts":1}}}`: "tool.capabilities",
		`{"tool":{"capabilities":{"timeout_ms":9223372036854775807}}}`: "no duration",
		`{"a":"\ud800"}`: "surrogate",
	} {
		_, err := ReadQuestion(json.RawMessage(doc))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
	for args, want := range map[string]string{`[]`: "not a JSON object", `{`: "no proper JSON", `{}`: ""} {
		_, err := RecordedQuestion(json.RawMessage(`{"call":{}}`), json.RawMessage(args))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("arguments %s: %v, want %q", args, err, want)
		}
	}
	if _, err := RecordedQuestion(json.RawMessage(`{}`), json.RawMessage(`{}`)); err == nil {
		t.Error("an input without a call took arguments")
	}
}

// TestQuestionWithoutCapabilities: a grant gives nothing that the input does not say.
func TestQuestionWithoutCapabilities(t *testing.T) {
	c := candidate(t, options(t, allowAll+"grant contains {\"hosts\": [\"h\"]}\n"))
	q, err := ReadQuestion(json.RawMessage(`{"tool":{"id":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Decide(context.Background(), q)
	if err != nil || a.Grant == nil || len(a.Grant.Hosts) != 0 || !slices.ContainsFunc(a.Reasons, func(r batch.Reason) bool { return r.Code == ReasonGrantNarrowed }) {
		t.Errorf("%+v, %v", a, err)
	}
}

// FuzzReadQuestion: what is read is written the same, and never panics.
func FuzzReadQuestion(f *testing.F) {
	for _, s := range []string{`{}`, `{"tool":{"capabilities":{"hosts":["a"],"paths":{"/x":"ro"},"timeout_ms":5}},"now_ns":5}`, `{"call":{"arguments":{"a":[1,2.50,"é"]}}}`, `[]`, `{"now_ns":1.5}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		q, err := ReadQuestion(doc)
		if err != nil {
			return
		}
		whole, err := q.Document()
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", doc, err)
		}
		again, err := ReadQuestion(whole)
		if err != nil {
			t.Fatalf("%q became %s: %v", doc, whole, err)
		}
		if again.input.Compare(q.input) != 0 {
			t.Fatalf("%q became %s", doc, whole)
		}
	})
}
