package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
)

// maskRule hides one part of an event, as OPA's data.system.log.mask says it: a
// path alone or op "remove" takes the part out, op "upsert" puts Value in its place.
type maskRule struct {
	op    string
	path  string
	parts []string // of the path, unescaped; the first is "input" or "result"
	value any
}

// parseMask reads what the mask policy answered: a JSON array of paths and objects.
func parseMask(raw []byte) ([]maskRule, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("the mask is no list")
	}
	rules := make([]maskRule, 0, len(list))
	for _, e := range list {
		r, err := parseRule(e)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(e any) (maskRule, error) {
	r := maskRule{op: "remove"}
	switch e := e.(type) {
	case string:
		r.path = e
	case map[string]any:
		for k, v := range e {
			text, isText := v.(string)
			switch {
			case k == "op" && (text == "remove" || text == "upsert"):
				r.op = text
			case k == "path" && isText:
				r.path = text
			case k == "value":
				r.value = v
			default:
				return r, fmt.Errorf("a mask has an odd %q; write a path, or {\"op\": \"remove\" or \"upsert\", \"path\", \"value\"}", k)
			}
		}
	default:
		return r, errors.New("a mask is neither a path nor an object")
	}
	if !strings.HasPrefix(r.path, "/") {
		return r, fmt.Errorf("the mask path %q does not begin with /input or /result", r.path)
	}
	for _, p := range strings.Split(r.path[1:], "/") {
		u, err := url.PathUnescape(p)
		if err != nil {
			return r, fmt.Errorf("the mask path %q: %w", r.path, err)
		}
		r.parts = append(r.parts, u)
	}
	if r.parts[0] != "input" && r.parts[0] != "result" {
		return r, fmt.Errorf("the mask path %q does not begin with /input or /result", r.path)
	}
	return r, nil
}

// apply hides what the rules name. A part that is not there needs no hiding.
func (e *event) apply(rules []maskRule) {
	// Deeper and later places first, so that taking one out of a list moves no other.
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b maskRule) int { return compareParts(b.parts, a.parts) })
	hidden := false
	for _, r := range rules {
		root := &e.Input
		if r.parts[0] == "result" {
			root = &e.Result
		}
		if r.hidesArguments() && !hidden {
			hidden = true
			delete(e.Custom, "argument_digest") // that of a short secret gives it away
			e.quietReasons(false)
		}
		if r.op == "upsert" {
			if put(root, r.parts[1:], r.value) {
				e.Masked = append(e.Masked, r.path)
			}
		} else if take(root, r.parts[1:]) {
			e.Erased = append(e.Erased, r.path)
		}
	}
	slices.Sort(e.Erased)
	slices.Sort(e.Masked)
	if !e.shows("run", "principal", e.RequestedBy) {
		e.RequestedBy = ""
	}
}

func (r *maskRule) hidesArguments() bool {
	for i, part := range []string{"input", "call", "arguments"} {
		if len(r.parts) > i && r.parts[i] != part {
			return false
		}
	}
	return true
}

// shows reports whether the input still has text under the two keys.
func (e *event) shows(key, name, text string) bool {
	input, _ := e.Input.(map[string]any)
	part, _ := input[key].(map[string]any)
	return text != "" && part[name] == text
}

func compareParts(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		i, ierr := strconv.Atoi(x)
		j, jerr := strconv.Atoi(y)
		if ierr == nil && jerr == nil {
			return i - j
		}
		return strings.Compare(x, y)
	})
}

// take removes the part at path and reports whether it was there.
func take(at *any, path []string) bool {
	if len(path) == 0 {
		was := *at != nil
		*at = nil
		return was
	}
	switch v := (*at).(type) {
	case map[string]any:
		c, ok := v[path[0]]
		if !ok {
			return false
		}
		if len(path) == 1 {
			delete(v, path[0])
			return true
		}
		ok = take(&c, path[1:])
		v[path[0]] = c
		return ok
	case []any:
		i, ok := index(v, path[0])
		if !ok {
			return false
		}
		if len(path) == 1 {
			*at = slices.Delete(v, i, i+1)
			return true
		}
		return take(&v[i], path[1:])
	}
	return false
}

// put sets the part at path, with the objects above it, and reports whether it could.
func put(at *any, path []string, value any) bool {
	if len(path) == 0 {
		*at = value
		return true
	}
	switch v := (*at).(type) {
	case map[string]any:
		c, ok := v[path[0]]
		if !ok {
			c = map[string]any{}
		}
		if !put(&c, path[1:], value) {
			return false
		}
		v[path[0]] = c
		return true
	case []any:
		i, ok := index(v, path[0])
		return ok && put(&v[i], path[1:], value)
	}
	return false
}

func index(list []any, part string) (int, bool) {
	i, err := strconv.Atoi(part)
	return i, err == nil && i >= 0 && i < len(list)
}

// eraseArguments is for when it is not known what to hide.
func (e *event) eraseArguments(why error) {
	if take(&e.Input, []string{"call", "arguments"}) {
		e.Erased = append(e.Erased, "/input/call/arguments")
	}
	delete(e.Custom, "argument_digest")
	e.quietReasons(true)
	e.Custom["mask_error"] = why.Error()
}

// quietReasons takes out of the reasons what may quote arguments: details, which say
// what failed on them, and what the host says of arguments that do not fit. With all it
// is every message too, of which only those who wrote the rules know what they quote.
func (e *event) quietReasons(all bool) {
	result, _ := e.Result.(map[string]any)
	reasons, _ := result["reasons"].([]any)
	for _, r := range reasons {
		reason, _ := r.(map[string]any)
		delete(reason, "detail")
		if all || reason["code"] == batch.ReasonInvalidArguments {
			delete(reason, "message")
		}
	}
}

// hide applies the mask that the policy gave; raw is nil when it has none.
func (e *event) hide(raw json.RawMessage, err error) {
	if err == nil && raw == nil {
		return
	}
	var rules []maskRule
	if err == nil {
		rules, err = parseMask(raw)
	}
	input, _ := e.Input.(map[string]any)
	call, _ := input["call"].(map[string]any)
	if _, isObject := call["arguments"].(map[string]any); err == nil && !isObject && len(rules) > 0 {
		err = errors.New("the arguments are no JSON object in which the mask could hide a part")
	}
	if err == nil {
		e.apply(rules)
		return
	}
	e.eraseArguments(err)
}
