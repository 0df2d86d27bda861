package config

import (
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing wrong, or without effect, in a configuration.
type Problem struct {
	File    string
	Line    int    // from 1; 0: no line is known
	Key     string // as in "plugin[0].grant.hosts"; empty: the whole file
	What    string // what is wrong
	Remedy  string // what to do
	Warning bool   // the setting is accepted and has no effect

	cause error
}

// String is "file:line: key: what; remedy" on one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		b.WriteString(":" + strconv.Itoa(p.Line))
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	b.WriteString(": " + p.What)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Error is a configuration that cannot be used: every problem, in order of lines.
type Error struct {
	Problems []Problem
}

// Error lists one problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the errors of the system that are behind problems, so that a
// missing file is fs.ErrNotExist.
func (e *Error) Unwrap() []error {
	var causes []error
	for _, p := range e.Problems {
		if p.cause != nil {
			causes = append(causes, p.cause)
		}
	}
	return causes
}

// inOrder sorts problems as a reader of the file meets them.
func inOrder(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int { return a.Line - b.Line })
	return ps
}

// without drops those of ps that only follow from one of known, at the same key or
// below it.
func without(ps, known []Problem) []Problem {
	return slices.DeleteFunc(ps, func(p Problem) bool {
		return slices.ContainsFunc(known, func(k Problem) bool {
			below, found := strings.CutPrefix(k.Key, p.Key)
			return found && (below == "" || below[0] == '.' || below[0] == '[')
		})
	})
}
