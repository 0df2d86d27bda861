package hostile

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/SECURITY.md")

func (a *attack) title() string {
	if a.name != "" {
		return a.name
	}
	return a.guest
}

// source is the file of a guest.
func source(t *testing.T, guest string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("guests", guest+".*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("guest %s has the sources %v (%v), want one", guest, found, err)
	}
	return found[0]
}

// trickOf is the comment that a source begins with, in one line.
func trickOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "#!/bin/sh" {
			continue
		}
		rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimLeft(line, "/;#* "), "*"))
		if !strings.HasPrefix(line, "/*") && !strings.HasPrefix(line, ";;") && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "*") ||
			strings.HasPrefix(line, "#include") {
			break
		}
		words = append(words, strings.TrimSpace(strings.TrimSuffix(rest, "*/")))
	}
	return strings.Join(words, " ")
}

const (
	tableBegins = "<!-- the table of attacks: go generate ./tests/hostile -->\n"
	tableEnds   = "<!-- end of the table of attacks -->\n"
)

// TestTable holds docs/SECURITY.md to the attacks.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	seen := map[string]bool{}
	for _, p := range promises {
		fmt.Fprintf(&b, "\n**%s**\n\n| attack | what it tries | what comes of it |\n|---|---|---|\n", p.name)
		for _, a := range p.attacks {
			if seen[a.title()] {
				t.Errorf("two attacks are called %s", a.title())
			}
			seen[a.title()] = true
			file := source(t, a.guest)
			trick := a.trick
			if trick == "" {
				trick = trickOf(t, file)
			}
			if trick == "" || a.outcome == "" {
				t.Errorf("%s says not what it tries, or not what comes of it", a.title())
			}
			fmt.Fprintf(&b, "| [`%s`](../tests/hostile/%s) | %s | %s |\n", a.title(), filepath.ToSlash(file), trick, a.outcome)
		}
	}
	b.WriteString("\n")
	const file = "../../docs/SECURITY.md"
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table: %s", file, strings.TrimSpace(tableBegins))
	}
	want := before + tableBegins + b.String() + tableEnds + after
	if want == string(doc) {
		return
	}
	if !*update {
		t.Fatalf("the table of attacks in %s is out of date: go generate ./tests/hostile", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEveryGuestAttacks finds guests that no attack uses.
func TestEveryGuestAttacks(t *testing.T) {
	used := map[string]bool{"neighbour": true}
	for _, p := range promises {
		for _, a := range p.attacks {
			used[a.guest] = true
		}
	}
	files, err := os.ReadDir("guests")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, ext, _ := strings.Cut(f.Name(), ".")
		if ext != "h" && !used[name] {
			t.Errorf("no attack uses guests/%s", f.Name())
		}
	}
	if len(used)-1 < 30 {
		t.Errorf("%d guests", len(used)-1)
	}
}
