package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestLocate(t *testing.T) {
	const doc = `# comment
a = 1
"b c".d = [ "x#]", # not the end
  'y', """
z\"""" ]
[t] # [no]
u.v = { w = [{ k = 1 },
  { k = '''
'''' }], "q\u0041" = 2026-01-01 00:00:00 }
[[p]]
n = 1
[p.sub."/w"]
m = 2
[[p]]
n = 1
[[p.q]]
n = 2
[[p.q]]
n = 3
`
	want := map[string]int{
		"a":     2,
		`"b c"`: 3, `"b c".d`: 3, `"b c".d[0]`: 3, `"b c".d[1]`: 4, `"b c".d[2]`: 4,
		"t": 6, "t.u": 7, "t.u.v": 7, "t.u.v.w": 7, "t.u.v.w[0]": 7, "t.u.v.w[0].k": 7, "t.u.v.w[1]": 8, "t.u.v.w[1].k": 8, "t.u.v.qA": 9,
		"p": 10, "p[0]": 10, "p[0].n": 11, "p[0].sub": 12, `p[0].sub."/w"`: 12, `p[0].sub."/w".m`: 13,
		"p[1]": 14, "p[1].n": 15, "p[1].q": 16, "p[1].q[0]": 16, "p[1].q[0].n": 17, "p[1].q[1]": 18, "p[1].q[1].n": 19,
	}
	var parsed map[string]any
	if _, err := toml.Decode(doc, &parsed); err != nil {
		t.Fatal(err)
	}
	if got := locate(doc); !maps.Equal(got, want) {
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if got[k] != want[k] {
				t.Errorf("%s: line %d, want %d", k, got[k], want[k])
			}
		}
		t.Errorf("got %v", got)
	}
}

// paths lists the path of everything in a decoded document.
func paths(path string, v any, add func(string)) {
	if path != "" {
		add(path)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			paths(child(path, k), e, add)
		}
	case []map[string]any:
		for i, e := range v {
			paths(element(path, i), e, add)
		}
	case []any:
		for i, e := range v {
			paths(element(path, i), e, add)
		}
	}
}

// Whatever the decoder accepts, the second walk finds each of its keys, and nothing
// else, at a line of the document.
func FuzzLocate(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		var v map[string]any
		if _, err := toml.Decode(doc, &v); err != nil || shapeProblem("f", doc) != nil {
			return
		}
		lines, last := locate(doc), strings.Count(doc, "\n")+1
		n := 0
		paths("", v, func(p string) {
			n++
			if l := lines[p]; l < 1 || l > last {
				t.Fatalf("%s is at line %d of %d", p, l, last)
			}
		})
		if n != len(lines) {
			t.Fatalf("%d paths in the document, %d located: %v", n, len(lines), lines)
		}
	})
}
