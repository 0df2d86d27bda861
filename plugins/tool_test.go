package plugins

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins/strictjson"
)

// toolOf returns the only tool of a plugin whose [[tool]] has these extra lines.
func toolOf(t testing.TB, lines string) *Tool {
	t.Helper()
	s, err := NewSnapshot([]*Plugin{loaded(t, manifestOf("p", "t")+lines, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Tools()[0]
}

const personSchema = `
input_schema = { type = "object", additionalProperties = false, required = ["name"], properties = { name = { type = "string", maxLength = 10 }, age = { type = "integer", minimum = 0 }, tags = { type = "array", items = { enum = ["a", "b"] } }, more = {} } }
`

func TestCheckArguments(t *testing.T) {
	deep := func(n int) string {
		return `{"name":"x","more":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	for _, c := range []struct{ name, args, want string }{
		{"good", `{"name":"Ada","age":36,"tags":["a"]}`, ""},
		{"good with space", " {\"name\":\"Ada\"}\n", ""},
		{"good pair", `{"name":"\ud83d\ude00"}`, ""},
		{"good escaped backslash", `{"name":"\\ud83d"}`, ""},
		{"good big integer", `{"name":"x","age":123456789012345678901234567890}`, ""},
		{"good depth", deep(strictjson.MaxDepth - 2), ""},
		{"empty", ``, "ends too early"},
		{"blank", ` `, "ends too early"},
		{"broken", `{"name":`, "ends too early"},
		{"broken key", `{name:1}`, "not valid JSON at byte"},
		{"nan", `{"name":"x","age":NaN}`, "not valid JSON at byte"},
		{"no comma", `{"name":"x" "age":1}`, "not valid JSON at byte"},
		{"comma at end", `{"name":"x",}`, "not valid JSON"},
		{"trailing", `{"name":"x"} {}`, "something follows the JSON value"},
		{"trailing text", `{"name":"x"}x`, "something follows the JSON value"},
		{"byte order mark", "\ufeff{\"name\":\"x\"}", "not valid JSON"},
		{"array", `[]`, "must be a JSON object"},
		{"null", `null`, "must be a JSON object"},
		{"string", `"{}"`, "must be a JSON object"},
		{"not utf8", "{\"name\":\"\xff\"}", "not UTF-8"},
		{"twice", `{"name":"a","name":"b"}`, "/name: the key appears twice"},
		{"twice, escaped", `{"name":"a","n\u0061me":"b"}`, "/name: the key appears twice"},
		{"twice, deep", `{"name":"a","more":[{"x":{"y":1,"y":2}}]}`, "/more/0/x/y: the key appears twice"},
		{"lone surrogate", `{"name":"\ud83d"}`, "lone surrogate escape at byte 9"},
		{"low surrogate", `{"name":"\ude00\ud83d"}`, "lone surrogate"},
		{"lone in key", `{"name":"x","more":{"\ud800":1}}`, "lone surrogate"},
		{"too deep", deep(strictjson.MaxDepth), "nested deeper than"},
		{"much too deep", deep(100_000), "nested deeper than"},
		{"huge exponent", `{"name":"x","age":1e1000000000}`, "/age: a number's exponent is out of range"},
		{"beyond double", `{"name":"x","age":1e309}`, "/age: a number is out of range"},
		{"long number", `{"name":"x","age":` + strings.Repeat("1", 500) + `}`, "longer than"},
		{"many values", `{"name":"x","more":[` + strings.Repeat("1,", strictjson.MaxValues) + `1]}`, "more than 250000 values"},
		{"missing", `{}`, "/: missing property 'name' (required)"},
		{"type", `{"name":7}`, "/name: got number, want string (type)"},
		{"minimum", `{"name":"x","age":-1}`, "/age: "},
		{"fraction", `{"name":"x","age":1.5}`, "/age: got number, want integer (type)"},
		{"unknown", `{"name":"x","target":"sandbox"}`, "additional properties 'target' not allowed (additionalProperties)"},
		{"enum", `{"name":"x","tags":["a","c"]}`, "/tags/1: "},
		{"several", `{"name":7,"age":"x"}`, "; "},
		{"long value", `{"name":"` + strings.Repeat("ä", 1<<20) + `"}`, "/name: "},
		{"long key", `{"name":"x","` + strings.Repeat("k", 1<<20) + `":1}`, "additional properties"},
		{"many failures", `{"name":"x","tags":[` + strings.Repeat("1,", 10000) + `1]}`, "and more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := toolOf(t, personSchema).CheckArguments([]byte(c.args))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "p__t") {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if len(err.Error()) > 2500 || !utf8.ValidString(err.Error()) {
				t.Errorf("%d bytes, valid %v", len(err.Error()), utf8.ValidString(err.Error()))
			}
		})
	}
	if err := toolOf(t, "").CheckArguments([]byte(`{"anything":[1,{}]}`)); err != nil {
		t.Errorf("without a schema: %v", err)
	}
	if err := toolOf(t, "").CheckArguments([]byte(`[1]`)); err == nil {
		t.Error("without a schema an array is accepted")
	}
}

// A schema whose checks explode must end: the references here double at every level
// of schema or value, and without a bound the test would not return.
func TestExplodingSchemas(t *testing.T) {
	var defs strings.Builder
	for i := range 40 {
		fmt.Fprintf(&defs, "d%d = { anyOf = [{ \"$ref\" = \"#/$defs/d%d\" }, { \"$ref\" = \"#/$defs/d%d\" }] }, ", i, i+1, i+1)
	}
	wide := "input_schema = { type = \"object\", \"$ref\" = \"#/$defs/d0\", \"$defs\" = { " + defs.String() + " d40 = { required = [\"nothing\"] } } }\n"
	recursive := `input_schema = { type = "object", properties = { a = { "$ref" = "#/$defs/n" } }, "$defs" = { n = { anyOf = [{ properties = { a = { "$ref" = "#/$defs/n" } }, required = ["x"] }, { properties = { a = { "$ref" = "#/$defs/n" } }, required = ["x"] }] } } }
`
	nested := strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50)
	for name, c := range map[string]struct{ schema, args string }{
		"in the schema": {wide, `{}`}, "in the value": {recursive, nested},
	} {
		tool := toolOf(t, c.schema)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := tool.CheckArguments([]byte(c.args)); err == nil || !strings.Contains(err.Error(), "too complex") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
	}
	// Nor does a schema that is only odd: drafts, anchors, ids and recursion work.
	for _, lines := range []string{
		`input_schema = { type = "object", "$schema" = "http://json-schema.org/draft-07/schema#", "$ref" = "#/definitions/a", definitions = { a = { required = ["x"] } } }`,
		`input_schema = { type = "object", "$id" = "https://example.test/s", "$ref" = "https://example.test/s#/$defs/a", "$defs" = { a = { required = ["x"] } } }`,
		`input_schema = { type = "object", "$ref" = "#a", "$defs" = { a = { "$anchor" = "a", required = ["x"] } } }`,
		`input_schema = { type = "object", required = ["x"], properties = { y = { "$ref" = "#" } } }`,
		`input_schema = { type = "object", required = ["x"], properties = { y = { "$ref" = "https://json-schema.org/draft/2020-12/schema" } } }`,
	} {
		tool := toolOf(t, lines+"\n")
		if err := tool.CheckArguments([]byte(`{"x":1,"y":{"x":2}}`)); err != nil {
			t.Errorf("%s: %v", lines, err)
		}
		if err := tool.CheckArguments([]byte(`{"z":1}`)); err == nil || !strings.Contains(err.Error(), "missing property 'x'") {
			t.Errorf("%s: %v", lines, err)
		}
	}
	// The count starts anew for each check.
	tool := toolOf(t, personSchema)
	for range 12 {
		args := `{"name":"x","tags":["a"` + strings.Repeat(`,"a"`, 50_000) + `]}`
		if err := tool.CheckArguments([]byte(args)); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckOutput(t *testing.T) {
	js := func(s string) batch.ContentBlock { return batch.JSONBlock(json.RawMessage(s)) }
	text := batch.TextBlock("note")
	for _, c := range []struct {
		name   string
		blocks []batch.ContentBlock
		want   string
	}{
		{"fits", []batch.ContentBlock{js(`{"n":1}`)}, ""},
		{"fits beside text", []batch.ContentBlock{text, js(`{"n":1}`)}, ""},
		{"all fit", []batch.ContentBlock{js(`{"n":1}`), js(`{"n":2}`)}, ""},
		{"one does not", []batch.ContentBlock{js(`{"n":1}`), js(`{"n":"2"}`)}, "block 1: /n: got string, want integer"},
		{"no json", []batch.ContentBlock{text}, "no json block"},
		{"nothing", nil, "no json block"},
		{"broken", []batch.ContentBlock{js(`{"n":`)}, "block 0: not valid JSON"},
		{"key twice", []batch.ContentBlock{js(`{"n":1,"n":2}`)}, "appears twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool := toolOf(t, `output_schema = { type = "object", required = ["n"], properties = { n = { type = "integer" } } }
encoding = { output = "blocks" }
`)
			err := tool.CheckOutput(&batch.Output{Content: c.blocks})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if err := toolOf(t, "").CheckOutput(&batch.Output{}); err != nil {
		t.Errorf("without a schema: %v", err)
	}
}

func TestCheckState(t *testing.T) {
	tool := toolOf(t, "[[state]]\nkey = \"counter\"\nschema = { type = \"integer\" }\n[[state]]\nkey = \"notes\"\n")
	for _, c := range []struct{ key, value, want string }{
		{"counter", `3`, ""},
		{"counter", `"3"`, `state key "counter" of plugin p: /: got string, want integer`},
		{"counter", ``, "not valid JSON"},
		{"notes", `[{"any":null}]`, ""},
		{"notes", `[{"a":1,"a":2}]`, "appears twice"},
		{"notes", `[1] 2`, "something follows"},
		{"countr", `1`, `declares no state key "countr", did you mean "counter"?`},
		{"", `1`, "declares no state key"},
	} {
		err := tool.CheckState(c.key, json.RawMessage(c.value))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s = %s: %v, want %q", c.key, c.value, err, c.want)
		}
	}
	if err := tool.CheckState("counter", nil); err != nil {
		t.Errorf("deleting a declared key: %v", err)
	}
	if err := tool.CheckState("countr", nil); err == nil {
		t.Error("deleting a key that is not declared passed")
	}
}

func BenchmarkCheckArguments(b *testing.B) {
	tool := toolOf(b, personSchema)
	args := []byte(`{"name":"Ada","age":36,"tags":["a","b"]}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := tool.CheckArguments(args); err != nil {
			b.Fatal(err)
		}
	}
}
