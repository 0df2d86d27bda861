package sandboxtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

var update = flag.Bool("update", false, "write the table in docs/SECURITY.md")

const (
	tableBegins = "<!-- the table of escapes: go generate ./sandbox/sandboxtest -->\n"
	tableEnds   = "<!-- end of the table of escapes -->\n"
)

// TestEscapeTable holds docs/SECURITY.md to what Escapes demands of each tier.
func TestEscapeTable(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n| attempt | what it tries | %s |\n|---|---|%s\n", strings.Join(sandbox.Tiers, " | "), strings.Repeat("---|", len(sandbox.Tiers)))
	seen := map[string]bool{}
	for _, e := range escapes {
		if seen[e.name] || e.tries == "" {
			t.Errorf("the attempt %q is there twice, or says not what it tries", e.name)
		}
		seen[e.name] = true
		fmt.Fprintf(&b, "| %s | %s |", e.name, e.tries)
		for _, tier := range sandbox.Tiers {
			o := e.outcome(tier)
			if o == open {
				o = "**open**"
			}
			fmt.Fprintf(&b, " %s |", o)
		}
		b.WriteString("\n")
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
		t.Fatalf("the table of escapes in %s is out of date: go generate ./sandbox/sandboxtest", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}
