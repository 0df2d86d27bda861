package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"
)

// reader turns a decoded TOML document into typed values. It collects problems
// and goes on, so that one run shows them all. Values are never part of its
// messages: a value at the wrong place may be a secret.
type reader struct {
	file     string
	lines    map[string]int
	problems []Problem
	tables   []*table
}

func (r *reader) bad(path, what, remedy string) {
	r.problems = append(r.problems, Problem{File: r.file, Line: r.lines[path], Key: path, What: what, Remedy: remedy})
}

// table is one table of the document, empty where the document has none. Keys that
// nobody asks for are unknown.
type table struct {
	r     *reader
	path  string
	vals  map[string]any
	known []string
	free  bool // keys are the operator's own names
}

func (r *reader) table(path string, vals map[string]any) *table {
	t := &table{r: r, path: path, vals: vals}
	r.tables = append(r.tables, t)
	return t
}

// kind names the TOML type of v.
func kind(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	}
	return "a list"
}

// take returns the value of key and remembers that key is known.
func (t *table) take(key string) (any, string, bool) {
	t.known = append(t.known, key)
	v, ok := t.vals[key]
	return v, child(t.path, key), ok
}

// read sets *dst to the value of key when it has type T; a missing key leaves the
// default.
func read[T any](t *table, key string, dst *T, want string) bool {
	v, path, ok := t.take(key)
	if !ok {
		return false
	}
	x, ok := v.(T)
	if !ok {
		t.r.bad(path, "is "+kind(v), "write "+want)
		return false
	}
	*dst = x
	return true
}

func (t *table) text(key string, dst *string) {
	read(t, key, dst, `a string, such as `+key+` = "…"`)
}

func (t *table) flag(key string, dst *bool) {
	read(t, key, dst, "true or false without quotes")
}

func (t *table) integer(key string, dst *int) {
	v, path, ok := t.take(key)
	if !ok {
		return
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		t.r.bad(path, "is "+kind(v), "write a whole number without quotes")
	case n < math.MinInt32 || n > math.MaxInt32:
		t.r.bad(path, "is out of range", "write a smaller number")
	default:
		*dst = int(n)
	}
}

// number reads a float; a whole number is one too.
func (t *table) number(key string, dst *float64) {
	v, path, ok := t.take(key)
	if !ok {
		return
	}
	switch n := v.(type) {
	case int64:
		*dst = float64(n)
	case float64:
		if math.IsNaN(n) || math.IsInf(n, 0) {
			t.r.bad(path, "is no number", "write one such as 2 or 0.5")
			return
		}
		*dst = n
	default:
		t.r.bad(path, "is "+kind(v), "write a number without quotes")
	}
}

func (t *table) duration(key string, dst *time.Duration) {
	const remedy = `write a number with its unit, such as "100ms", "5s", "2m", "1h" or "30d"`
	v, path, ok := t.take(key)
	if !ok {
		return
	}
	s, ok := v.(string)
	if !ok {
		t.r.bad(path, "is "+kind(v), remedy)
		return
	}
	d, err := ParseDuration(s)
	if err != nil {
		t.r.bad(path, fmt.Sprintf("%q is not a duration", clip(s)), remedy)
		return
	}
	*dst = d
}

// texts reads a list of strings; nil stays nil where the key is missing.
func (t *table) texts(key string, dst *[]string) {
	v, path, ok := t.take(key)
	if !ok {
		return
	}
	list, ok := v.([]any)
	if !ok {
		t.r.bad(path, "is "+kind(v), `write a list of strings, such as `+key+` = ["…"]`)
		return
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			t.r.bad(element(path, i), "is "+kind(e), "write a string in quotes")
			return
		}
		out = append(out, s)
	}
	*dst = out
}

// sub returns the table at key, an empty one when the document has none, and
// whether it has one. Remedy is for a value that is no table.
func (t *table) sub(key, remedy string) (*table, bool) {
	v, path, ok := t.take(key)
	m, isTable := v.(map[string]any)
	if ok && !isTable {
		t.r.bad(path, "is "+kind(v), remedy)
	}
	return t.r.table(path, m), isTable
}

// indices are what a path of ours has and a header of TOML has not.
var indices = regexp.MustCompile(`\[[0-9]+\]`)

// section is sub for a table that stands once in the file under its own header.
func (t *table) section(key string) *table {
	header := indices.ReplaceAllString(child(t.path, key), "")
	s, _ := t.sub(key, fmt.Sprintf("write it once, as a table [%s]", header))
	return s
}

// list returns the tables of the list at key. Remedy is for anything else.
func (t *table) list(key, remedy string) []*table {
	v, path, ok := t.take(key)
	if !ok {
		return nil
	}
	var out []*table
	switch v := v.(type) {
	case []map[string]any:
		for i, m := range v {
			out = append(out, t.r.table(element(path, i), m))
		}
	case []any:
		for i, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				t.r.bad(element(path, i), "is "+kind(e), remedy)
				continue
			}
			out = append(out, t.r.table(element(path, i), m))
		}
	default:
		t.r.bad(path, "is "+kind(v), remedy)
	}
	return out
}

// names returns the keys of a table whose keys are the operator's own, sorted.
func (t *table) names() []string {
	t.free = true
	out := make([]string, 0, len(t.vals))
	for k := range t.vals {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// unknown reports every key that no one asked for.
func (r *reader) unknown() {
	for _, t := range r.tables {
		if t.free {
			continue
		}
		for key := range t.vals {
			if !slices.Contains(t.known, key) {
				r.bad(child(t.path, key), "is not a known key", r.suggest(t, key))
			}
		}
	}
}

// clip keeps a value of the file short in a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
