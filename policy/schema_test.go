package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/awaken-agents/awaken-host/batch"
)

// A part of the input that does not exist is found before any call.
func TestInputTypos(t *testing.T) {
	tests := []struct{ rule, says string }{
		{`allow if input.tol.id == "x"`, `2:10: input has no "tol"; did you mean "tool"?`},
		{`allow if input.tool.idd == "x"`, `input.tool has no "idd"; did you mean "id"?`},
		{`allow if input["tool"].idd == "x"`, `input.tool has no "idd"; did you mean "id"?`},
		{`allow if input.call.argument.x == 1`, `input.call has no "argument"; did you mean "arguments"?`},
		{`allow if input.run.lables.team == "x"`, `input.run has no "lables"; did you mean "labels"?`},
		{`allow if input.tool.capabilities.host == []`, `input.tool.capabilities has no "host"; did you mean "hosts"?`},
		{`allow if input.history.principle["1h"].x > 1`, `input.history has no "principle"; did you mean "principal"?`},
		{`allow if input.history.principal["2h"].x > 1`, `input.history.principal has no "2h"; did you mean "1h"?`},
		{`allow if input.approvl.by[_] == "alice"`, `input has no "approvl"; did you mean "approval"?`},
		{`allow if not input.approval.from`, `input.approval has no "from"; `},
		{`allow if input.nothing_like_it`, `input has no "nothing_like_it"; it has approval, call, history, now, now_ns, run, tool`},
		{"t := input.tool\nallow if t.plugni == \"x\"", `data.awaken.policy.t has no "plugni"; did you mean "plugin"?`},
		{"f(t) if t.plugin == \"x\"\nallow if f(input.tol)", `input has no "tol"; did you mean "tool"?`},
		{`allow if { some p in input.runs; p }`, `input has no "runs"; did you mean "run"?`},
		{`allow if input.run.step == "3"`, "match error"},
		{`allow if startswith(input.run.step, "3")`, "invalid argument"},
		{`allow if input.tool.target.brain`, "2:10: undefined ref: input.tool.target.brain"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			ps := problemsOf(t, options(t, tt.rule))
			if got := ps.Error(); !strings.Contains(got, tt.says) && !strings.Contains(got, strings.TrimPrefix(tt.says, "2:10: ")) {
				t.Errorf("%q is not in %s", tt.says, got)
			}
			if ps[0].Line < 2 || filepath.Base(ps[0].File) != "policy.rego" {
				t.Errorf("no file and line: %+v", ps[0])
			}
		})
	}
}

// A value that a part of the input never has is found as well.
func TestInputValuesThatNeverAre(t *testing.T) {
	for rule, says := range map[string]string{
		`allow if input.tool.target == "brian"`:                              `2:10: input.tool.target is never "brian"; did you mean "brain"?`,
		`allow if "sandbox " != input.tool.target`:                           `2:10: input.tool.target is never "sandbox "; did you mean "sandbox"?`,
		`allow if not input.approval.kind == "quorum"`:                       `input.approval.kind is never "quorum"; it is one of permission, schedule, external_result`,
		`allow if { some x in [1]; x; input.tool["trusted_by"] = "signed" }`: `input.tool.trusted_by is never "signed"`,
		`allow if count([1 | input.tool.target == "host"]) > 0`:              `input.tool.target is never "host"; it is one of brain, sandbox, client`,
	} {
		if got := problemsOf(t, options(t, rule)); len(got) != 1 || !strings.Contains(got.Error(), says) || got[0].Line != 2 {
			t.Errorf("%s: %v", rule, got)
		}
	}
	open(t, options(t, "allow if input.tool.target == \"brain\"\nblock if input.tool.trusted_by != \"signature\"\nblock if input.tool.id == \"brian\""))
	if n := len(enums()); n != 3 {
		t.Errorf("%d parts with few values", n)
	}
}

// What may hold anything is left alone.
func TestInputThatIsFree(t *testing.T) {
	for _, rule := range []string{
		`allow if input.call.arguments.anything.at[0].all == "x"`,
		`allow if input.tool.annotations["x-vendor"].deep == 1`,
		`allow if input.run.labels.team == "x"`,
		`allow if input.history.run.notes__save > 3`,
		`allow if input.history.principal["1h"].notes__save > 3`,
		`allow if input.tool.capabilities.paths["/workspace"] == "rw"`,
		"allow if {\n\tsome k\n\tinput.run[k] == \"x\"\n}",
		`allow if object.get(input.run, "principal", "") == ""`,
		`allow if not input.approval`,
		`allow if input.tool.signer`,
	} {
		open(t, options(t, rule))
	}
}

