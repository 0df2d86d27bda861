package decisionlog

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

var at = time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)

func record(op batch.OperationID) *batch.DecisionRecord {
	return &batch.DecisionRecord{
		Operation: op, Seq: 1, Time: at, Principal: "alice", Agent: "helper", Tool: "text__send", ToolDigest: "d1",
		ArgumentDigest: "a1", PolicyRevision: "rev", Outcome: batch.OutcomeAllow,
		Reasons: []batch.Reason{{Code: "allow", Message: "it reads", Detail: "for operators"}},
		Grant:   &batch.Grant{Hosts: []string{"h"}, MemoryMiB: 3, Timeout: time.Second}, Elapsed: 42,
		Input: json.RawMessage(`{"tool":{"id":"text__send","plugin":"text"},"call":{"id":"c"},"run":{"id":"r","principal":"alice","labels":{"team":"x"}},"now_ns":12345678901234567890}`),
	}
}

func call(args string) *batch.Call {
	return &batch.Call{Run: "r", Step: 1, Index: 0, ID: "c", Tool: "text__send", Arguments: []byte(args)}
}

func shown(t *testing.T, e *event) string {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestEvent(t *testing.T) {
	e, err := describe(record("r/1/0"), call(`{"to":"bob","n":1e400}`), map[string]string{"id": "h"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"decision_id":"r/1/0/1","timestamp":"2026-11-30T20:00:00Z","labels":{"id":"h"},"bundles":{"policy":{"revision":"rev"}},` +
		`"path":"awaken/gate/decision","input":{"call":{"arguments":{"n":1e400,"to":"bob"},"id":"c","operation":"r/1/0"},"now_ns":12345678901234567890,` +
		`"run":{"agent":"helper","id":"r","labels":{"team":"x"},"principal":"alice","step":1},"tool":{"digest":"d1","id":"text__send","plugin":"text"}},` +
		`"result":{"grant":{"hosts":["h"],"memory_mib":3,"timeout":1000000000},"outcome":"allow",` +
		`"reasons":[{"code":"allow","detail":"for operators","message":"it reads"}]},` +
		`"requested_by":"alice","metrics":{"timer_rego_query_eval_ns":42},"custom":{"argument_digest":"a1","seq":1}}`
	if got := shown(t, e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if id, ok := lineID([]byte(want + "\n")); !ok || id != "r/1/0/1" {
		t.Errorf("the line's id is %q", id)
	}
}

// What the model wrote is in the event whatever it is.
func TestEventOfOddArguments(t *testing.T) {
	for args, want := range map[string]string{
		"":                `"arguments":""`,
		"nonsense":        `"arguments":"nonsense"`,
		"[1]":             `"arguments":"[1]"`,
		"null":            `"arguments":"null"`,
		`{"a":1,"a":2}`:   `"arguments":"{\"a\":1,\"a\":2}"`,
		`{"a":1} x`:       `"arguments":"{\"a\":1} x"`,
		"{\"a\":\"\xff":   `"arguments":"{\"a\":\"` + "\uFFFD" + `"`,
		`{"a":{"b":[1]}}`: `"arguments":{"a":{"b":[1]}}`,
	} {
		e, err := describe(record("r/1/0"), call(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(t, e); !strings.Contains(got, want) {
			t.Errorf("%q: got %s", args, got)
		}
	}
}

func TestMask(t *testing.T) {
	const args = `{"password":"hunter2","user":{"name":"bob","pin":1},"list":[{"k":"a"},{"k":"b"},{"k":"c"}],"a/b":"x"}`
	for name, c := range map[string]struct {
		rules          string
		gone, has      string // texts
		erased, masked string
		digest         bool
	}{
		"nothing":               {`[]`, "", "hunter2", "", "", true},
		"a path":                {`["/input/call/arguments/password"]`, "hunter2", `"name":"bob"`, "/input/call/arguments/password", "", false},
		"remove":                {`[{"op":"remove","path":"/input/call/arguments/password"}]`, "hunter2", "", "/input/call/arguments/password", "", false},
		"the default is remove": {`[{"path":"/input/call/arguments/password"}]`, "hunter2", "", "/input/call/arguments/password", "", false},
		"upsert":                {`[{"op":"upsert","path":"/input/call/arguments/password","value":"***"}]`, "hunter2", `"password":"***"`, "", "/input/call/arguments/password", false},
		"upsert of an object":   {`[{"op":"upsert","path":"/input/call/arguments/user","value":{"x":1}}]`, "bob", `"user":{"x":1}`, "", "/input/call/arguments/user", false},
		"upsert makes parts":    {`[{"op":"upsert","path":"/result/note/by","value":"me"}]`, "", `"note":{"by":"me"}`, "", "/result/note/by", true},
		"deep":                  {`["/input/call/arguments/user/pin"]`, `"pin"`, "bob", "/input/call/arguments/user/pin", "", false},
		"not there":             {`["/input/call/arguments/other"]`, "", "hunter2", "", "", false},
		"through a text":        {`["/input/call/arguments/password/x"]`, "", "hunter2", "", "", false},
		"of lists":              {`["/input/call/arguments/list/0","/input/call/arguments/list/1/k"]`, `"k":"a"`, `"list":[{},{"k":"c"}]`, "/input/call/arguments/list/0 /input/call/arguments/list/1/k", "", false},
		"two of a list":         {`["/input/call/arguments/list/0","/input/call/arguments/list/2"]`, `"k":"a"`, `"list":[{"k":"b"}]`, "/input/call/arguments/list/0 /input/call/arguments/list/2", "", false},
		"behind a list":         {`["/input/call/arguments/list/7"]`, "", `"k":"c"`, "", "", false},
		"escaped":               {`["/input/call/arguments/a%2Fb"]`, `"a/b"`, "", "/input/call/arguments/a%2Fb", "", false},
		"all arguments":         {`["/input/call/arguments"]`, "hunter2", `"call":{"id"`, "/input/call/arguments", "", false},
		"all input":             {`["/input"]`, "alice", `"result"`, "/input", "", false},
		"all result":            {`["/result"]`, "it reads", `"input"`, "/result", "", true},
		"the principal":         {`["/input/run/principal"]`, "alice", "", "/input/run/principal", "", true},
		"the digest's tool":     {`["/input/tool/digest"]`, "d1", "", "/input/tool/digest", "", true},
		"part and whole":        {`["/input/call/arguments","/input/call/arguments/password"]`, "hunter2", "", "/input/call/arguments /input/call/arguments/password", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := describe(record("r/1/0"), call(args), nil)
			if err != nil {
				t.Fatal(err)
			}
			e.hide(json.RawMessage(c.rules), nil)
			got := shown(t, e)
			if c.gone != "" && strings.Contains(got, c.gone) || !strings.Contains(got, c.has) {
				t.Errorf("%s", got)
			}
			if strings.Join(e.Erased, " ") != c.erased || strings.Join(e.Masked, " ") != c.masked {
				t.Errorf("erased %v, masked %v", e.Erased, e.Masked)
			}
			if has := strings.Contains(got, "argument_digest"); has != c.digest {
				t.Errorf("digest is there: %v", has)
			}
			if strings.Contains(got, "mask_error") {
				t.Errorf("failed: %s", got)
			}
		})
	}
}

// What is not known to be hidden is not shown.
func TestMaskFailsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		rules, args string
		err         error
	}{
		"error":              {``, `{"p":"hunter2"}`, errors.New("undefined")},
		"no list":            {`{}`, `{"p":"hunter2"}`, nil},
		"not JSON":           {`[`, `{"p":"hunter2"}`, nil},
		"number":             {`["/input/x", 5]`, `{"p":"hunter2"}`, nil},
		"other op":           {`[{"op":"hide","path":"/input/x"}]`, `{"p":"hunter2"}`, nil},
		"other key":          {`[{"paht":"/input/x"}]`, `{"p":"hunter2"}`, nil},
		"path is no text":    {`[{"path":["input"]}]`, `{"p":"hunter2"}`, nil},
		"no path":            {`[{"op":"remove"}]`, `{"p":"hunter2"}`, nil},
		"no slash":           {`["input/x"]`, `{"p":"hunter2"}`, nil},
		"elsewhere":          {`["/labels/id"]`, `{"p":"hunter2"}`, nil},
		"bad escape":         {`["/input/%zz"]`, `{"p":"hunter2"}`, nil},
		"arguments not JSON": {`["/input/call/arguments/p"]`, `{"p":"hunter2"`, nil},
		"arguments twice":    {`["/input/call/arguments/p"]`, `{"p":"x","p":"hunter2"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := describe(record("r/1/0"), call(c.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			e.hide(json.RawMessage(c.rules), c.err)
			got := shown(t, e)
			if strings.Contains(got, "hunter2") || strings.Contains(got, `"arguments"`) || !slices.Contains(e.Erased, "/input/call/arguments") {
				t.Errorf("%s", got)
			}
			if e.Custom["mask_error"] == nil || strings.Contains(got, "argument_digest") {
				t.Errorf("custom %v", e.Custom)
			}
		})
	}
}

// A reason may quote the arguments: in its detail what failed on them, in the message of
// a refusal what does not fit, and in that of a rule whatever the rule says.
func TestReasonsDoNotShowWhatIsHidden(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		err   error
		want  string // reasons
	}{
		"nothing is hidden": {`["/input/run/labels/team"]`, nil,
			`[{"code":"eval_error","detail":"to_number: hunter2","message":"it failed"},{"code":"invalid_arguments","message":"hunter2 does not match"},{"code":"bad","message":"hunter2?"}]`},
		"an argument": {`["/input/call/arguments/p"]`, nil,
			`[{"code":"eval_error","message":"it failed"},{"code":"invalid_arguments"},{"code":"bad","message":"hunter2?"}]`},
		"the mask fails": {``, errors.New("undefined"), `[{"code":"eval_error"},{"code":"invalid_arguments"},{"code":"bad"}]`},
		"what a rule says": {`["/input/call/arguments/p","/result/reasons/2/message"]`, nil,
			`[{"code":"eval_error","message":"it failed"},{"code":"invalid_arguments"},{"code":"bad"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			r := record("r/1/0")
			r.Reasons = []batch.Reason{
				{Code: "eval_error", Message: "it failed", Detail: "to_number: hunter2"},
				{Code: batch.ReasonInvalidArguments, Message: "hunter2 does not match"},
				{Code: "bad", Message: "hunter2?"},
			}
			e, err := describe(r, call(`{"p":"hunter2"}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			e.hide(json.RawMessage(c.rules), c.err)
			if got := shown(t, e); !strings.Contains(got, `"reasons":`+c.want+`}`) {
				t.Errorf("want %s in %s", c.want, got)
			}
		})
	}
}

// FuzzMask: a mask that is obeyed has removed what it names, and whatever it is the
// event stays an event.
func FuzzMask(f *testing.F) {
	f.Add(`["/input/call/arguments/p"]`, `{"p":"hunter2"}`)
	f.Add(`[{"op":"upsert","path":"/input/call/arguments/l/0","value":null},"/input/call/arguments/l/1"]`, `{"l":[1,2,3]}`)
	f.Add(`["/input","/result/reasons/0"]`, `x`)
	f.Fuzz(func(t *testing.T, rules, args string) {
		e, err := describe(record("r/1/0"), call(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		e.hide(json.RawMessage(rules), nil)
		line := shown(t, e)
		if !strings.HasPrefix(line, `{"decision_id":"r/1/0/1",`) || !json.Valid([]byte(line)) {
			t.Fatalf("%s", line)
		}
		parsed, err := parseMask([]byte(rules))
		if err != nil {
			if e.Custom["mask_error"] == nil || strings.Contains(line, `"arguments":`) {
				t.Fatalf("%v: %s", err, line)
			}
			return
		}
		for _, r := range parsed {
			if r.op == "remove" && len(r.parts) == 4 && r.hidesArguments() && len(parsed) == 1 {
				if m, ok := argumentsOf([]byte(args)).(map[string]any); ok && m[r.parts[3]] != nil && !slices.Contains(e.Erased, r.path) {
					t.Fatalf("%s is still there: %s", r.path, line)
				}
			}
		}
	})
}
