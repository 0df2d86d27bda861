package policy

import (
	"fmt"
	"strings"
)

// Problem is one thing that keeps a policy from being loaded, or a warning of a
// Report.
type Problem struct {
	File    string `json:"file,omitempty"` // as under [policy].paths
	Line    int    `json:"line,omitempty"` // from 1; 0: the file as a whole
	Col     int    `json:"col,omitempty"`  // from 1; 0: unknown
	Message string `json:"message"`
}

// String gives "file:line:col: message" without the parts that are unknown.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
			if p.Col > 0 {
				fmt.Fprintf(&b, ":%d", p.Col)
			}
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is the error of Open, Check and Reload: everything found, one a line.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	if len(ps) == 1 {
		return "policy: " + lines[0]
	}
	return fmt.Sprintf("policy: %d problems:\n  %s", len(ps), strings.Join(lines, "\n  "))
}