// What a policy is asked with fits the schema, whatever is absent.
func TestInputFitsItsSchema(t *testing.T) {
	full := query("save", `{"a":[1,{"b":null}]}`)
	full.Approval = approval("permission", "bob")
	bare := query("mute", `{}`)
	bare.Run = &batch.Run{ID: "r2"}
	for name, q := range map[string]*batch.Query{"full": full, "bare": bare} {
		t.Run(name, func(t *testing.T) {
			g := open(t, options(t, allowAll+"print_it if print(input.history.principal)\nallow contains \"p\" if print_it"))
			if d := decide(t, g, q); d.Outcome != batch.OutcomeAllow {
				t.Fatalf("%+v", d)
			}
			ok, errs := fits(t, inputDocument(t, g, q))
			if !ok {
				t.Errorf("does not fit: %v", errs)
			}
		})
	}
	if ok, _ := fits(t, json.RawMessage(`{"tool":{"idd":"x"}}`)); ok {
		t.Error("the schema fits anything")
	}
}

// inputDocument is what the gate would evaluate for q.
func inputDocument(t testing.TB, g *Gate, q *batch.Query) json.RawMessage {
	t.Helper()
	d := decide(t, g, q)
	var doc map[string]any
	if err := json.Unmarshal(d.Input, &doc); err != nil {
		t.Fatal(err)
	}
	doc["call"].(map[string]any)["arguments"] = json.RawMessage(q.Call.Arguments)
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func fits(t testing.TB, doc json.RawMessage) (bool, any) {
	t.Helper()
	var input, schema any
	if err := util.UnmarshalJSON(doc, &input); err != nil {
		t.Fatal(err)
	}
	if err := util.UnmarshalJSON(InputSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	rs, err := rego.New(
		rego.Query("[ok, errors] := json.match_schema(input.doc, input.schema)"),
		rego.Input(map[string]any{"doc": input, "schema": schema}), rego.StrictBuiltinErrors(true),
	).Eval(t.Context())
	if err != nil || len(rs) != 1 {
		t.Fatal(rs, err)
	}
	return rs[0].Bindings["ok"].(bool), rs[0].Bindings["errors"]
}

// Every part says what it is: the schema is what operators read.
func TestInputSchemaSaysWhatEachPartIs(t *testing.T) {
	var walk func(reflect.Type, string)
	parts := 0
	walk = func(typ reflect.Type, at string) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			parts++
			if f.Tag.Get("doc") == "" {
				t.Errorf("%s.%s has no doc", at, f.Name)
			}
			walk(f.Type, at+"."+f.Name)
		}
	}
	walk(reflect.TypeFor[Input](), "Input")
	if parts < 30 {
		t.Errorf("%d parts", parts)
	}
	var s struct {
		ID         string `json:"$id"`
		Required   []string
		Properties map[string]struct {
			Description          string
			AdditionalProperties *bool
		}
	}
	if err := json.Unmarshal(InputSchema(), &s); err != nil {
		t.Fatal(err)
	}
	if s.ID != InputSchemaID || fmt.Sprint(s.Required) != "[tool call run history now now_ns]" {
		t.Errorf("id %q, required %v", s.ID, s.Required)
	}
	if tool := s.Properties["tool"]; tool.Description == "" || tool.AdditionalProperties == nil || *tool.AdditionalProperties {
		t.Errorf("tool: %+v", tool)
	}
}

// Annotations of OPA's kind narrow what the schema leaves free.
func TestSchemaAnnotations(t *testing.T) {
	annotated := func(schema, rule string) string {
		return "# METADATA\n# schemas:\n#   - input.call.arguments: " + schema + "\n" + rule
	}
	const text = `{"type": "object", "properties": {"text": {"type": "string"}}}`
	open(t, options(t, annotated(text, `allow if input.call.arguments.text == "x"`)))
	if got := problemsOf(t, options(t, annotated(text, `allow if input.call.arguments.txt == "x"`))).Error(); !strings.Contains(got, `input.call.arguments has no "txt"; did you mean "text"?`) {
		t.Error(got)
	}
	open(t, options(t, "# METADATA\n# schemas:\n#   - input: schema.input\nallow if input.tool.id == \"x\""))

	elsewhere := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(elsewhere, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{
		`{"$ref": "file://` + elsewhere + `"}`,
		`{"$ref": "http://127.0.0.1:9/x"}`,
		`{"$ref": "` + elsewhere + `"}`,
		`{"$id": "file://` + elsewhere + `", "$ref": "#/properties"}`,
		`{"type": "object", "properties": {"a": {"anyOf": [{"$ref": "other.json"}]}}}`,
	} {
		if got := problemsOf(t, options(t, annotated(schema, `allow if input.call.arguments.text == "x"`))).Error(); !strings.Contains(got, "would be read from elsewhere") {
			t.Errorf("%s: %s", schema, got)
		}
	}
	open(t, options(t, annotated(`{"$ref": "#/definitions/a", "definitions": {"a": {"type": "object"}}}`, `allow if input.call.arguments.text == "x"`)))
}
