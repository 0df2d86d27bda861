package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// entriesQuery asks the base policy for a decision on entries in place of what the
// operator's rules would give for a call. So the judgement before any call is the
// one that calls will meet.
const entriesQuery = entryPoint + " with data.awaken.policy as input.call.arguments.policy"

// field is a key of an object that may be an entry.
type field struct {
	example string // of a value that fits, in Rego
	want    string
}

var (
	reasonField  = field{`"r"`, `a text, or {"code", "message"}`}
	reasonFields = map[string]field{
		"code":    {`"c"`, "a text of lower-case letters, digits and _ . - that starts with a letter"},
		"message": {`"m"`, "a text"},
	}
	namesWant = "a list of texts, none of them empty"

	// entryFields are the keys that objects may have as entries, by rule.
	entryFields = map[string]map[string]field{
		"allow": reasonFields,
		"block": reasonFields,
		"require_confirmation": {
			"prompt":    {`"p"`, "a text that is not empty"},
			"approvers": {`["a"]`, "a list of names, with no spaces around them and no invisible characters in them"},
			"quorum":    {`1`, "a whole number from 1 to 1000"},
			"timeout":   {`"1h"`, `a duration such as "90s" or "7d"`},
			"reason":    reasonField,
		},
		"schedule": {
			"at":     {`"2025-07-01T00:00:00Z"`, "a time as in RFC 3339, or nanoseconds since 1970"},
			"after":  {`"1h"`, `a duration such as "90s" or "7d"`},
			"reason": reasonField,
		},
		"set_result": {
			"text":     {`"t"`, "a text"},
			"json":     {`1`, "a value"},
			"content":  {`[{"type": "text", "text": "t"}]`, "a list of content blocks, with at least one in it"},
			"is_error": {`true`, "true or false"},
			"reason":   reasonField,
		},
		"grant": {
			"hosts":      {`["h"]`, namesWant},
			"commands":   {`["c"]`, namesWant},
			"paths":      {`{"/p": "ro"}`, `an object of paths with "ro" or "rw"`},
			"timeout":    {`"1s"`, `a duration such as "90s" or "7d"`},
			"memory_mib": {`1`, "a whole number from 1"},
		},
	}
)

// examples are the fields' examples, parsed.
var examples = func() map[string]map[string]*ast.Term {
	out := map[string]map[string]*ast.Term{}
	for rule, fields := range entryFields {
		out[rule] = map[string]*ast.Term{}
		for key, f := range fields {
			out[rule][key] = ast.MustParseTerm(f.example)
		}
	}
	return out
}()

// entry is what a rule adds, as far as it is written out.
type entry struct {
	rule string
	loc  *ast.Location
	// value has examples where the rule computes a value, so that only what is
	// written out is judged.
	value ast.Value
	// whole: value is that of the rule, not of one entry of its set.
	whole bool
}

// entries collects what can be judged before any call.
func entries(modules map[string]*ast.Module) []entry {
	var out []entry
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		m := modules[file]
		if m.Package.Path.String() != policyPackage {
			continue
		}
		for _, r := range m.Rules {
			name := ruleName(r)
			if !slices.Contains(ruleNames, name) {
				continue
			}
			for ; r != nil; r = r.Else {
				t, whole := r.Head.Key, false
				if t == nil {
					t, whole = r.Head.Value, true
				}
				if t == nil {
					continue
				}
				loc := t.Location
				if loc == nil || loc.Row == 0 {
					loc = r.Location
				}
				if set, ok := t.Value.(ast.Set); ok && whole {
					set.Foreach(func(t *ast.Term) {
						if v := written(name, t, false); v != nil {
							out = append(out, entry{rule: name, loc: loc, value: v})
						}
					})
					continue
				}
				if v := written(name, t, whole); v != nil {
					out = append(out, entry{name, loc, v, whole})
				}
			}
		}
	}
	return out
}

// written is the value of an entry, or of a whole rule, as far as it is written out;
// nil where that says nothing about its shape.
func written(rule string, t *ast.Term, whole bool) ast.Value {
	if constant(t) {
		return t.Value
	}
	switch v := t.Value.(type) {
	case *ast.Array, *ast.ArrayComprehension, *ast.ObjectComprehension:
		return ast.NewArray() // whatever is in it, it is no entry
	case ast.Set:
		return ast.NewArray()
	case *ast.SetComprehension:
		if !whole {
			return ast.NewArray()
		}
	case ast.Object:
		var pairs [][2]*ast.Term
		known := true
		v.Foreach(func(k, val *ast.Term) {
			key, ok := k.Value.(ast.String)
			known = known && ok
			if !constant(val) {
				if val = examples[rule][string(key)]; val == nil {
					val = ast.NullTerm()
				}
			}
			pairs = append(pairs, [2]*ast.Term{k, val})
		})
		if known {
			return ast.NewObject(pairs...)
		}
	}
	return nil
}

// constant reports whether a term is the same for every call because it is written
// out.
func constant(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		return true
	case *ast.Array:
		return !v.Until(func(t *ast.Term) bool { return !constant(t) })
	case ast.Set:
		return !v.Until(func(t *ast.Term) bool { return !constant(t) })
	case ast.Object:
		return !v.Until(func(k, t *ast.Term) bool { return !constant(k) || !constant(t) })
	}
	return false
}

