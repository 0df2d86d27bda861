package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// enums are the parts of the input that have one of a few values, by reference.
var enums = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	var walk func(*schema, ast.Ref)
	walk = func(s *schema, at ast.Ref) {
		if s.enum != nil {
			out[at.String()] = s.enum
		}
		for _, m := range s.properties {
			if p, ok := m.value.(*schema); ok {
				walk(p, at.Append(ast.StringTerm(m.name)))
			}
		}
	}
	walk(schemaOf(reflect.TypeFor[Input]()), ast.InputRootRef)
	return out
})

// checkValues refuses to compare a part of the input with a value that it never has,
// which OPA's compiler takes: the rule would match never, or always.
func checkValues(modules map[string]*ast.Module) Problems {
	var problems Problems
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		ast.WalkExprs(modules[file], func(e *ast.Expr) bool {
			c, ok := comparisonOf(e)
			if !ok || c.op != "equal" && c.op != "neq" {
				return false
			}
			known := enums()[c.of.String()]
			have, isText := c.to.(ast.String)
			if known == nil || !isText || slices.Contains(known, string(have)) {
				return false
			}
			p := Problem{File: file, Message: fmt.Sprintf("%s is never %q", c.of, clip(string(have), 80))}
			if e.Location != nil {
				p.Line, p.Col = e.Location.Row, e.Location.Col
			}
			if near := nearest(string(have), known, 2); near != "" {
				p.Message += fmt.Sprintf("; did you mean %q?", near)
			} else {
				p.Message += "; it is one of " + strings.Join(known, ", ")
			}
			problems = append(problems, p)
			return false
		})
	}
	return problems
}
