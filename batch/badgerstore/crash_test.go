package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/badgerstore"
)

// TestCrash kills a process that commits, at random times, and checks after each
// kill that every acknowledged commit is there and that none is there in part.
func TestCrash(t *testing.T) {
	kills := 6
	if testing.Short() {
		kills = 2
	}
	dir := t.TempDir()
	acknowledged := map[batch.RunID]uint64{}
	for n := range kills {
		c := startChild(t, dir, "commit")
		time.Sleep(time.Duration(20+rand.IntN(400)) * time.Millisecond)
		lines := c.kill()
		for _, line := range lines {
			id, v, _ := strings.Cut(line, " ")
			version, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				continue // cut off by the kill
			}
			acknowledged[batch.RunID(id)] = max(acknowledged[batch.RunID(id)], version)
		}
		s, err := badgerstore.Open(dir, badgerstore.Options{Logger: testLogger(t)})
		if err != nil {
			t.Fatalf("open after kill %d: %v", n, err)
		}
		for id, version := range acknowledged {
			checkCrashRun(t, s, id, version)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("kill %d: %d acknowledged commits in this life", n, len(lines))
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was ever committed")
	}
}

func checkCrashRun(t *testing.T, s *badgerstore.Store, id batch.RunID, atLeast uint64) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("run %s: %v", id, err)
		}
	}
	r, err := s.Run(ctx, id)
	must(err)
	v := r.Version
	// One commit may have become durable before its acknowledgement was printed.
	if v < atLeast || v > atLeast+1 {
		t.Fatalf("run %s is at version %d, acknowledged was %d", id, v, atLeast)
	}
	events, err := s.Events(ctx, id, 0, 0)
	must(err)
	decisions, err := s.Decisions(ctx, id)
	must(err)
	tickets, err := s.Tickets(ctx, batch.TicketFilter{Run: id, Open: true})
	must(err)
	state, err := s.State(ctx, id)
	must(err)
	if uint64(len(events)) != 2*v || uint64(len(decisions)) != v || uint64(len(tickets)) != v || string(state["version"]) != fmt.Sprint(v-1) {
		t.Fatalf("run %s at version %d: %d events, %d decisions, %d tickets, state %s",
			id, v, len(events), len(decisions), len(tickets), state["version"])
	}
	for step := 1; uint64(step) <= (v+1)/2; step++ {
		b, err := s.Batch(ctx, id, step)
		must(err)
		finalized := uint64(step) <= v/2
		if (b.Phase == batch.BatchFinalized) != finalized || (b.Next() < 0) != finalized {
			t.Fatalf("run %s at version %d: batch %d is %s, next call %d", id, v, step, b.Phase, b.Next())
		}
	}
	if _, err := s.Batch(ctx, id, int(v+1)/2+1); !errors.Is(err, batch.ErrNotFound) {
		t.Fatalf("run %s at version %d has a batch too many: %v", id, v, err)
	}
}
