package plugins

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a manifest's text, checked before the TOML parser sees it: that
// parser recurses per bracket and spends memory per key and its whole context.
const (
	maxNesting  = 64
	maxKeyParts = 16
	maxKeyBytes = 128
	maxKeys     = 5000
)

// layout tells where the keys of a TOML text stand: the parser reports no
// positions for what it accepted. Keys are full paths as pathJoin and pathElem
// write them, such as tool[1].encoding.input.
type layout struct {
	lines  []int // offset of each line's first byte
	spans  map[string]span
	tables map[string]int // offset of the first header or key that makes the table
	counts map[string]int // elements of an array of tables so far
	sets   int
}

// span is the place of a value, data[start:end].
type span struct{ start, end int }

func (l *layout) line(offset int) int {
	return sort.Search(len(l.lines), func(i int) bool { return l.lines[i] > offset })
}

// lineOf returns the line of a key or table, 0 when it does not appear.
func (l *layout) lineOf(path string) int {
	if s, ok := l.spans[path]; ok {
		return l.line(s.start)
	}
	if at, ok := l.tables[path]; ok {
		return l.line(at)
	}
	return 0
}

func pathJoin(path, key string) string {
	if !bareKey(key) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func pathElem(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func bareKey(key string) bool {
	for i := range len(key) {
		if !bareKeyByte(key[i]) {
			return false
		}
	}
	return key != ""
}

func bareKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// scanError is where and why a scan stopped. A bound that is exceeded or a key
// that is set twice is final; anything else is for the parser to word.
type scanError struct {
	offset int
	text   string
	final  bool
}

func (e *scanError) Error() string { return e.text }

type scanner struct {
	data []byte
	pos  int
	out  *layout
}

// scanLayout reads data, which is valid UTF-8, once and in linear time.
func scanLayout(data []byte) (*layout, *scanError) {
	out := &layout{lines: []int{0}, spans: map[string]span{}, tables: map[string]int{}, counts: map[string]int{}}
	for i, c := range data {
		if c == '\n' {
			out.lines = append(out.lines, i+1)
		}
	}
	s := &scanner{data: data, out: out}
	table := ""
	for {
		s.blank(true)
		if s.pos >= len(data) {
			return out, nil
		}
		var err *scanError
		if data[s.pos] == '[' {
			table, err = s.header()
		} else {
			err = s.pair(table, 0)
		}
		if err != nil {
			return out, err
		}
		if s.blank(false); s.pos < len(data) && data[s.pos] != '\n' && data[s.pos] != '#' {
			return out, s.odd("something follows the value on its line")
		}
	}
}

func (s *scanner) odd(text string) *scanError { return &scanError{offset: s.pos, text: text} }

func (s *scanner) refuse(at int, format string, a ...any) *scanError {
	return &scanError{offset: at, text: fmt.Sprintf(format, a...), final: true}
}

// blank skips white space, and with lines also line ends and comments.
func (s *scanner) blank(lines bool) {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
			s.pos++
		case lines && c == '\n':
			s.pos++
		case lines && c == '#':
			if i := bytes.IndexByte(s.data[s.pos:], '\n'); i >= 0 {
				s.pos += i
			} else {
				s.pos = len(s.data)
			}
		default:
			return
		}
	}
}

func (s *scanner) accept(text string) bool {
	if bytes.HasPrefix(s.data[s.pos:], []byte(text)) {
		s.pos += len(text)
		return true
	}
	return false
}

// header reads [a.b] or [[a.b]] and returns the path of the table it opens.
func (s *scanner) header() (string, *scanError) {
	at := s.pos
	closing, list := "]", false
	if s.accept("[[") {
		closing, list = "]]", true
	} else {
		s.pos++
	}
	key, err := s.key()
	if err != nil {
		return "", err
	}
	if !s.accept(closing) {
		return "", s.odd("the table header does not end with " + closing)
	}
	path := ""
	for i, part := range key {
		path = pathJoin(path, part)
		n, isList := s.out.counts[path]
		switch {
		case list && i == len(key)-1:
			s.out.counts[path] = n + 1
			if _, ok := s.out.tables[path]; !ok {
				s.out.tables[path] = at
			}
			path = pathElem(path, n)
		case isList:
			path = pathElem(path, n-1)
		}
		if _, ok := s.out.tables[path]; !ok {
			s.out.tables[path] = at
		}
	}
	return path, nil
}

