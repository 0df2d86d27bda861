package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// unused warns of helpers that no rule refers to: what they were to guard is not. The
// rules that the host asks are used, and so is the mask of the log.
func unused(modules map[string]*ast.Module) Problems {
	var refs []string
	eachReference(modules, func(ref ast.Ref) { refs = append(refs, ref.String()) })
	slices.Sort(refs)
	refs = slices.Compact(refs)
	var ws Problems
	seen := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		pkg := m.Package.Path.String()
		for _, r := range m.Rules {
			name := ruleName(r)
			if pkg == policyPackage && slices.Contains(ruleNames, name) {
				continue
			}
			path := m.Package.Path.Extend(r.Head.Ref().GroundPrefix()).String()
			if within(path, maskPoint) || within(maskPoint, path) {
				continue
			}
			// A reference may be to a part of it, or to something around it.
			if seen[path] || slices.ContainsFunc(refs, func(ref string) bool { return within(ref, path) || within(path, ref) }) {
				continue
			}
			seen[path] = true
			ws = append(ws, Problem{File: file, Line: r.Location.Row, Col: r.Location.Col, Message: fmt.Sprintf(
				"rule %s is used by nothing; remove it, or use it", strings.TrimPrefix(path, "data."))})
		}
	}
	return ws
}
