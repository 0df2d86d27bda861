package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// document is a TOML text being read strictly: every key is asked for by name and
// type, what nobody asked for is a problem, and problems are collected. Decoding
// into structs would match keys without regard to case and stop at the first
// wrong type.
type document struct {
	file     string
	layout   *layout
	problems []problem
}

type problem struct {
	line int
	text string
}

// maxProblems bounds what one error reports.
const maxProblems = 20

// manifestError lists the problems of one file, one per line. It is ErrManifest.
type manifestError struct{ text string }

func (e *manifestError) Error() string        { return e.text }
func (e *manifestError) Is(target error) bool { return target == ErrManifest }

// openDocument parses data, which must be UTF-8 TOML within the bounds of
// layout.go, and returns its top level.
func openDocument(file string, data []byte) (*document, *section, error) {
	d := &document{file: file, layout: &layout{}}
	if !utf8.Valid(data) {
		d.add(0, "not UTF-8, save it as UTF-8")
		return d, nil, d.err()
	}
	if strings.HasPrefix(string(data), "\ufeff") {
		d.add(1, "starts with a byte order mark, save it as UTF-8 without one")
		return d, nil, d.err()
	}
	lay, stopped := scanLayout(data)
	d.layout = lay
	if stopped != nil && stopped.final {
		d.add(lay.line(stopped.offset), "%s", stopped.text)
		return d, nil, d.err()
	}
	if stopped != nil {
		// Only what was checked reaches the parser, and a little more so that it
		// can say what is wrong.
		data = data[:min(stopped.offset+maxNesting, len(data))]
	}
	values := map[string]any{}
	if err := decodeTOML(string(data), &values); err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			d.add(pe.Position.Line, "%s", clip(pe.Message, 300))
		} else {
			d.add(0, "%s", clip(err.Error(), 300))
		}
		return d, nil, d.err()
	}
	if stopped != nil {
		d.add(lay.line(stopped.offset), "not valid TOML: %s", stopped.text)
		return d, nil, d.err()
	}
	return d, &section{doc: d, values: values}, nil
}

// decodeTOML turns a panic of the parser into an error: the text is foreign.
func decodeTOML(text string, into *map[string]any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not valid TOML: %v", r)
		}
	}()
	_, err = toml.Decode(text, into)
	return err
}

func (d *document) add(line int, format string, a ...any) {
	d.problems = append(d.problems, problem{line, fmt.Sprintf(format, a...)})
}

// err returns the problems in order of their lines, nil if there are none.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var out []string
	for i, p := range d.problems {
		if i == maxProblems {
			out = append(out, fmt.Sprintf("%s: and %d more problems", d.file, len(d.problems)-i))
			break
		}
		if p.line > 0 {
			out = append(out, fmt.Sprintf("%s:%d: %s", d.file, p.line, p.text))
		} else {
			out = append(out, fmt.Sprintf("%s: %s", d.file, p.text))
		}
	}
	return &manifestError{strings.Join(out, "\n")}
}

// section is one table of a document.
type section struct {
	doc    *document
	path   string // "" for the top level
	line   int
	values map[string]any
	known  []string
}

// fail records a problem of key, or of the table itself when key is "".
func (s *section) fail(key, format string, a ...any) {
	path, line := s.path, s.line
	if key != "" {
		path = pathJoin(s.path, key)
		if n := s.doc.layout.lineOf(path); n > 0 {
			line = n
		}
	}
	s.failAt(path, line, format, a...)
}

// failElem records a problem of element i of the array key.
func (s *section) failElem(key string, i int, format string, a ...any) {
	path := pathElem(pathJoin(s.path, key), i)
	line := s.doc.layout.lineOf(path)
	if line == 0 {
		line = s.line
	}
	s.failAt(path, line, format, a...)
}

func (s *section) failAt(path string, line int, format string, a ...any) {
	text := clip(fmt.Sprintf(format, a...), 600)
	if path != "" {
		text = clip(path, 160) + ": " + text
	}
	s.doc.add(line, "%s", text)
}

// take marks key as known and returns its value.
func (s *section) take(key string) (any, bool) {
	s.known = append(s.known, key)
	v, ok := s.values[key]
	return v, ok
}

// has reports whether key was written.
func (s *section) has(key string) bool { _, ok := s.values[key]; return ok }

func (s *section) text(key string) string {
	v, ok := s.take(key)
	t, isText := v.(string)
	if ok && !isText {
		s.fail(key, "is %s, write a string", typeName(v))
	}
	return t
}

// required is text that must be there and not empty.
func (s *section) required(key, remedy string) string {
	t := s.text(key)
	if _, isText := s.values[key].(string); t == "" && (isText || !s.has(key)) {
		s.fail(key, "missing, %s", remedy)
	}
	return t
}

func (s *section) texts(key string) []string {
	v, ok := s.take(key)
	if !ok {
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		s.fail(key, "is %s, write an array of strings", typeName(v))
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		t, isText := e.(string)
		if !isText {
			s.failElem(key, i, "is %s, write a string", typeName(e))
			continue
		}
		out = append(out, t)
	}
	return out
}

func (s *section) integer(key string) (int64, bool) {
	v, ok := s.take(key)
	n, isInt := v.(int64)
	if ok && !isInt {
		s.fail(key, "is %s, write an integer", typeName(v))
	}
	return n, isInt
}

// choice is one of allowed, or absent the first of them.
func (s *section) choice(key string, allowed ...string) string {
	t := s.text(key)
	if !s.has(key) {
		return allowed[0]
	}
	if !slices.Contains(allowed, t) {
		if _, isText := s.values[key].(string); isText {
			s.fail(key, "%q is not known, use %s%s", t, orList(allowed), didYouMean(t, allowed))
		}
		return ""
	}
	return t
}

func (s *section) rawTable(key string) (map[string]any, bool) {
	v, ok := s.take(key)
	t, isTable := v.(map[string]any)
	if ok && !isTable {
		s.fail(key, "is %s, write a table", typeName(v))
	}
	return t, isTable
}

// table returns the sub-table key, an empty one where it is absent or wrong.
func (s *section) table(key string) *section {
	t, _ := s.rawTable(key)
	return s.child(pathJoin(s.path, key), t)
}

// tables returns the elements of the array of tables key.
func (s *section) tables(key string) []*section {
	v, ok := s.take(key)
	if !ok {
		return nil
	}
	path := pathJoin(s.path, key)
	var out []*section
	switch list := v.(type) {
	case []map[string]any:
		for i, t := range list {
			out = append(out, s.child(pathElem(path, i), t))
		}
	case []any:
		for i, e := range list {
			t, isTable := e.(map[string]any)
			if !isTable {
				s.failElem(key, i, "is %s, write a table", typeName(e))
				continue
			}
			out = append(out, s.child(pathElem(path, i), t))
		}
	default:
		s.fail(key, "is %s, write [[%s]] tables", typeName(v), key)
	}
	return out
}

func (s *section) child(path string, values map[string]any) *section {
	line := s.doc.layout.lineOf(path)
	if line == 0 {
		line = s.line
	}
	return &section{doc: s.doc, path: path, line: line, values: values}
}

// close reports the keys nobody asked for.
func (s *section) close() {
	for _, key := range sortedKeys(s.values) {
		if !slices.Contains(s.known, key) {
			s.fail(key, "unknown key%s", didYouMean(key, s.known))
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