// pair reads key = value below table.
func (s *scanner) pair(table string, depth int) *scanError {
	at := s.pos
	key, err := s.key()
	if err != nil {
		return err
	}
	if !s.accept("=") {
		return s.odd("a key is not followed by =")
	}
	if s.out.sets++; s.out.sets > maxKeys {
		return s.refuse(at, "more than %d keys, split the plugin", maxKeys)
	}
	path := table
	for i, part := range key {
		path = pathJoin(path, part)
		if _, ok := s.out.tables[path]; !ok && i < len(key)-1 {
			s.out.tables[path] = at
		}
	}
	if _, twice := s.out.spans[path]; twice {
		return s.refuse(at, "%s: set twice, keep one", path)
	}
	s.blank(false)
	start := s.pos
	s.out.spans[path] = span{start, start}
	if err := s.value(path, depth); err != nil {
		return err
	}
	s.out.spans[path] = span{start, s.pos}
	return nil
}

// key reads a dotted key with the blanks around it.
func (s *scanner) key() ([]string, *scanError) {
	var parts []string
	at := s.pos
	for {
		s.blank(false)
		start := s.pos
		var part string
		switch {
		case s.pos >= len(s.data):
			return nil, s.odd("a key is missing")
		case s.data[s.pos] == '"' || s.data[s.pos] == '\'':
			if !s.quoted(string(s.data[s.pos]), s.data[s.pos] == '"', false) {
				return nil, s.odd("a quoted key does not end")
			}
			part = string(s.data[start+1 : s.pos-1])
			if s.data[start] == '"' {
				part = unescape(part)
			}
		default:
			for s.pos < len(s.data) && bareKeyByte(s.data[s.pos]) {
				s.pos++
			}
			part = string(s.data[start:s.pos])
			if part == "" {
				return nil, s.odd("a key is missing")
			}
		}
		parts = append(parts, part)
		if s.pos-at > maxKeyBytes {
			return nil, s.refuse(at, "a key is longer than %d bytes", maxKeyBytes)
		}
		if len(parts) > maxKeyParts {
			return nil, s.refuse(at, "a key has more than %d parts", maxKeyParts)
		}
		s.blank(false)
		if !s.accept(".") {
			return parts, nil
		}
	}
}

func (s *scanner) value(path string, depth int) *scanError {
	if s.pos >= len(s.data) {
		return s.odd("a value is missing")
	}
	if depth >= maxNesting {
		return s.refuse(s.pos, "nested deeper than %d levels", maxNesting)
	}
	switch s.data[s.pos] {
	case '"', '\'':
		q := string(s.data[s.pos])
		long := bytes.HasPrefix(s.data[s.pos:], []byte(q+q+q))
		if long {
			q += q + q
		}
		if !s.quoted(q, q[0] == '"', long) {
			return s.odd("a string does not end")
		}
		return nil
	case '[':
		s.pos++
		for i := 0; ; i++ {
			s.blank(true)
			if s.accept("]") {
				return nil
			}
			elem := pathElem(path, i)
			start := s.pos
			if err := s.value(elem, depth+1); err != nil {
				return err
			}
			if s.pos == start {
				return s.odd("a value is missing")
			}
			s.out.spans[elem] = span{start, s.pos}
			if s.blank(true); !s.accept(",") && (s.pos >= len(s.data) || s.data[s.pos] != ']') {
				return s.odd("an array does not go on with a comma")
			}
		}
	case '{':
		s.pos++
		for {
			s.blank(true)
			if s.accept("}") {
				return nil
			}
			if err := s.pair(path, depth+1); err != nil {
				return err
			}
			if s.blank(true); !s.accept(",") && (s.pos >= len(s.data) || s.data[s.pos] != '}') {
				return s.odd("an inline table does not go on with a comma")
			}
		}
	}
	end := bytes.IndexAny(s.data[s.pos:], ",]}#\n\r")
	if end < 0 {
		end = len(s.data) - s.pos
	}
	s.pos += len(bytes.TrimRight(s.data[s.pos:s.pos+end], " \t"))
	return nil
}

// quoted skips a string that opens and closes with q.
func (s *scanner) quoted(q string, escapes, long bool) bool {
	s.pos += len(q)
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '\\' && escapes:
			s.pos = min(s.pos+2, len(s.data))
		case c == '\n' && !long:
			return false
		case s.accept(q):
			// Up to two more quotes belong to the content of a long string.
			for range 2 {
				if long && !s.accept(q[:1]) {
					break
				}
			}
			return true
		default:
			s.pos++
		}
	}
	return false
}

// unescape decodes the escapes of a basic string; what is malformed stays.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	short := map[byte]byte{'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', 'e': 0x1b, '"': '"', '\\': '\\'}
	long := map[byte]int{'x': 2, 'u': 4, 'U': 8}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		c := text[i+1]
		if r, ok := short[c]; ok {
			b.WriteByte(r)
			i++
			continue
		}
		n := long[c]
		if n > 0 && i+2+n <= len(text) {
			if r, err := strconv.ParseInt(text[i+2:i+2+n], 16, 64); err == nil && r >= 0 && r <= utf8.MaxRune && utf8.ValidRune(rune(r)) {
				b.WriteRune(rune(r))
				i += 1 + n
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
