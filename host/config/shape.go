package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of what the decoder is given. It keeps the full dotted name of every key,
// so that 40 KiB of nested keys would take it gigabytes.
const (
	maxFileBytes = 256 << 10
	maxKeyBytes  = 256 // of a key with all its dots, or of a table header
	maxNesting   = 16  // of lists and inline tables, and dots of a key
)

// shapeProblem refuses a document that would be too much for the decoder, nil if
// there is none to refuse. It knows just enough of TOML to tell keys from values,
// and is right up to the first error of syntax, where the decoder stops.
func shapeProblem(file, src string) *Problem {
	fail := func(line int, what, remedy string) *Problem {
		return &Problem{File: file, Line: line, What: what, Remedy: remedy}
	}
	if len(src) > maxFileBytes {
		return fail(0, fmt.Sprintf("is larger than %d KiB", maxFileBytes>>10), "name a host.toml file")
	}
	// The decoder takes a byte order mark for nothing, and what follows one of
	// UTF-16 for an empty document.
	if strings.HasPrefix(src, "\ufeff") {
		return fail(1, "starts with a byte order mark", "save it as UTF-8 without one")
	}
	if !utf8.ValidString(src) {
		return fail(invalidLine(src), "is not UTF-8", "save it as UTF-8")
	}
	l := &locator{src: src, line: 1}
	var open []byte // brackets around this place, of values only
	inKey, start, dots := true, 0, 0
	for l.pos < len(src) {
		c, at := l.peek(), l.pos
		switch c {
		case '#':
			l.comment()
		case '"', '\'':
			l.text()
		default:
			l.next()
		}
		switch {
		case inKey && at == start && (c == '#' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			start = l.pos // blank space before the key
		case len(open) == 0 && c == '\n':
			inKey, start = true, l.pos
		case c == '#' || len(open) == 0 && inKey && (c == '[' || c == ']'): // a header
		case c == '=':
			inKey = false
		case c == '[' || c == '{':
			open = append(open, c)
			inKey, start = c == '{', l.pos
		case len(open) > 0 && (c == ']' || c == '}'):
			open = open[:len(open)-1]
			inKey = false
		case len(open) > 0 && c == ',':
			inKey, start = open[len(open)-1] == '{', l.pos
		}
		switch {
		case l.pos == start:
			dots = 0
		case inKey && c == '.':
			dots++
		}
		if max(len(open), dots) > maxNesting {
			return fail(l.line, fmt.Sprintf("has tables or lists nested more than %d deep", maxNesting), "write them flatter")
		}
		if inKey && c != '#' && l.pos-start > maxKeyBytes {
			return fail(l.line, fmt.Sprintf("has a key longer than %d bytes", maxKeyBytes), "shorten it")
		}
	}
	return nil
}

// invalidLine is the line of the first byte that is not UTF-8.
func invalidLine(src string) int {
	at := 0
	for at < len(src) {
		r, n := utf8.DecodeRuneInString(src[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return 1 + strings.Count(src[:at], "\n")
}
