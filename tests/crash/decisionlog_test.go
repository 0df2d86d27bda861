package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// logged are the ids in a file of decisions, sorted.
func logged(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var ids []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			ID string `json:"decision_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.ID == "" {
			t.Fatalf("%s has the line %q: %v", path, lines.Text(), err)
		}
		ids = append(ids, e.ID)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// TestDecisionsAreLoggedOnce: hosts are killed right after a commit, before the
// decision in it is logged, and at random; in the end the file has every decision of
// the ledger once.
func TestDecisionsAreLoggedOnce(t *testing.T) {
	for i, options := range []string{"", "\n[policy.log.http]\nurl = \"http://127.0.0.1:1\"\n", "\n[policy.log]\nsync = true\n"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if options == "" || i == 1 {
				options = "\n[policy.log]\nfile = \"decisions.jsonl\"\n" + options
			} else {
				options += "file = \"decisions.jsonl\"\n"
			}
			config, dir := newStage(t, options)
			w := newWorld(config, dir)
			for _, a := range []aim{{Commit: 9 + i}, {Commit: 6, After: true}, {Commit: 13 + 2*i}, {}} {
				after := time.Duration(0)
				if a == (aim{}) {
					after = time.Duration(40+30*i) * time.Millisecond
				}
				e, violations, err := w.live(a, after)
				if err != nil || len(violations) > 0 {
					t.Fatal(err, violations)
				}
				t.Logf("killed %v at %s, in %s", e.killed, e.where, e.stage)
			}
			if e, violations, err := w.live(aim{}, 0); err != nil || len(violations) > 0 || e.killed {
				t.Fatal(err, violations, e)
			}
			l, c, err := standard.OpenLedger(t.Context(), config, standard.Options{DataDir: w.data})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			records, _, err := l.Decisions(t.Context(), standard.DecisionFilter{})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, r := range records {
				want = append(want, r.ID())
			}
			slices.Sort(want)
			if got := logged(t, filepath.Join(filepath.Dir(config), "decisions.jsonl")); !slices.Equal(got, want) || len(want) < 10 {
				t.Errorf("%d lines, %d decisions\n%v\n%v", len(got), len(want), got, want)
			}
		})
	}
}
