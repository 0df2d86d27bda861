package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/util"
)

// mergeData builds the data document. A document hangs where its folder is; the
// file's name plays no part, as with opa eval --data.
func mergeData(sources []source) (map[string]any, Problems) {
	data := map[string]any{}
	from := map[string]string{}
	var problems Problems
	for _, s := range sources {
		if s.rego() {
			continue
		}
		var doc any
		var err error
		isJSON := filepath.Ext(s.name) == ".json"
		if p := repeatedKey(s.file, s.raw, isJSON); p != nil {
			problems = append(problems, *p)
			continue
		}
		if isJSON {
			err = util.UnmarshalJSON(s.raw, &doc)
		} else {
			err = util.Unmarshal(s.raw, &doc)
		}
		if err != nil {
			problems = append(problems, Problem{File: s.file, Line: dataLine(s.raw, err), Message: fmt.Sprintf("is not valid: %v", err)})
			continue
		}
		for i := len(s.dirs) - 1; i >= 0; i-- {
			doc = map[string]any{s.dirs[i]: doc}
		}
		obj, ok := doc.(map[string]any)
		if !ok {
			problems = append(problems, Problem{File: s.file, Message: "must be an object at the top level: its keys become names under data"})
			continue
		}
		if at, ok := graft(data, obj, nil, s.file, from); !ok {
			problems = append(problems, Problem{File: s.file, Message: fmt.Sprintf(
				"sets data.%s, which %s sets too; keep one of them", strings.Join(at, "."), setBy(at, from))})
		}
	}
	if at, ok := data["awaken"]; ok {
		awaken, isObject := at.(map[string]any)
		if !isObject {
			problems = append(problems, Problem{Message: "data.awaken must be an object: the gate lives under it"})
		}
		for _, own := range []string{"gate", "lib"} {
			if _, ok := awaken[own]; ok {
				problems = append(problems, Problem{Message: fmt.Sprintf("data.awaken.%s is the host's own and cannot be set by a data file; use another name", own)})
			}
		}
		rules, _ := awaken["policy"].(map[string]any)
		for _, n := range ruleNames {
			if _, ok := rules[n]; ok {
				problems = append(problems, Problem{File: setBy([]string{"awaken", "policy", n}, from), Message: fmt.Sprintf(
					"sets data.awaken.policy.%s, which only rules can be; write the rule in a .rego file, or use another name", n)})
			}
		}
	}
	return data, problems
}

// graft merges src, read from file, into dst. It returns the path of the first key
// that both set. Whoever set a subtree is noted in from at its root.
func graft(dst, src map[string]any, at []string, file string, from map[string]string) ([]string, bool) {
	for _, k := range slices.Sorted(maps.Keys(src)) {
		here := append(slices.Clip(at), k)
		old, taken := dst[k]
		if !taken {
			dst[k] = src[k]
			from[strings.Join(here, ".")] = file
			continue
		}
		a, okA := old.(map[string]any)
		b, okB := src[k].(map[string]any)
		if !okA || !okB {
			return here, false
		}
		if p, ok := graft(a, b, here, file, from); !ok {
			return p, false
		}
	}
	return nil, true
}

// setBy finds the file that set the value at a path, or a value above it.
func setBy(at []string, from map[string]string) string {
	for n := len(at); n > 0; n-- {
		if f, ok := from[strings.Join(at[:n], ".")]; ok {
			return f
		}
	}
	return "another file"
}

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// dataLine finds the line an error of a data file speaks of; 0 when it does not
// say.
func dataLine(raw []byte, err error) int {
	var se *json.SyntaxError
	if errors.As(err, &se) && se.Offset <= int64(len(raw)) {
		return 1 + bytes.Count(raw[:se.Offset], []byte("\n"))
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}