// checkEntries refuses entries that would block every call they are added for,
// since they have no proper shape. Once ctx is done the answer means nothing.
func checkEntries(ctx context.Context, modules map[string]*ast.Module, options ...func(*rego.Rego)) Problems {
	all := entries(modules)
	if len(all) == 0 {
		return nil
	}
	q, err := rego.New(append([]func(*rego.Rego){rego.Query(entriesQuery)}, options...)...).PrepareForEval(ctx)
	if err != nil {
		return explain(err, "", nil)
	}
	j := judge{ctx, q}
	// Nearly always nothing is wrong, and one question is enough for most.
	sound := j.defect(all...) == ""
	var problems Problems
	for _, e := range all {
		if sound && e.rule != "set_result" && e.rule != "grant" { // of these more is read outside Rego
			continue
		}
		if defect := j.defect(e); defect != "" {
			problems = append(problems, Problem{File: e.loc.File, Line: e.loc.Row, Col: e.loc.Col, Message: j.explain(e, defect)})
		}
	}
	return problems
}

// judge asks the base policy.
type judge struct {
	ctx context.Context
	q   rego.PreparedEvalQuery
}

// defect says what is wrong with entries, "" if nothing is.
func (j judge) defect(es ...entry) string {
	rules := map[string]*ast.Term{"allow": ast.SetTerm(ast.StringTerm("for grants to be read"))}
	add := func(rule string, t *ast.Term) {
		set, ok := ast.Set(nil), false
		if rules[rule] != nil {
			set, ok = rules[rule].Value.(ast.Set)
		}
		if !ok {
			set = ast.NewSet()
		}
		set.Add(t)
		rules[rule] = ast.NewTerm(set)
	}
	for _, e := range es {
		switch t := ast.NewTerm(e.value); {
		case !e.whole:
			add(e.rule, t)
		case len(es) == 1:
			rules[e.rule] = t
		default: // beside others it is asked for alone
			if d := j.defect(e); d != "" {
				return d
			}
		}
	}
	policy := ast.NewObject()
	for rule, set := range rules {
		policy.Insert(ast.StringTerm(rule), set)
	}
	rs, err := j.q.Eval(j.ctx, rego.EvalRuleIndexing(false), rego.EvalParsedInput(ast.NewObject(
		[2]*ast.Term{ast.StringTerm("call"), ast.ObjectTerm([2]*ast.Term{ast.StringTerm("arguments"), ast.ObjectTerm(
			[2]*ast.Term{ast.StringTerm("policy"), ast.NewTerm(policy)},
		)})},
		[2]*ast.Term{ast.StringTerm("now_ns"), ast.NumberTerm("1751328000000000000")},
		[2]*ast.Term{ast.StringTerm("tool"), ast.ObjectTerm([2]*ast.Term{ast.StringTerm("id"), ast.StringTerm("tool")})},
	)))
	if err != nil {
		return fmt.Sprintf("an entry cannot be read: %v", err)
	}
	for _, r := range rs {
		for _, x := range r.Expressions {
			// Before the reasons are cut to what a record holds.
			m, _ := x.Value.(map[string]any)
			reasons, _ := m["reasons"].([]any)
			for _, reason := range reasons {
				reason, _ := reason.(map[string]any)
				message, _ := reason["message"].(string)
				if reason["code"] == ReasonOddShape && strings.HasPrefix(message, "an entry of ") {
					return message
				}
			}
			if _, err := readDecision(x.Value); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// explain says which part of an entry is wrong, where that can be told.
func (j judge) explain(e entry, defect string) string {
	fields := entryFields[e.rule]
	obj, ok := e.value.(ast.Object)
	if e.whole {
		return fmt.Sprintf("%s gives no set of entries; write: %s contains … if { … }. As it is, %s", e.rule, e.rule, defect)
	}
	if !ok {
		return defect
	}
	message := defect
	obj.Until(func(k, v *ast.Term) bool {
		key := string(k.Value.(ast.String))
		f, known := fields[key]
		if !known {
			message = fmt.Sprintf("an entry of %s has the key %q, which is not known", e.rule, clip(key, 80))
			names := slices.Sorted(maps.Keys(fields))
			if near := nearest(key, names, 2); near != "" {
				message += fmt.Sprintf("; did you mean %q?", near)
			} else {
				message += "; known are " + strings.Join(names, ", ")
			}
			return true
		}
		if alone := j.alone(e, obj, key); j.defect(alone) != "" {
			example := alone.value.(ast.Object)
			example.Insert(ast.StringTerm(key), examples[e.rule][key])
			alone.value = example
			if j.defect(alone) == "" {
				message = fmt.Sprintf("the %q of an entry of %s must be %s", key, e.rule, f.want)
				return true
			}
		}
		return false
	})
	return message
}

// alone is the entry with examples for all values but that of key.
func (j judge) alone(e entry, obj ast.Object, key string) entry {
	out := ast.NewObject()
	obj.Foreach(func(k, v *ast.Term) {
		name := string(k.Value.(ast.String))
		if x := examples[e.rule][name]; x != nil && name != key {
			v = x
		}
		out.Insert(k, v)
	})
	e.value = out
	return e
}
