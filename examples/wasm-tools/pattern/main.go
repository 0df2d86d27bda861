// Command pattern is a plugin that applies regular expressions from untrusted
// sources: find, replace. Its tools are for a sandbox (target = "sandbox"): the
// pattern comes from the model, and how much memory it takes is not known before.
//
// Built with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared.
package main

import (
	"fmt"
	"regexp"

	"github.com/extism/go-pdk"
)

// A reactor module needs a main function; it never runs.
func main() {}

const (
	defaultLimit = 100
	maxResult    = 4 << 20 // bytes that replace may produce
)

type input struct {
	Pattern     string `json:"pattern"`
	Text        string `json:"text"`
	Limit       int    `json:"limit"`
	Replacement string `json:"replacement"`
}

type match struct {
	Text   string            `json:"text"`
	Start  int               `json:"start"` // byte offset
	End    int               `json:"end"`
	Groups []*string         `json:"groups,omitempty"` // null: not part of the match
	Named  map[string]string `json:"named,omitempty"`
}

func fail(err error) int32 {
	pdk.SetError(err)
	return 1
}

func read() (*regexp.Regexp, input, error) {
	var in input
	if err := pdk.InputJSON(&in); err != nil {
		return nil, in, fmt.Errorf("the input is not what the schema says: %w", err)
	}
	re, err := regexp.Compile(in.Pattern)
	if err != nil {
		return nil, in, fmt.Errorf("the pattern is not RE2 syntax: %w", err)
	}
	return re, in, nil
}

//go:wasmexport find
func find() int32 {
	re, in, err := read()
	if err != nil {
		return fail(err)
	}
	limit := in.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	// One more than asked for tells whether there are more.
	found := re.FindAllStringSubmatchIndex(in.Text, limit+1)
	more := len(found) > limit
	if more {
		found = found[:limit]
	}
	all := make([]match, 0, len(found))
	for _, at := range found {
		all = append(all, describe(re, in.Text, at))
	}
	if err := pdk.OutputJSON(map[string]any{"matches": all, "more": more}); err != nil {
		return fail(err)
	}
	return 0
}

func describe(re *regexp.Regexp, text string, at []int) match {
	m := match{Text: text[at[0]:at[1]], Start: at[0], End: at[1]}
	for g, name := range re.SubexpNames()[1:] {
		from, to := at[2*g+2], at[2*g+3]
		if from < 0 {
			m.Groups = append(m.Groups, nil)
			continue
		}
		s := text[from:to]
		m.Groups = append(m.Groups, &s)
		if name != "" {
			if m.Named == nil {
				m.Named = map[string]string{}
			}
			m.Named[name] = s
		}
	}
	return m
}

//go:wasmexport replace
func replace() int32 {
	re, in, err := read()
	if err != nil {
		return fail(err)
	}
	out, last := make([]byte, 0, len(in.Text)), 0
	for _, at := range re.FindAllStringSubmatchIndex(in.Text, -1) {
		out = append(out, in.Text[last:at[0]]...)
		out = re.ExpandString(out, in.Replacement, in.Text, at)
		last = at[1]
		if len(out) > maxResult {
			return fail(fmt.Errorf("the result is longer than %d bytes", maxResult))
		}
	}
	pdk.Output(append(out, in.Text[last:]...))
	return 0
}
