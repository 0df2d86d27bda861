package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReportIsCurrent: docs/RELIABILITY.md is what make crash writes today, but for the
// numbers of the run that wrote it.
func TestReportIsCurrent(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "RELIABILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(data)
	for _, prose := range regexp.MustCompile(`\{\{[^}]*\}\}`).Split(reportText, -1) {
		_, after, ok := strings.Cut(rest, prose)
		if !ok {
			t.Fatalf("docs/RELIABILITY.md is not what make crash writes; it lacks, or has elsewhere:\n%s", prose)
		}
		rest = after
	}
	kills := regexp.MustCompile(`(?m)^\| kills \| (\d{4,}) \|$`)
	if !kills.Match(data) {
		t.Error("docs/RELIABILITY.md tells of fewer than 1000 kills")
	}
	if !strings.Contains(string(data), "| **invariants broken** | **0** |") {
		t.Error("docs/RELIABILITY.md tells of broken invariants")
	}
	for kind := range kinds(scene()) {
		if !strings.Contains(string(data), "\n| "+kind+" |") {
			t.Errorf("docs/RELIABILITY.md tells nothing of kind %q", kind)
		}
	}
}

func kinds(runs []run) map[string]bool {
	all := map[string]bool{}
	for _, c := range calls(runs) {
		all[c.kind] = true
	}
	return all
}
