package main

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// table is text in columns. Every cell becomes one visible line; an empty one is
// a dash.
type table struct {
	header []string
	rows   [][]string
	cut    bool  // lines end where the terminal does
	exact  bool  // the last column is shown to the space
	times  []int // columns that clock made
}

// How little is left of a column, however narrow the line is. The first column is
// what people paste: ids that we make fit.
const (
	leastColumn = 8
	legible     = 12
	leastFirst  = 33
	leastLast   = 20
	gap         = 2
)

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) render(width int) string {
	lines := t.lines()
	if len(lines) == 0 {
		return ""
	}
	widths := columnWidths(lines)
	last, below := len(widths)-1, false
	if t.cut {
		fits := func() bool { return needed(widths) <= width }
		for _, shorter := range []func(string) string{withoutSeconds, withoutYear} {
			if !fits() && len(t.times) > 0 {
				for _, cells := range lines {
					for _, i := range t.times {
						cells[i] = shorter(cells[i])
					}
				}
				widths = columnWidths(lines)
			}
		}
		// What does not fit beside the others, still legible, goes below them.
		if below = last > 0 && needed(t.least(lines, widths, legible)) > width; below {
			widths = widths[:last]
		}
		shrink(widths, t.least(lines, widths, leastColumn), width)
	}
	var b strings.Builder
	for _, cells := range lines {
		for i, c := range cells {
			switch {
			case i == last && below:
				if c != "-" {
					b.WriteString("\n  " + cut(c, max(width-gap, leastLast)))
				}
			case i == last && t.cut:
				b.WriteString(cut(c, widths[i]))
			case i == last:
				b.WriteString(c)
			default:
				c = cutMiddle(c, widths[i])
				b.WriteString(c)
				if i < len(widths)-1 {
					b.WriteString(strings.Repeat(" ", widths[i]-textWidth(c)+gap))
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// lines are the header and the rows as they are shown.
func (t *table) lines() [][]string {
	lines := make([][]string, 0, len(t.rows)+1)
	if t.header != nil {
		lines = append(lines, slices.Clone(t.header))
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
	return lines
}

func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], textWidth(c))
		}
	}
	return widths
}

// needed is how wide a line is at least, where the last column may shrink.
func needed(widths []int) int {
	last := len(widths) - 1
	n := min(widths[last], leastLast)
	for _, w := range widths[:last] {
		n += w + gap
	}
	return n
}

// least are the widths that columns may shrink to, most of them to column.
func (t *table) least(lines [][]string, widths []int, column int) []int {
	least := make([]int, len(widths))
	for i, w := range widths {
		least[i] = column
		switch {
		case i == 0:
			least[i] = leastFirst
		case i == len(lines[0])-1:
			least[i] = leastLast
		case slices.Contains(t.times, i):
			least[i] = w
		}
		if t.header != nil {
			least[i] = max(least[i], textWidth(lines[0][i]))
		}
		least[i] = min(least[i], w)
	}
	return least
}

// shrink makes the columns fit into width, the last one first: it is what is longest,
// and free to end anywhere.
func shrink(widths, least []int, width int) {
	over := -width - gap
	for _, w := range widths {
		over += w + gap
	}
	last := len(widths) - 1
	if n := min(over, widths[last]-least[last]); n > 0 {
		widths[last] -= n
		over -= n
	}
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// A time as clock writes it, 2006-01-02 15:04:05, in less.
func withoutSeconds(s string) string {
	if len(s) == len("2006-01-02 15:04:05") {
		return s[:len("2006-01-02 15:04")]
	}
	return s
}

func withoutYear(s string) string {
	if len(s) == len("2006-01-02 15:04") {
		return s[len("2006-"):]
	}
	return s
}

// cutMiddle shortens a visible line to width columns. Ids differ at their ends.
func cutMiddle(s string, width int) string {
	if textWidth(s) <= width {
		return s
	}
	tail, n := len(s), 0
	for tail > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:tail])
		if n += columns(r); n > (width-1)/2 {
			break
		}
		tail -= size
	}
	return cut(s, width-textWidth(s[tail:])) + s[tail:]
}
