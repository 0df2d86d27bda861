package main

import (
	"strings"
)

// table is text in columns. Every cell becomes one visible line; an empty one is
// a dash.
type table struct {
	header []string
	rows   [][]string
	cut    bool // the last column ends where the line does
	exact  bool // the last column is shown to the space
}

// leastLast is how much of the last column is left however narrow the line.
const leastLast = 20

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) render(width int) string {
	lines := make([][]string, 0, len(t.rows)+1)
	if t.header != nil {
		lines = append(lines, t.header)
	}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, c := range row {
			if t.exact && i == len(row)-1 {
				cells[i] = exact(c)
			} else {
				cells[i] = visibleLine(c)
			}
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		lines = append(lines, cells)
	}
	if len(lines) == 0 {
		return ""
	}
	last := len(lines[0]) - 1
	widths := make([]int, last+1)
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], textWidth(c))
		}
	}
	left := width
	for _, w := range widths[:last] {
		left -= w + 2
	}
	var b strings.Builder
	for _, cells := range lines {
		for i, c := range cells {
			switch {
			case i < last:
				b.WriteString(c + strings.Repeat(" ", widths[i]-textWidth(c)+2))
			case t.cut:
				b.WriteString(cut(c, max(left, leastLast)))
			default:
				b.WriteString(c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
