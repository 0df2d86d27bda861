package policy

import (
	"context"
	"errors"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/awaken-agents/awaken-host/batch"
)

// windows are those of InputWindows, in its order.
var windows = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}

// lookBack asks what the principal called before.
func lookBack(ctx context.Context, q *batch.Query) (*InputWindows, error) {
	if q.Recent == nil {
		return nil, errors.New("nobody knows what the principal called before")
	}
	counts, err := q.Recent(ctx, windows...)
	if err != nil {
		return nil, err
	}
	return &InputWindows{dict(counts[0]), dict(counts[1]), dict(counts[2]), dict(counts[3])}, nil
}

// looksBack reports whether a decision can depend on input.history.principal. Only
// then is it asked for: it is counted for each call, and read from the ledger first.
// Where a rule takes a part of the input that is chosen by value, or as a whole, it
// may.
func looksBack(c *ast.Compiler) bool {
	seen := map[*ast.Rule]bool{}
	var reach func(*ast.Rule) bool
	reach = func(r *ast.Rule) bool {
		if seen[r] {
			return false
		}
		seen[r] = true
		if namesPrincipalHistory(r) {
			return true
		}
		for dep := range c.Graph.Dependencies(r) {
			if next, ok := dep.(*ast.Rule); ok && reach(next) {
				return true
			}
		}
		return false
	}
	for _, r := range c.GetRulesExact(ast.MustParseRef(entryPoint)) {
		if reach(r) {
			return true
		}
	}
	return false
}

func namesPrincipalHistory(r *ast.Rule) bool {
	found := false
	var walk *ast.GenericVisitor
	walk = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Var:
			found = found || x.Equal(ast.InputRootDocument.Value)
		case ast.Ref:
			parts := x
			if len(x) > 0 && x[0].Equal(ast.InputRootDocument) {
				found = found || mayBe(x, "history", "principal")
				parts = x[1:] // what it is indexed by
			}
			for _, t := range parts {
				walk.Walk(t)
			}
			return true
		}
		return found
	})
	walk.Walk(r)
	return found
}

// mayBe reports whether a reference into input can be to that part of it, or to something
// around it or in it.
func mayBe(ref ast.Ref, path ...string) bool {
	for i, name := range path {
		if i+1 >= len(ref) {
			return true
		}
		if s, ok := ref[i+1].Value.(ast.String); ok && string(s) != name {
			return false
		}
	}
	return true
}
