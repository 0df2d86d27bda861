package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// seeds are documents that reach every part of the decoder.
func seeds(tb testing.TB) []string {
	tb.Helper()
	design, err := os.ReadFile("testdata/design.toml")
	if err != nil {
		tb.Fatal(err)
	}
	return []string{
		"",
		"version = 1",
		string(design),
		strings.ReplaceAll(string(design), "\n", "\r\n"),
		"version = 1\n[[plugin]]\npath = \"a\"\n[plugin.recovery]\nt = { policy = \"idempotent\", max_attempts = 2 }\nu = \"replay_safe\"\n[[plugin]]\npath = 'b'\nnames.t = \"x\"",
		"version = 1\n[trust]\nkeys = [\n  { file = \"a\" }, # one\n  { file = 'b', plugins = [\"\"\"c\"\"\"] },\n]\nrevoked = [\"0123456789abcdef\"]",
		"version = 1\nlimits = { timeout = \"1d12h\", \"memory_mib\" = 0x40 }",
		"version = 1\n[[trust.keys]]\nfile = \"a\"\n[[trust.keys]]\nfile = \"b\"\n[store]\nretention = \"1d\"",
		"version = 1\nplugin = 5\n[limits]\ntimeout = [[], [[1]], {}]",
		"version = 1\n[[client_tool]]\nid = \"a\"\nannotations = { n = 1979-05-27 }\n[client_tool.input_schema]\ntype = \"object\"\nproperties.q = { type = \"string\" }\n[[delegate_tool]]\nid = \"b\"\nparallel = false\n[tickets]\ntimeout = \"1d\"",
		"version = 1\n[sandbox]\nlimits = { cpus = 0.5 }\n[[sandbox.mount]]\ntarget = \"/d\"\narchive = \"a.tar\"\nsha256 = \"x\"\n[sandbox.k8s]\nnode_selector.\"a/b\" = \"c\"\n[sandbox.docker]\ncommand = [\"docker\"]",
		"\ufeffversion = 1",
		"\xfe\xff",
		"a.b.c = 1\na.b.\"d e\" = \"\\u00e9\"\n[a.f]\n[a.f.g]",
	}
}

// Parse never panics. What it refuses names the file, and a line that exists. What
// it accepts is valid, keeps its shape when parsed again, and formats.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		c, err := Parse("host.toml", []byte(doc))
		if err != nil {
			var ce *Error
			if !errors.As(err, &ce) || len(ce.Problems) == 0 {
				t.Fatalf("error without problems: %v", err)
			}
			for _, p := range ce.Problems {
				if p.File != "host.toml" || p.What == "" || p.Remedy == "" || p.Line < 0 || p.Line > strings.Count(doc, "\n")+1 {
					t.Fatalf("bad problem %+v", p)
				}
			}
			return
		}
		if ps := c.validate(); len(ps) > 0 {
			t.Fatalf("accepted but invalid: %v", ps)
		}
		again, err := Parse("host.toml", []byte(doc))
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("parsed twice with different results: %v", err)
		}
		for _, s := range c.Effective() {
			if s.Key == "" || s.Origin == "" || s.Secret != (s.Value == redacted) {
				t.Fatalf("bad setting %+v", s)
			}
		}
		for _, p := range c.Unsupported() {
			if p.Key == "" || p.What == "" || p.Remedy == "" {
				t.Fatalf("bad problem %+v", p)
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"0s", "100ms", "60s", "30d", "1d12h", "90m", "1h0m1s", "-5s", "d", "1dd", "65535d2000000h", "5d-1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		again, err := ParseDuration(FormatDuration(d))
		if err != nil || again != d {
			t.Fatalf("%q is %d ns, written as %q, which is %d ns: %v", s, d, FormatDuration(d), again, err)
		}
	})
}
