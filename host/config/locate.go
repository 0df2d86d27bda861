package config

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// locate returns the line of every key, table and list element of a TOML document
// by its path, as in `plugin[0].grant.paths."/workspace".mode`. The decoder keeps
// positions by key name only, so that all [[plugin]] tables would share one; hence
// this second, smaller walk. The document must have passed the decoder: the walk
// relies on it being well formed and stops early where it is not.
func locate(src string) map[string]int {
	l := &locator{src: src, line: 1, lines: map[string]int{}, elements: map[string]int{}}
	l.document()
	return l.lines
}

type locator struct {
	src      string
	pos      int
	line     int
	lines    map[string]int
	elements map[string]int // path of a list made of [[…]] to its length
}

// child is the path of key below path, quoted where TOML needs it.
func child(path, key string) string {
	quoted := toml.Key{key}.String()
	if path == "" {
		return quoted
	}
	return path + "." + quoted
}

// element is the path of item i of the list at path.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (l *locator) mark(path string) {
	if _, seen := l.lines[path]; !seen {
		l.lines[path] = l.line
	}
}

func (l *locator) peek() byte {
	if l.pos < len(l.src) {
		return l.src[l.pos]
	}
	return 0
}

func (l *locator) next() {
	if l.peek() == '\n' {
		l.line++
	}
	l.pos++
}

func (l *locator) skip(n int) {
	for range n {
		l.next()
	}
}

// blank skips white space, line ends and comments.
func (l *locator) blank() {
	for l.pos < len(l.src) {
		switch l.peek() {
		case ' ', '\t', '\r', '\n':
			l.next()
		case '#':
			l.comment()
		default:
			return
		}
	}
}

// comment skips to the end of the line.
func (l *locator) comment() {
	for l.pos < len(l.src) && l.peek() != '\n' {
		l.next()
	}
}

func (l *locator) spaces() {
	for l.peek() == ' ' || l.peek() == '\t' {
		l.next()
	}
}

func (l *locator) document() {
	table := ""
	for l.blank(); l.pos < len(l.src); l.blank() {
		before := l.pos
		if l.peek() == '[' {
			table = l.header()
		} else {
			l.pair(table)
		}
		if l.pos == before {
			return
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the path of the table that it opens.
func (l *locator) header() string {
	list := strings.HasPrefix(l.src[l.pos:], "[[")
	l.skip(1)
	if list {
		l.skip(1)
	}
	keys := l.key()
	path := ""
	for i, k := range keys {
		path = child(path, k)
		last := i == len(keys)-1
		if last && list {
			l.mark(path)
			n := l.elements[path]
			l.elements[path]++
			path = element(path, n)
		} else if n := l.elements[path]; n > 0 {
			path = element(path, n-1)
		}
		l.mark(path)
	}
	l.skip(1)
	if list {
		l.skip(1)
	}
	return path
}

// pair reads key = value below the table at path.
func (l *locator) pair(path string) {
	for _, k := range l.key() {
		path = child(path, k)
		l.mark(path)
	}
	l.skip(1) // the equals sign
	l.spaces()
	l.value(path)
}

// key reads a possibly dotted key up to the = or ] after it.
func (l *locator) key() []string {
	var keys []string
	for {
		l.spaces()
		switch l.peek() {
		case '"', '\'':
			keys = append(keys, unquote(l.text()))
		default:
			start := l.pos
			for l.pos < len(l.src) && !strings.ContainsRune(" \t.=]\n", rune(l.peek())) {
				l.next()
			}
			keys = append(keys, l.src[start:l.pos])
		}
		l.spaces()
		if l.peek() != '.' {
			return keys
		}
		l.next()
	}
}

func (l *locator) value(path string) {
	switch l.peek() {
	case '"', '\'':
		l.text()
	case '[':
		l.next()
		for i := 0; ; i++ {
			l.blank()
			if l.pos >= len(l.src) || l.peek() == ']' {
				break
			}
			before := l.pos
			l.mark(element(path, i))
			l.value(element(path, i))
			l.comma()
			if l.pos == before {
				return
			}
		}
		l.next()
	case '{':
		l.next()
		for l.blank(); l.pos < len(l.src) && l.peek() != '}'; l.blank() {
			before := l.pos
			l.pair(path)
			l.comma()
			if l.pos == before {
				return
			}
		}
		l.next()
	default:
		for l.pos < len(l.src) && !strings.ContainsRune(",]}#\n", rune(l.peek())) {
			l.next()
		}
	}
}

func (l *locator) comma() {
	l.blank()
	if l.peek() == ',' {
		l.next()
	}
}

// text skips a string of any of the four kinds and returns it, quotes included.
func (l *locator) text() string {
	start, quote := l.pos, l.src[l.pos:l.pos+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(l.src[l.pos:], triple) {
		l.skip(3)
		for l.pos < len(l.src) && !strings.HasPrefix(l.src[l.pos:], triple) {
			l.escape(quote)
			l.next()
		}
		l.skip(3)
		for range 2 { // quotes may stand before the closing three
			if l.peek() == quote[0] {
				l.next()
			}
		}
	} else {
		for l.next(); l.pos < len(l.src) && l.peek() != quote[0] && l.peek() != '\n'; l.next() {
			l.escape(quote)
		}
		l.next()
	}
	l.pos = min(l.pos, len(l.src))
	return l.src[start:l.pos]
}

func (l *locator) escape(quote string) {
	if quote == `"` && l.peek() == '\\' {
		l.next()
	}
}

// unquote reads a quoted key by asking the decoder, which knows every escape.
func unquote(quoted string) string {
	var doc struct{ K string }
	if _, err := toml.Decode("k = "+quoted, &doc); err != nil {
		return quoted
	}
	return doc.K
}
