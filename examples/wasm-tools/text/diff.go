package main

import (
	"fmt"
	"strings"
)

// maxCells bounds the table of the comparison: 16 MiB of memory.
const maxCells = 4 << 20

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// lineDiff compares line by line: "-" for a line that went, "+" for one that
// came, a space for one that stayed. Equal texts give an empty string.
func lineDiff(before, after string) (string, error) {
	a, b := lines(before), lines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) == 0 && len(y) == 0 {
		return "", nil
	}
	if (len(x)+1)*(len(y)+1) > maxCells {
		return "", fmt.Errorf("the texts differ over %d and %d lines, at most %d pairs of lines can be compared: compare smaller parts", len(x), len(y), maxCells)
	}

	var out strings.Builder
	put := func(mark byte, line string) {
		out.WriteByte(mark)
		out.WriteString(line)
		out.WriteByte('\n')
	}
	for _, l := range a[:head] {
		put(' ', l)
	}
	width := len(y) + 1
	common := commonLengths(x, y)
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			put(' ', x[i])
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[(i+1)*width+j] >= common[i*width+j+1]:
			put('-', x[i])
			i++
		default:
			put('+', y[j])
			j++
		}
	}
	for _, l := range a[len(a)-tail:] {
		put(' ', l)
	}
	return out.String(), nil
}

// commonLengths gives, for every pair of positions, the length of the longest
// common subsequence of what follows.
func commonLengths(x, y []string) []int32 {
	width := len(y) + 1
	t := make([]int32, (len(x)+1)*width)
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				t[i*width+j] = t[(i+1)*width+j+1] + 1
			} else {
				t[i*width+j] = max(t[(i+1)*width+j], t[i*width+j+1])
			}
		}
	}
	return t
}
