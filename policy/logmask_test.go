package policy

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

func openMask(t *testing.T, deadline time.Duration, files map[string]string) (*Gate, error) {
	t.Helper()
	files["p.rego"] = "package awaken.policy\n\nallow if input.tool.id == \"x\"\n"
	return Open(t.Context(), Options{
		Paths: []string{folder(t, files)}, Deadline: deadline,
		Tools: func() *plugins.Snapshot { return nil },
	})
}

const logEvent = `{"decision_id":"r/1/0/1","input":{"tool":{"id":"mail__send"},"call":{"arguments":{"to":"bob","n":12345678901234567890}}},"result":{"outcome":"allow"}}`

func TestLogMask(t *testing.T) {
	for name, c := range map[string]struct{ rego, want, fails string }{
		"set": {`mask contains "/input/call/arguments/to" if input.input.tool.id == "mail__send"`, `["/input/call/arguments/to"]`, ""},
		"object": {`mask contains {"op": "upsert", "path": "/input/call/arguments/n", "value": input.input.call.arguments.n}`,
			`[{"op":"upsert","path":"/input/call/arguments/n","value":12345678901234567890}]`, ""},
		"nothing matches": {`mask contains "/input" if input.result.outcome == "block"`, `[]`, ""},
		"list":            {`mask := ["/input"]`, `["/input"]`, ""},
		"undefined":       {`mask := ["/input"] if input.result.outcome == "block"`, "", "is undefined"},
		"not there":       {`other := 1`, "", "is undefined"},
		"text":            {`mask := "/input"`, "", "neither a set nor a list"},
		"true":            {`mask if true`, "", "neither a set nor a list"},
		"failing builtin": {`mask contains p if p := to_number(input.input.call.arguments.to)`, "", "to_number"},
		"conflict":        {"mask := [] if input.result\nmask := [1] if input.input", "", "conflict"},
		"endless":         {`mask contains x if { some i in numbers.range(1, 100000000); x := i; i < 0 }`, "", "within"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := openMask(t, 50*time.Millisecond, map[string]string{"log.rego": "package system.log\n\n" + c.rego + "\n"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.LogMask(t.Context(), json.RawMessage(logEvent))
			if err != nil && strings.Contains(err.Error(), "bob") {
				t.Errorf("the error, which is logged, quotes an argument: %v", err)
			}
			if string(got) != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// A mask counts wherever it is written: what is taken for none would hide nothing.
func TestMaskThatIsElsewhere(t *testing.T) {
	const want = `["/input/call/arguments/to"]`
	for name, files := range map[string]map[string]string{
		"data":               {"data.json": `{"system": {"log": {"mask": ["/input/call/arguments/to"]}}}`},
		"data in its folder": {"system/log/data.yaml": "mask: [/input/call/arguments/to]\n"},
		"the package above":  {"log.rego": "package system\n\nlog.mask contains \"/input/call/arguments/to\"\n"},
		"an object above":    {"log.rego": "package system\n\nlog := {\"mask\": [\"/input/call/arguments/to\"]}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := openMask(t, 0, files)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := g.LogMask(t.Context(), json.RawMessage(logEvent)); string(got) != want || err != nil {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	g, err := openMask(t, 0, map[string]string{"data.json": `{"system": {"log": {"masks": ["/input/call/arguments/to"]}}}`})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.LogMask(t.Context(), json.RawMessage(logEvent)); err == nil {
		t.Error("data under system.log that says nothing of a mask hides nothing")
	}
}

func TestNoLogMask(t *testing.T) {
	g, err := openMask(t, 0, map[string]string{"other.rego": "package system.other\n\nmask contains \"/input\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.LogMask(t.Context(), json.RawMessage(logEvent)); got != nil || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// Rules of the log are checked against their own input, not the gate's, in every file
// of the package and whatever annotations are there.
func TestLogMaskIsChecked(t *testing.T) {
	for name, c := range map[string]struct{ head, rule, fails string }{
		"event":              {"", `mask contains "/input" if input.input.tool.id == "x"`, ""},
		"all of it":          {"", `mask contains "/input" if { input.labels.id; input.decision_id; input.custom.seq; input.metrics.x; input.bundles.policy; input.requested_by; input.path; input.timestamp; input.result.outcome }`, ""},
		"arguments":          {"", `mask contains "/input" if input.input.call.arguments.any.thing`, ""},
		"the gate's input":   {"", `mask contains "/input" if input.tool.id == "x"`, `input has no "tool"`},
		"typo":               {"", `mask contains "/input" if input.input.tol.id == "x"`, `input.input has no "tol"`},
		"with an annotation": {"# METADATA\n# scope: package\n# title: ours\n", `mask contains "/input" if input.inputs.tool.id == "x"`, `input has no "inputs"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openMask(t, 0, map[string]string{
				"a.rego": "package system.log\n\nother := input.input.run.id\n",
				"b.rego": c.head + "package system.log\n\n" + c.rule + "\n",
				"c.rego": "package system.log.deep\n\nother := input.input.run.id\n",
			})
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, want %q", err, c.fails)
			}
		})
	}
}

// The host's own log is read by more people than the ledger.
func TestHostLogQuotesNothingThatIsMasked(t *testing.T) {
	const fails = "package awaken.policy\n\nallow contains \"x\" if to_number(input.call.arguments.password) > 1\n"
	const mask = "package system.log\n\nmask contains \"/input/call/arguments/password\"\n"
	for _, c := range []struct {
		policy string
		masked bool
	}{{fails, false}, {fails, true}} {
		var l logs
		o := options(t, c.policy)
		if c.masked {
			write(t, filepath.Join(o.Paths[0], "mask.rego"), mask)
		}
		o.Logger = l.logger()
		d := decide(t, open(t, o), query("read", `{"password":"hunter2"}`))
		if d.Reasons[0].Code != ReasonEvalError || !strings.Contains(d.Reasons[0].Detail, "hunter2") {
			t.Fatalf("%+v", d.Reasons)
		}
		if strings.Contains(l.String(), "hunter2") == c.masked || !strings.Contains(l.String(), "policy.rego:3") {
			t.Errorf("masked %t:\n%s", c.masked, l.String())
		}
	}
}
