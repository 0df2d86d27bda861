package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// ruleNames are what the base policy reads of package awaken.policy, in the order
// of precedence.
var ruleNames = []string{"block", "require_confirmation", "schedule", "set_result", "allow", "grant"}

// otherNames are what others call these rules, in policies of their own.
var otherNames = map[string]string{
	"deny": "block", "denied": "block", "forbid": "block", "forbidden": "block", "refuse": "block", "reject": "block", "violation": "block",
	"approve": "require_confirmation", "ask": "require_confirmation", "confirm": "require_confirmation",
	"accept": "allow", "permit": "allow",
}

// meantRule is the rule that somebody may have meant by a name, "" if none.
func meantRule(name string) string {
	name = strings.ToLower(name)
	if meant := otherNames[name]; meant != "" {
		return meant
	}
	return nearest(name, ruleNames, 2)
}

const (
	policyPackage = "data.awaken.policy"
	gatePackage   = "data.awaken.gate"
	libPackage    = "data.awaken.lib"
)

// checkRules refuses what the compiler accepts and the gate would pass over in
// silence or could be replaced by: a rule inside the base policy, a misspelt rule
// or package, a rule name used for something that is no rule of its kind.
func checkRules(modules map[string]*ast.Module) Problems {
	var problems Problems
	used := references(modules)
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		pkg := m.Package.Path.String()
		at := func(loc *ast.Location, format string, a ...any) {
			problems = append(problems, Problem{File: file, Line: loc.Row, Col: loc.Col, Message: fmt.Sprintf(format, a...)})
		}
		if within(pkg, libPackage) {
			at(m.Package.Location, "package awaken.lib is the host's own and cannot be added to; use another name for helpers, such as package helpers")
			continue
		}
		if within(pkg, gatePackage) {
			at(m.Package.Location, "package awaken.gate is the host's own and cannot be added to; write package awaken.policy")
			continue
		}
		if i := slices.IndexFunc(ruleNames, func(n string) bool { return within(pkg, policyPackage+"."+n) }); i >= 0 {
			at(m.Package.Location, "this package takes the place of rule %s, and every call would be blocked; write package awaken.policy", ruleNames[i])
			continue
		}
		if near := nearest(pkg, []string{policyPackage, maskPackage}, 2); near != "" && pkg != near && !used[pkg] {
			at(m.Package.Location, "package %s is used by nothing; did you mean %s?", strings.TrimPrefix(pkg, "data."), strings.TrimPrefix(near, "data."))
		}
		for _, r := range m.Rules {
			path := m.Package.Path.Extend(r.Head.Ref().GroundPrefix())
			if within(path.String(), gatePackage) {
				at(r.Location, "this rule adds to package awaken.gate, which is the host's own; write package awaken.policy")
				continue
			}
			if within(path.String(), libPackage) {
				at(r.Location, "this rule adds to package awaken.lib, which is the host's own; write it in a package of another name")
				continue
			}
			if !within(pkg, policyPackage) && within(path.String(), policyPackage) {
				at(r.Location, "this rule adds to package awaken.policy from outside, where it is easily missed; write it in package awaken.policy")
				continue
			}
			if pkg != policyPackage {
				continue
			}
			name := ruleName(r)
			if !slices.Contains(ruleNames, name) {
				if meant := meantRule(name); meant != "" && !used[path.String()] {
					at(r.Location, "rule %s is used by nothing; did you mean %s? If not, give it another name or remove it", name, meant)
				}
				continue
			}
			switch {
			case len(r.Head.Args) > 0:
				at(r.Location, "%s is a function here and would never be asked; write: %s contains … if { … }", name, name)
			case len(r.Head.Ref()) > 1:
				at(r.Location, "%s must be a set; write: %s contains … if { … }", name, name)
			case r.Default && !isFalse(r.Head.Value):
				at(r.Location, "default %s := %s would speak for every call that no rule matches, above all where a rule is mistaken; "+
					"only default %s := false may be written. Write what it is for: %s contains … if { … }", name, clip(r.Head.Value.String(), 80), name, name)
			}
		}
	}
	return problems
}

func isFalse(t *ast.Term) bool { return t != nil && t.Value.Compare(ast.Boolean(false)) == 0 }

// inForce reports whether a rule can ever add an entry: one that only says false,
// as a default does, cannot.
func inForce(r *ast.Rule) bool {
	for ; r != nil; r = r.Else {
		if r.Head.Key != nil || !isFalse(r.Head.Value) {
			return true
		}
	}
	return false
}

// ruleName is the first part of a rule's head: allow in "allow contains …".
func ruleName(r *ast.Rule) string {
	if v, ok := r.Head.Ref()[0].Value.(ast.Var); ok {
		return string(v)
	}
	return ""
}

func within(path, pkg string) bool {
	return path == pkg || strings.HasPrefix(path, pkg+".") || strings.HasPrefix(path, pkg+"[")
}

// references collects every document that some rule refers to, with the packages
// above it. A bare name counts as one of the rule's own package, since files of a
// package share their names; an imported one as what it stands for.
func references(modules map[string]*ast.Module) map[string]bool {
	used := map[string]bool{}
	eachReference(modules, func(ref ast.Ref) {
		for n := 2; n <= len(ref); n++ {
			used[ref[:n].String()] = true
		}
	})
	return used
}

// eachReference calls f with the ground part of each reference of a rule.
func eachReference(modules map[string]*ast.Module, f func(ast.Ref)) {
	for _, m := range modules {
		imports := map[ast.Var]ast.Ref{}
		for _, i := range m.Imports {
			if ref, ok := i.Path.Value.(ast.Ref); ok {
				imports[i.Name()] = ref
			}
		}
		use := func(ref ast.Ref) {
			head, ok := ref[0].Value.(ast.Var)
			if !ok {
				return
			}
			switch {
			case head.Equal(ast.DefaultRootDocument.Value):
			case imports[head] != nil:
				ref = imports[head].Concat(ref[1:])
			default:
				ref = m.Package.Path.Append(ast.StringTerm(string(head))).Concat(ref[1:])
			}
			f(ref.GroundPrefix())
		}
		var visitor *ast.GenericVisitor
		visitor = ast.NewGenericVisitor(func(x any) bool {
			switch x := x.(type) {
			case ast.Ref:
				if len(x) == 0 {
					return true
				}
				use(x)
				inside := x[1:] // its first part alone would be a reference to all of data
				if _, ok := x[0].Value.(ast.Var); !ok {
					inside = x
				}
				for _, t := range inside {
					visitor.Walk(t)
				}
				return true
			case ast.Var:
				use(ast.Ref{ast.NewTerm(x)})
			}
			return false
		})
		for _, first := range m.Rules {
			for r := first; r != nil; r = r.Else {
				visitor.Walk(r.Body)
				for _, t := range append([]*ast.Term{r.Head.Key, r.Head.Value}, r.Head.Args...) {
					if t != nil {
						visitor.Walk(t)
					}
				}
			}
		}
	}
}
