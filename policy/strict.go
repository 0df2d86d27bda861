package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// unindexable are built-ins for which OPA skips a rule by index when the value is
// no string, where evaluating it would be an error. Skipped, "not" turns the
// failure into a match: with
//
//	bad if startswith(input.call.arguments.path, "/etc")
//	allow if not bad
//
// a list as path would be allowed. The value is whether it is known what the index
// needs so that nothing is hidden: a string as the first operand, when the second is
// a constant. Not so for glob.match, whose pattern may be an error too.
var unindexable = map[string]bool{
	ast.StartsWith.Name:     true,
	ast.EndsWith.Name:       true,
	ast.AnyPrefixMatch.Name: true,
	ast.AnySuffixMatch.Name: true,
	ast.GlobMatch.Name:      false,
}

// textParts are parts of the input that rules are indexed by as if they were strings. For
// an input in which one of them is something else, nothing may be indexed.
type textParts struct{ refs []ast.Ref }

// odd reports whether one of them is there and no string.
func (t *textParts) odd(input ast.Value) bool {
	for _, r := range t.refs {
		if v, err := input.Find(r[1:]); err == nil {
			if _, ok := v.(ast.String); !ok {
				return true
			}
		}
	}
	return false
}

func (t *textParts) add(r ast.Ref) {
	if !slices.ContainsFunc(t.refs, func(x ast.Ref) bool { return x.Equal(r) }) {
		t.refs = append(t.refs, r)
	}
}

// evaluateFully keeps those built-ins out of the compiler's indices, so that strict
// errors are strict, except where they look at a part of the input that it adds to
// indexed; nil means no exception. An expression with a "with" modifier is not
// indexed; one is there while indices are built, and is gone before anything is
// evaluated.
func evaluateFully(c *ast.Compiler, indexed *textParts) *ast.Compiler {
	var marked []*ast.Expr
	mark := func(c *ast.Compiler) *ast.Error {
		exceptions := indexed != nil && !replacesInput(c)
		for _, m := range c.Modules {
			// Rules are indexed by what stands in their bodies, at the top.
			rules := map[*ast.Expr]*ast.Rule{}
			ast.WalkRules(m, func(r *ast.Rule) bool {
				for _, e := range r.Body {
					rules[e] = r
				}
				return false
			})
			ast.WalkExprs(m, func(e *ast.Expr) bool {
				op := e.Operator()
				if op == nil || len(e.With) > 0 {
					return false
				}
				known, is := unindexable[op.String()]
				if !is {
					return false
				}
				if r := rules[e]; exceptions && known && r != nil {
					if part := textOperand(r, e); part != nil {
						indexed.add(part)
						return false
					}
				}
				e.With = []*ast.With{{Target: ast.NewTerm(ast.InputRootRef), Value: ast.NullTerm()}}
				marked = append(marked, e)
				return false
			})
		}
		return nil
	}
	unmark := func(*ast.Compiler) *ast.Error {
		for _, e := range marked {
			e.With = nil
		}
		return nil
	}
	return c.
		WithStageAfterID(ast.StageCheckDeprecatedBuiltins, ast.CompilerStageDefinition{
			Name: "KeepStrict", MetricName: "keep_strict", Stage: mark,
		}).
		WithStageAfterID(ast.StageBuildRuleIndices, ast.CompilerStageDefinition{
			Name: "KeptStrict", MetricName: "kept_strict", Stage: unmark,
		})
}

// replacesInput reports whether a rule is evaluated with another input than the one
// that was asked about.
func replacesInput(c *ast.Compiler) bool {
	found := false
	for _, m := range c.Modules {
		ast.WalkExprs(m, func(e *ast.Expr) bool {
			for _, w := range e.With {
				if r, ok := w.Target.Value.(ast.Ref); ok && r.HasPrefix(ast.InputRootRef) {
					found = true
				}
			}
			return found
		})
	}
	return found
}

// textOperand returns the part of the input that the first operand of e is, when that
// can be told from the rule's body and the second is constant text; else nil.
func textOperand(rule *ast.Rule, e *ast.Expr) ast.Ref {
	if e.Negated || len(e.Operands()) != 2 || !constantText(e.Operand(1)) {
		return nil
	}
	switch v := e.Operand(0).Value.(type) {
	case ast.Ref:
		return inputPart(v)
	case ast.Var:
		// The compiler gives what is not simple a name of its own, once. An argument
		// is what the caller says.
		if slices.ContainsFunc(rule.Head.Args, func(arg *ast.Term) bool { return mentions(arg, v) }) {
			return nil
		}
		var part ast.Ref
		for _, other := range rule.Body {
			if other == e || !mentions(other, v) {
				continue
			}
			if unindexableExpr(other) {
				continue // another look at the same value
			}
			r := namedPart(other, v)
			if r == nil || part != nil {
				return nil
			}
			part = r
		}
		return part
	}
	return nil
}

func unindexableExpr(e *ast.Expr) bool {
	op := e.Operator()
	if op == nil {
		return false
	}
	_, is := unindexable[op.String()]
	return is
}

func mentions(x any, v ast.Var) bool {
	found := false
	ast.WalkVars(x, func(other ast.Var) bool {
		found = found || other.Equal(v)
		return found
	})
	return found
}

// namedPart returns the part of the input that e gives the name v.
func namedPart(e *ast.Expr, v ast.Var) ast.Ref {
	if e.Negated || len(e.With) > 0 || !e.IsEquality() {
		return nil
	}
	for i := range 2 {
		if name, ok := e.Operand(i).Value.(ast.Var); ok && name.Equal(v) {
			if r, ok := e.Operand(1 - i).Value.(ast.Ref); ok {
				return inputPart(r)
			}
		}
	}
	return nil
}

func inputPart(r ast.Ref) ast.Ref {
	if r.HasPrefix(ast.InputRootRef) && r.IsGround() && len(r) > 1 {
		return r
	}
	return nil
}

// constantText reports whether t is a string, or a list or set of nothing else.
func constantText(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.String:
		return true
	case *ast.Array:
		return !v.Until(func(x *ast.Term) bool { _, ok := x.Value.(ast.String); return !ok })
	case ast.Set:
		return !v.Until(func(x *ast.Term) bool { _, ok := x.Value.(ast.String); return !ok })
	}
	return false
}
