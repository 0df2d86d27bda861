package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Report is what "policy check" says of a policy that loads.
type Report struct {
	Revision string         `json:"revision"`
	Input    string         `json:"input_schema"` // that it was checked against, see InputSchemaID
	Modules  []ModuleReport `json:"modules"`
	Data     []string       `json:"data,omitempty"` // files
	Rules    map[string]int `json:"rules"`          // number of rules in force by kind: allow, block, …
	Warnings []Problem      `json:"warnings,omitempty"`
}

// ModuleReport is one Rego file of the operator's.
type ModuleReport struct {
	File    string `json:"file"`
	Package string `json:"package"`
	Rules   int    `json:"rules"`
}

// Check loads the policy under o.Paths as Open does and describes it. The error is
// that of Open.
func Check(ctx context.Context, o Options) (*Report, error) {
	s, err := load(ctx, &o)
	if err != nil {
		return nil, err
	}
	r := &Report{Revision: s.revision, Input: InputSchemaID, Data: s.data, Rules: map[string]int{}}
	for _, n := range ruleNames {
		r.Rules[n] = 0
	}
	for _, file := range slices.Sorted(maps.Keys(s.modules)) {
		m := s.modules[file]
		r.Modules = append(r.Modules, ModuleReport{
			File: file, Package: strings.TrimPrefix(m.Package.Path.String(), "data."), Rules: len(m.Rules),
		})
		if m.Package.Path.String() != policyPackage {
			continue
		}
		for _, rule := range m.Rules {
			if n := ruleName(rule); slices.Contains(ruleNames, n) && inForce(rule) {
				r.Rules[n]++
			}
		}
	}
	r.Warnings = append(warnings(s.modules, r.Rules, o.Builtins), s.unread...)
	return r, nil
}

func warnings(modules map[string]*ast.Module, rules map[string]int, builtins []string) []Problem {
	var ws []Problem
	if rules["allow"]+rules["require_confirmation"]+rules["schedule"]+rules["set_result"] == 0 {
		ws = append(ws, Problem{Message: "no rule of package awaken.policy can let a call through: every call is blocked"})
	}
	for _, b := range needless(builtins) {
		ws = append(ws, Problem{Message: fmt.Sprintf("builtins under [policy] in host.toml lists %q, which every policy may use; remove it", b)})
	}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		if len(modules[file].Rules) == 0 {
			ws = append(ws, Problem{File: file, Message: "has no rules"})
		}
	}
	_, possible := overlaps(modules)
	return slices.Concat(ws, possible, unused(modules))
}
