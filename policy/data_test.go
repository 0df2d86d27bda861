package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

// Of two values for a key one reader takes the first, another the last.
func TestKeysOfDataAreThereOnce(t *testing.T) {
	tests := []struct {
		file, text string
		line       int
		says       string // empty: accepted
	}{
		{"d.json", `{"a":1,"a":2}`, 1, "sets the key a twice"},
		{"d.json", "{\n \"x\": {\"b\": [1, {\"c\": 1,\n \"c\": 1}]}}", 3, "sets the key x.b[1].c twice"},
		{"d.json", `{"a":1,"\u0061":2}`, 1, "sets the key a twice"},
		{"d.json", `{"":1,"":2}`, 1, "twice"},
		{"d.json", `{"a":{"a":1},"b":[{"a":1},{"a":2}],"c":"a","A":1}`, 0, ""},
		{"d.json", `{"a":["a","a",{"a":"a"}]}`, 0, ""},
		{"d.yaml", "a: 1\nb: 2\na: 3\n", 3, "sets the key a twice"},
		{"d.yml", "x:\n  - y: {a: 1, a: 2}\n", 2, "sets the key x[0].y.a twice"},
		{"d.yaml", "1: a\n\"1\": b\n", 2, "sets the key 1 twice"},
		{"d.yaml", "0x1: a\n1: b\n", 2, "sets the key 1 twice"},
		{"d.yaml", "true: a\n\"true\": b\n", 2, "sets the key true twice"},
		{"d.yaml", "&k a: 1\n*k : 2\n", 2, "sets the key a twice"},
		{"d.yaml", "{\t\"a\": 1,\n\t\"a\": 2}", 2, "sets the key a twice"}, // JSON
		{"d.yaml", "a: 1\n---\na: 2\n", 2, "has a second document"},
		{"d.yaml", "base: &b {x: 1}\nmore: {<<: *b, x: 2}\nlist: [*b, *b]\n", 0, ""},
		{"d.yaml", "on: 1\noff: 2\n", 0, ""},
		{"d.yaml", "--- \na: 1\n", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			o := options(t, allowAll)
			o.Paths = []string{folder(t, map[string]string{"policy.rego": "package awaken.policy\n" + allowAll, tt.file: tt.text})}
			if tt.says == "" {
				open(t, o)
				return
			}
			ps := problemsOf(t, o)
			if len(ps) != 1 || !strings.HasSuffix(ps[0].File, tt.file) || ps[0].Line != tt.line || !strings.Contains(ps[0].Message, tt.says) {
				t.Errorf("got %v, want line %d with %q", ps, tt.line, tt.says)
			}
		})
	}
}

// A document that is taken has no key twice: written anew by its keys it has as many
// as before.
func FuzzRepeatedKey(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `{"a":{"b":[1,{"c":2}]}}`, "a: 1\na: 2", "a: &x {b: 1}\nc: *x", "a: {b: [1, {c: 2}]}", "- 1", "---\n---", "\"", `[[{}]]`, `{"a"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		repeatedKey("d.yaml", []byte(s), false)
		if p := repeatedKey("d.json", []byte(s), true); p != nil {
			if p.Line < 1 || p.Line > 1+strings.Count(s, "\n") {
				t.Fatalf("%q: line %d", s, p.Line)
			}
			return
		}
		var v any
		if json.Unmarshal([]byte(s), &v) != nil {
			return
		}
		if written, kept := keysWritten(t, s), keysOf(v); written != kept {
			t.Fatalf("%q has %d keys, and %d are kept", s, written, kept)
		}
	})
}

// keysWritten counts colons outside of strings.
func keysWritten(t *testing.T, s string) int {
	t.Helper()
	n, inside := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case inside && s[i] == '\\':
			i++
		case s[i] == '"':
			inside = !inside
		case s[i] == ':' && !inside:
			n++
		}
	}
	return n
}

func keysOf(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += 1 + keysOf(e)
		}
	case []any:
		for _, e := range v {
			n += keysOf(e)
		}
	}
	return n
}
