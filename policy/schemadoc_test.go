package policy

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The table of the input in docs/POLICIES.md is that of the schema.
func TestInputIsDocumented(t *testing.T) {
	var rows strings.Builder
	var walk func(*schema, string)
	walk = func(s *schema, at string) {
		for _, m := range s.properties {
			p, ok := m.value.(*schema)
			if !ok {
				t.Fatalf("%s%s has no schema", at, m.name)
			}
			typ := p.typ
			switch {
			case p.items != nil:
				typ = "list of " + p.items.typ
			case p.values != nil:
				typ = "map to " + p.values.typ
			case p.enum != nil:
				typ = "`" + strings.Join(p.enum, "`, `") + "`"
			}
			fmt.Fprintf(&rows, "| `%s%s` | %s | %s |\n", at, m.name, typ, p.doc)
			walk(p, at+m.name+".")
		}
	}
	walk(schemaOf(reflect.TypeFor[Input]()), "")
	doc, err := os.ReadFile("../docs/POLICIES.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "| name | type | what it is |\n|---|---|---|\n"+rows.String()) {
		t.Errorf("docs/POLICIES.md lacks this table:\n%s", rows.String())
	}
}
