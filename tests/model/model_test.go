package model

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// shard is how many histories one part of the test tries; there are 20 of them, which
// makes 10,000.
const shard = 500

// theme is a kind of history: what tools are called and what goes wrong.
type theme struct {
	name     string
	tools    *rapid.Generator[string]
	troubles string
	// exact themes have no fault of the store while runs are driven side by side. There
	// a fault strikes now here and now there, so that rapid finds the history again
	// sometimes only, and cannot make it shorter.
	exact  bool
	shards int
}

var themes = []theme{
	{"calm", localTools, "none", true, 1},
	{"calm delegations", allTools, "none", true, 2},
	{"crashes", localTools, "none*2 crash_before*2 crash_after*2", true, 5},
	{"crashes of delegations", treeTools, "none*2 crash_before*2 crash_after*2", true, 3},
	{"crashes side by side", allTools, "none*2 crash_before*2 crash_after*2", false, 2},
	{"passing faults", localTools, "none*2 fail_before fail_after fail_commit_before fail_commit_after", true, 2},
	{"passing faults of delegations", treeTools, "none fail_commit_before fail_commit_after", true, 1},
	{"hosts and people at once", localTools, "none*2 takeover*2 cancel_here cancel_there stop*3", true, 2},
	{"everything", allTools, "none*4 crash_before*2 crash_after*2 fail_commit_before fail_commit_after takeover*2 cancel_here cancel_there stop", false, 2},
}

// mustSee is what 10,000 histories come across, or they do not test what they should.
const mustSee = `answer tool, answer policy, answer blocked, answer denied, answer expired, answer invalid, answer placement,
	answer changed, answer failed, answer external, answer cancelled, schedule fired, attempted again, repeated after a stop,
	given up after a stop, state refused, amended, side by side, child parked, child refused, cancel reached a child, orphan cancelled,
	recorded, not recorded, record unreadable, withdrawn,
	crash Commit, crash Claim, crash Run, crash Batch, crash Ticket, crash State, crash Open, passing fault,
	takeover, cancel here, cancel there, stop`

// TestMain sets rapid's flags where the command line does not.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{
		"rapid.checks":     fmt.Sprint(shard),
		"rapid.steps":      "12",
		"rapid.nofailfile": "true", // the seed is enough to find a history again
		"rapid.shrinktime": "20s",
	} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// TestHistories tries random histories of every theme. A failure prints the shortest
// history found and the seed that finds it again.
func TestHistories(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	tried := 0
	t.Run("of", func(t *testing.T) {
		for _, th := range themes {
			for i := range th.shards {
				t.Run(fmt.Sprintf("%s %d", th.name, i+1), func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(t *rapid.T) {
						m := newMachine(th)
						t.Repeat(m.actions())
						m.end(t)
						mu.Lock()
						defer mu.Unlock()
						tried++
						for what, n := range m.ref.seen {
							seen[what] += n
						}
					})
				})
			}
		}
	})
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%6d %s", seen[what], what)
	}
	t.Logf("%d histories", tried)
	if t.Failed() || tried < 20*shard {
		return
	}
	for what := range strings.SplitSeq(mustSee, ",") {
		if seen[strings.TrimSpace(what)] == 0 {
			t.Errorf("no history came across %q", strings.TrimSpace(what))
		}
	}
	for class := range classes {
		if seen["error "+class] == 0 {
			t.Errorf("no history came across the error %q", class)
		}
	}
}
