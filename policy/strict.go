package policy

import "github.com/open-policy-agent/opa/v1/ast"

// unindexable are built-ins for which OPA skips a rule by index when the value is
// no string, where evaluating it would be an error. Skipped, "not" turns the
// failure into a match: with
//
//	bad if startswith(input.call.arguments.path, "/etc")
//	allow if not bad
//
// a list as path would be allowed.
var unindexable = map[string]bool{
	ast.StartsWith.Name:     true,
	ast.EndsWith.Name:       true,
	ast.AnyPrefixMatch.Name: true,
	ast.AnySuffixMatch.Name: true,
	ast.GlobMatch.Name:      true,
}

// evaluateFully keeps those built-ins out of the compiler's indices, so that strict
// errors are strict. An expression with a "with" modifier is not indexed; one is
// there while indices are built, and is gone before anything is evaluated.
func evaluateFully(c *ast.Compiler) *ast.Compiler {
	var marked []*ast.Expr
	mark := func(c *ast.Compiler) *ast.Error {
		for _, m := range c.Modules {
			ast.WalkExprs(m, func(e *ast.Expr) bool {
				if op := e.Operator(); op != nil && unindexable[op.String()] && len(e.With) == 0 {
					e.With = []*ast.With{{Target: ast.NewTerm(ast.InputRootRef), Value: ast.NullTerm()}}
					marked = append(marked, e)
				}
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
