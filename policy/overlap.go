package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// alternative is one way for a complete rule or a function to have a value.
type alternative struct {
	first *ast.Rule // of its chain of else
	file  string
	value *ast.Term // the same for every call
	body  ast.Body
	args  string
}

// overlaps finds complete rules and functions that give two values: certain are those
// that do whenever they match, possible those that do where both match. OPA finds
// neither before a call comes, and then the call is blocked.
func overlaps(modules map[string]*ast.Module) (certain, possible Problems) {
	groups := map[string][]alternative{}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		for _, first := range m.Rules {
			if first.Default || first.Head.Key != nil || !first.Head.Ref().IsGround() {
				continue
			}
			path := m.Package.Path.Extend(first.Head.Ref()).String()
			for r := first; r != nil; r = r.Else {
				if r.Head.Value != nil && constant(r.Head.Value) {
					groups[path] = append(groups[path], alternative{first, file, r.Head.Value, r.Body, fmt.Sprint(first.Head.Args)})
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(groups)) {
		alternatives := groups[path]
		for j, b := range alternatives {
			for _, a := range alternatives[:j] {
				if a.first == b.first || a.value.Equal(b.value) || a.args != b.args {
					continue
				}
				p := Problem{File: b.file, Line: b.first.Location.Row, Col: b.first.Location.Col}
				if a.body.Equal(b.body) {
					p.Message = fmt.Sprintf("%s is %s here and %s at %s:%d under the same conditions: every call that asks for it would be blocked; remove one",
						ruleName(b.first), short(b.value), short(a.value), a.file, a.first.Location.Row)
					certain = append(certain, p)
				} else if !exclude(a.body, b.body) {
					p.Message = fmt.Sprintf("%s is %s here and %s at %s:%d: a call for which both match is blocked; let one be its default or its else, or let their conditions exclude each other",
						ruleName(b.first), short(b.value), short(a.value), a.file, a.first.Location.Row)
					possible = append(possible, p)
				}
				break
			}
		}
	}
	return certain, possible
}

func short(t *ast.Term) string { return clip(t.String(), 60) }

// exclude reports whether two bodies cannot both be true: one has a condition that the
// other has turned around, or they compare the same thing with values that rule each
// other out.
func exclude(a, b ast.Body) bool {
	for _, x := range a {
		for _, y := range b {
			if len(x.With)+len(y.With) > 0 {
				continue
			}
			if x.Negated != y.Negated && sameCondition(x, y) {
				return true
			}
			if p, ok := comparisonOf(x); ok {
				if q, ok := comparisonOf(y); ok && p.of.Equal(q.of) && p.excludes(q) {
					return true
				}
			}
		}
	}
	return false
}

func sameCondition(x, y *ast.Expr) bool {
	x, y = x.Copy(), y.Copy()
	x.Negated, y.Negated, x.Index, y.Index = false, false, 0, 0
	return x.Equal(y)
}

// comparison is of a reference with a value that is written out.
type comparison struct {
	of *ast.Term
	op string // "equal", "neq", "lt", "lte", "gt" or "gte"
	to ast.Value
}

// comparisonOf reads an expression, under its opposite where it is negated.
func comparisonOf(e *ast.Expr) (comparison, bool) {
	if !e.IsCall() || len(e.Operands()) != 2 {
		return comparison{}, false
	}
	op := e.Operator().String()
	switch op {
	case "eq":
		op = "equal"
	case "equal", "neq", "lt", "lte", "gt", "gte":
	default:
		return comparison{}, false
	}
	of, to := e.Operand(0), e.Operand(1)
	if constant(of) {
		of, to = to, of
		op = cmp.Or(map[string]string{"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}[op], op)
	}
	ref, ok := of.Value.(ast.Ref)
	if !ok || !ref.IsGround() || !constant(to) {
		return comparison{}, false
	}
	if e.Negated {
		op = map[string]string{"equal": "neq", "neq": "equal", "lt": "gte", "lte": "gt", "gt": "lte", "gte": "lt"}[op]
	}
	return comparison{of, op, to.Value}, true
}

// excludes reports whether no value satisfies both: values are in one order, which is
// that of OPA's comparisons.
func (p comparison) excludes(q comparison) bool {
	c := p.to.Compare(q.to)
	switch {
	case p.op == "equal" && q.op == "equal":
		return c != 0
	case p.op == "equal" && q.op == "neq", p.op == "neq" && q.op == "equal":
		return c == 0
	case p.op == "equal":
		return !holds(c, q.op)
	case q.op == "equal":
		return !holds(-c, p.op)
	case isBelow(p.op) && isAbove(q.op):
		return c < 0 || c == 0 && (p.op == "lt" || q.op == "gt")
	case isAbove(p.op) && isBelow(q.op):
		return c > 0 || c == 0 && (p.op == "gt" || q.op == "lt")
	}
	return false
}

func isBelow(op string) bool { return op == "lt" || op == "lte" }
func isAbove(op string) bool { return op == "gt" || op == "gte" }

// holds reports whether a value that compares as c with the operand satisfies op.
func holds(c int, op string) bool {
	switch op {
	case "lt":
		return c < 0
	case "lte":
		return c <= 0
	case "gt":
		return c > 0
	case "gte":
		return c >= 0
	}
	return true
}
