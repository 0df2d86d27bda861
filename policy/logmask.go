package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/util"
)

// maskPoint is what OPA asks for what a decision log must not show.
const (
	maskPoint   = "data.system.log.mask"
	maskPackage = "data.system.log"
)

// eventSchema is what rules of the log see as input: OPA's decision log event, with
// the gate's input inside.
var eventSchema = sync.OnceValue(func() any {
	var input any
	if err := util.UnmarshalJSON(inputSchema(), &input); err != nil {
		panic(err) // it was just written
	}
	if m, ok := input.(map[string]any); ok {
		delete(m, "$id") // which would name a document of its own
		delete(m, "$schema")
	}
	object, text := map[string]any{"type": "object"}, map[string]any{"type": "string"}
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"decision_id": text, "timestamp": text, "path": text, "requested_by": text,
			"labels": object, "bundles": object, "metrics": object, "custom": object, "result": object,
			"input": input,
		},
	}
})

// describeEvents has the compiler check packages of the log against their own input
// instead of the gate's, as an annotation at the package would.
func describeEvents(modules map[string]*ast.Module) {
	seen := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		pkg := m.Package.Path.String()
		if !within(pkg, maskPackage) || seen[pkg] {
			continue
		}
		seen[pkg] = true
		doc := eventSchema()
		s := &ast.SchemaAnnotation{Path: ast.InputRootRef, Definition: &doc}
		for _, other := range modules { // a package has at most one annotation
			for _, a := range other.Annotations {
				if other.Package.Path.String() == pkg && a.Scope == "package" {
					a.Schemas = append([]*ast.SchemaAnnotation{s}, a.Schemas...)
					s = nil
				}
			}
		}
		if s != nil {
			a := &ast.Annotations{Scope: "package", Schemas: []*ast.SchemaAnnotation{s}, Location: m.Package.Location}
			m.Annotations = append(m.Annotations, a.Copy(m.Package))
		}
	}
}

// withoutValues says where and in what an evaluation failed, and not on which value: that
// may be what was to be hidden.
func withoutValues(err error) error {
	var failed *topdown.Error
	if !errors.As(err, &failed) {
		return fmt.Errorf("%s cannot be evaluated", maskPoint)
	}
	what := failed.Code
	if name, _, ok := strings.Cut(failed.Message, ":"); ok && failed.Code == topdown.BuiltinErr && !strings.Contains(name, " ") {
		what += ": " + name
	}
	if failed.Location != nil {
		what = failed.Location.String() + ": " + what
	}
	return fmt.Errorf("%s: %s", maskPoint, what)
}

// prepareMask returns nil when neither a rule nor data is about the log.
func prepareMask(ctx context.Context, modules map[string]*ast.Module, data map[string]any, options []func(*rego.Rego)) (*rego.PreparedEvalQuery, error) {
	if !aboutLog(modules, data) {
		return nil, nil
	}
	q, err := rego.New(append(options[:len(options):len(options)], rego.Query(maskPoint))...).PrepareForEval(ctx)
	return &q, err
}

// aboutLog reports whether there is anything at data.system.log: also a rule that is
// written in a package above, and data, both of which OPA would go by.
func aboutLog(modules map[string]*ast.Module, data map[string]any) bool {
	for _, m := range modules {
		if within(m.Package.Path.String(), maskPackage) {
			return true
		}
		for _, r := range m.Rules {
			at := m.Package.Path.Extend(r.Head.Ref().GroundPrefix()).String()
			if within(at, maskPackage) || within(maskPackage, at) {
				return true
			}
		}
	}
	system, _ := data["system"].(map[string]any)
	_, ok := system["log"]
	return ok
}

// LogMask asks the operator's data.system.log.mask about an event of the decision
// log, a JSON object that the rules see as input, and returns what they say as a JSON
// array. It is nil when nothing is at data.system.log. Where something is, that
// it says nothing is an error too: the caller does not know then what to hide.
func (g *Gate) LogMask(ctx context.Context, event json.RawMessage) (rules json.RawMessage, err error) {
	s := g.current.Load()
	if s.mask == nil {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			rules, err = nil, fmt.Errorf("%s: panic: %v", maskPoint, p)
		}
	}()
	input, err := parseJSON(event)
	if err != nil {
		return nil, fmt.Errorf("the event is no proper JSON: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, g.o.Deadline)
	defer stop()
	cancel := topdown.NewCancel()
	defer context.AfterFunc(ctx, cancel.Cancel)()
	// Its input is another than the one that rules are indexed for.
	rs, err := s.mask.Eval(ctx, rego.EvalParsedInput(input), rego.EvalRuleIndexing(false), rego.EvalExternalCancel(cancel),
		rego.EvalInterQueryBuiltinValueCache(s.values))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: it did not answer within %v", maskPoint, g.o.Deadline)
	case err != nil:
		return nil, withoutValues(err)
	case len(rs) != 1 || len(rs[0].Expressions) != 1:
		return nil, errors.New(maskPoint + " is undefined")
	}
	list, ok := rs[0].Expressions[0].Value.([]any)
	if !ok {
		return nil, errors.New(maskPoint + " is neither a set nor a list; write: mask contains \"/input/…\" if { … }")
	}
	return json.Marshal(list)
}
