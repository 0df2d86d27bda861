package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBlocks(t *testing.T) {
	for _, name := range documents(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, name)
			c := newConsole(t)
			without := map[string]bool{} // tools that are missing, and all that builds on them
			for _, b := range d.blocks {
				c.check(t, d, b, without)
			}
		})
	}
}

func (c *console) check(t *testing.T, d *document, b block, without map[string]bool) {
	t.Helper()
	fail := func(format string, a ...any) {
		t.Helper()
		t.Fatalf("%s:%d: "+format, append([]any{d.name, b.line}, a...)...)
	}
	switch b.kind {
	case "console":
		if without[b.rest] {
			return
		}
		if !has(t, d, b) {
			without[b.rest] = true
			return
		}
		c.run(t, d, b)
	case "toml":
		if part, ok := strings.CutPrefix(b.rest, "part of "); ok {
			if err := checkPart(t, part, b.text); err != nil {
				fail("%v", err)
			}
			return
		}
		name, more := strings.CutPrefix(b.rest, "add to ")
		text := b.text
		if more {
			old, err := os.ReadFile(filepath.Join(c.dir, filepath.FromSlash(name))) // #nosec G304 -- ours
			if err != nil {
				fail("%v", err)
			}
			text = string(old) + "\n" + text
		}
		if name == "" {
			fail("toml needs a file: toml FILE, toml add to FILE or toml part of NAME")
		}
		file := c.write(t, name, text)
		if err := checkTOML(t, file, text); err != nil {
			fail("%v", err)
		}
	case "rego":
		if b.rest != "" {
			c.write(t, b.rest, b.text)
		}
		if err := checkRego(t, b.text); err != nil {
			fail("%v", err)
		}
	case "json":
		if b.rest != "" {
			c.write(t, b.rest, b.text)
		}
		if err := checkJSON([]byte(b.text)); err != nil {
			fail("%v", err)
		}
	case "go":
		if b.rest != "" {
			c.write(t, b.rest, b.text)
		}
		if err := checkGo(t, b.text); err != nil {
			fail("%v", err)
		}
	case "c":
		if b.rest == "" || !d.mentions(b.rest) {
			fail("c needs a file that a console block compiles")
		}
		c.write(t, b.rest, b.text)
	case "mermaid":
		if err := checkDiagram(b.text); err != nil {
			fail("%v", err)
		}
	default:
		fail("a block of kind %q is not tested: see doc.go for the kinds", b.kind)
	}
}

// write puts a file into the document's folder.
func (c *console) write(t *testing.T, name, text string) string {
	t.Helper()
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		t.Fatalf("%q is no file below the document's folder", name)
	}
	file := filepath.Join(c.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// mentions reports whether a console block names a file.
func (d *document) mentions(file string) bool {
	for _, b := range d.blocks {
		if b.kind == "console" && strings.Contains(b.text, file) {
			return true
		}
	}
	return false
}
