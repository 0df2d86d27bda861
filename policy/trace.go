package policy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/lineage"
)

// Coverage is which lines of the operator's policy were reached. Lines without an
// expression or a rule do not count.
type Coverage struct {
	Percent float64        `json:"percent"` // 0 to 100
	Covered int            `json:"covered_lines"`
	Missed  int            `json:"missed_lines"`
	Files   []FileCoverage `json:"files"`
}

// FileCoverage is the coverage of one file.
type FileCoverage struct {
	File    string  `json:"file"`
	Percent float64 `json:"percent"`
	Missed  []Lines `json:"missed,omitempty"`
}

// Lines is a range of lines, both ends included.
type Lines struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// coverage is what c saw of modules, which are the operator's.
func coverage(c *cover.Cover, modules map[string]*ast.Module) *Coverage {
	report := c.Report(modules)
	out := &Coverage{Files: []FileCoverage{}}
	for file, f := range report.Files {
		if modules[file] == nil {
			continue
		}
		reached, missed := rows(f.Covered), rows(f.NotCovered)
		// A line of which a part was reached is one that tests know.
		missed = slices.DeleteFunc(missed, func(row int) bool { return slices.Contains(reached, row) })
		out.Covered += len(reached)
		out.Missed += len(missed)
		out.Files = append(out.Files, FileCoverage{File: file, Percent: percent(len(reached), len(missed)), Missed: ranges(missed)})
	}
	slices.SortFunc(out.Files, func(a, b FileCoverage) int { return strings.Compare(a.File, b.File) })
	out.Percent = percent(out.Covered, out.Missed)
	return out
}

func percent(reached, missed int) float64 {
	if reached+missed == 0 {
		return 100
	}
	return 100 * float64(reached) / float64(reached+missed)
}

func rows(rs []cover.Range) []int {
	var out []int
	for _, r := range rs {
		for row := r.Start.Row; row <= r.End.Row; row++ {
			out = append(out, row)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ranges(rows []int) []Lines {
	var out []Lines
	for _, row := range rows {
		if n := len(out); n > 0 && out[n-1].To == row-1 {
			out[n-1].To = row
		} else {
			out = append(out, Lines{row, row})
		}
	}
	return out
}

// maxTraceLines bounds what is kept of a trace.
const maxTraceLines = 20_000

// traceLines writes a trace as OPA does, one event a line, without the host's own
// rules when theirs is set: nobody can change those.
func traceLines(events []*topdown.Event, theirs bool) []string {
	events = lineage.Full(events)
	if theirs {
		events = slices.DeleteFunc(events, func(e *topdown.Event) bool {
			return e.Location == nil || e.Location.File == "" || strings.HasPrefix(e.Location.File, basePrefix)
		})
	}
	more := len(events) > maxTraceLines
	if more {
		events = events[:maxTraceLines]
	}
	var b bytes.Buffer
	topdown.PrettyTraceWithLocation(&b, events)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if len(events) == 0 {
		lines = nil
	}
	if more {
		lines = append(lines, "… and more, left out")
	}
	return lines
}

// failedAt is the last expression of a file that was not true. Rules that are asked
// fail in passing, too.
func failedAt(events []*topdown.Event, file string) *Problem {
	for _, e := range slices.Backward(events) {
		if e.Op != topdown.FailOp || e.Location == nil || e.QueryID == 0 || e.Location.File != file {
			continue
		}
		x, ok := e.Node.(*ast.Expr)
		if !ok {
			continue
		}
		if _, ok := x.Terms.(*ast.Every); ok {
			continue // what failed is inside of it
		}
		text := string(e.Location.Text)
		if text == "" {
			text = x.String()
		}
		return &Problem{File: e.Location.File, Line: e.Location.Row, Col: e.Location.Col, Message: clip(text, 200)}
	}
	return nil
}

// explained is a trace as one of the ways to explain shows it.
func explained(events []*topdown.Event, way string) []string {
	switch way {
	case ExplainFails:
		events = lineage.Fails(events)
	case ExplainNotes:
		events = lineage.Notes(events)
	}
	return traceLines(events, way != ExplainFull)
}
