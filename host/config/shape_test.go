package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestShapeProblem(t *testing.T) {
	long := strings.Repeat("k", maxKeyBytes+1)
	tests := []struct{ name, doc, want string }{
		{"nothing", "", ""},
		{"long values", "a = \"" + long + "\"\nb = [\"" + long + "\",\n'" + long + "']\nc = { d = \"" + long + "\" }\ne = '''\n" + long + "[[['''", ""},
		{"long comments", "# " + long + "\n[a] # " + long + "\nb = { # " + long + "\n c = 1 }\nd = [ # " + long + "\n]", ""},
		{"long list", "a = [" + strings.Repeat("1,", maxKeyBytes) + "]", ""},
		{"brackets in strings", "a = \"" + strings.Repeat("[", 50) + "\" # " + strings.Repeat("{", 50), ""},
		{"many tables", strings.Repeat("[[a]]\n", 50) + strings.Repeat("a = [[{}]]\n", 50), ""},
		{"blank lines", strings.Repeat(" \t\r\n", 200) + "a = 1", ""},
		{"longest key", long[1:] + "= 1", ""},
		{"long key", "\n" + long + " = 1", "f:2: has a key longer than 256 bytes; shorten it"},
		{"long key, no value", strings.Repeat("aa", maxKeyBytes), "f:1: has a key longer than 256 bytes; shorten it"},
		{"many dots", strings.Repeat(strings.Repeat("a.", maxNesting)+"a = 1.0\n", 3), ""},
		{"too many dots", "b=1\n" + strings.Repeat("a.", maxNesting+1) + "a = 1", "f:2: has tables or lists nested more than 16 deep; write them flatter"},
		{"dots in quotes", "\"" + strings.Repeat(".", 100) + "\" = \"" + strings.Repeat(".", 100) + "\"", ""},
		{"long quoted key", "\"" + long + "\" = 1", "f:1: has a key longer than 256 bytes; shorten it"},
		{"long header", "[[" + long + "]]", "f:1: has a key longer than 256 bytes; shorten it"},
		{"long key in a table", "a = { b = 1, " + long + " = 1 }", "f:1: has a key longer than 256 bytes; shorten it"},
		{"deep lists", "a = [\n" + strings.Repeat("[", maxNesting), "f:2: has tables or lists nested more than 16 deep; write them flatter"},
		{"deep tables", "a = " + strings.Repeat("{a=", maxNesting+1), "f:1: has tables or lists nested more than 16 deep; write them flatter"},
		{"byte order mark", "\ufeffversion = 1", "f:1: starts with a byte order mark; save it as UTF-8 without one"},
		{"UTF-16 mark alone", "\xff\xfe", "f:1: is not UTF-8; save it as UTF-8"},
		{"UTF-16, the other way", "\xfe\xff\x00v", "f:1: is not UTF-8; save it as UTF-8"},
		{"Latin-1 in a comment", "version = 1\n# caf\xe9", "f:2: is not UTF-8; save it as UTF-8"},
		{"a replacement character", "# \ufffd", ""},
		{"large", strings.Repeat("#", maxFileBytes+1), "f: is larger than 256 KiB; name a host.toml file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if p := shapeProblem("f", tt.doc); p != nil {
				got = p.String()
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// The worst documents that fit the bounds take memory in proportion.
func TestWorstShapes(t *testing.T) {
	fill := func(line func(i int) string, head, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < maxFileBytes-len(tail)-400; i++ {
			b.WriteString(line(i))
		}
		return b.String() + tail
	}
	key := func(i int) string { return fmt.Sprintf("k%d=1\n", i) }
	item := func(i int) string { return fmt.Sprintf("k%d=1,", i) }
	nest := strings.Repeat("{"+strings.Repeat("n", maxKeyBytes-10)+"=", maxNesting-1) + "{"
	docs := map[string]string{
		"dotted header": fill(key, "["+strings.Repeat("aaaaaaaaaaa.", maxNesting)+"a]\n", ""),
		"dotted keys":   fill(func(i int) string { return strings.Repeat("aaaaaaaaaaa.", maxNesting) + key(i) }, "", ""),
		"nested tables": fill(item, "a="+nest, "z=1"+strings.Repeat("}", maxNesting)),
		"lists": fill(func(i int) string {
			return fmt.Sprintf("k%d=%s%s\n", i, strings.Repeat("[", 16), strings.Repeat("]", 16))
		}, "", ""),
	}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			if p := shapeProblem("f", doc); p != nil {
				t.Fatal(p)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("host.toml", []byte(doc))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("accepted")
			}
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 1024 {
				t.Errorf("took %d MiB", mib)
			} else {
				t.Logf("took %d MiB", mib)
			}
		})
	}
}
