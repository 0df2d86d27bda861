package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// filesIn lists what is in a store's folder of files.
func filesIn(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, filesFolder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func stateCommit(run batch.RunID, expect uint64, key string, value []byte) *batch.Commit {
	c := simple(run, expect)
	c.State = []batch.StateWrite{{Key: key, Value: value}}
	return c
}

func mustCommit(t testing.TB, s *Store, c *batch.Commit) {
	t.Helper()
	if err := s.Commit(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

// TestFilesShared follows one file from its first user to its last.
func TestFilesShared(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{})
	value := bytes.Repeat([]byte("v"), 3*largeBytes)
	count := func(want int, when string) {
		t.Helper()
		if have := filesIn(t, s.dir); len(have) != want {
			t.Fatalf("%s there are %d files, want %d", when, len(have), want)
		}
	}
	mustCommit(t, s, stateCommit("a", 0, "k", value[:largeBytes-200]))
	count(0, "with a value that is just small enough")
	mustCommit(t, s, stateCommit("a", 1, "k", value))
	mustCommit(t, s, stateCommit("a", 2, "l", value))
	mustCommit(t, s, stateCommit("b", 0, "k", value))
	count(1, "with three users of one content")
	mustCommit(t, s, stateCommit("a", 3, "k", value))
	count(1, "after the same value was set again")
	mustCommit(t, s, stateCommit("a", 4, "k", value[1:]))
	count(2, "with another content")
	mustCommit(t, s, stateCommit("a", 5, "k", []byte("small")))
	count(1, "after it became small")
	if err := s.Delete(ctx, "b", 1); err != nil {
		t.Fatal(err)
	}
	count(1, "without run b")
	mustCommit(t, s, stateCommit("a", 6, "l", nil))
	count(0, "without its last user")
	mustCommit(t, s, stateCommit("a", 7, "l", value))
	if err := s.Delete(ctx, "a", 8); err != nil {
		t.Fatal(err)
	}
	count(0, "without runs")
	if keys := keysOf(t, s, "a\x00"); len(keys) > 0 {
		t.Fatalf("%q are left", keys)
	}
}

// TestFilesOfCalls replaces tickets and calls that have files.
func TestFilesOfCalls(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	j := newJourney(1)
	c := j.request()
	long := strings.Repeat("why ", largeBytes)
	c.Tickets = []*batch.Ticket{
		{ID: "t", Run: c.Run.ID, Status: batch.TicketOpen, Prompt: "first " + long},
		{ID: "t", Run: c.Run.ID, Status: batch.TicketOpen, Prompt: long},
	}
	mustCommit(t, s, c)
	call := &j.b.Calls[0]
	if err := j.b.Start(0, &batch.Grant{Hosts: []string{long}}, benchTime); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, j.commit(&batch.Commit{Changed: []int{0}}))
	if n := len(filesIn(t, s.dir)); n != 2 {
		t.Fatalf("%d files for a ticket and a grant", n)
	}
	out := &batch.Output{CallID: call.Call.ID, Content: []batch.ContentBlock{batch.TextBlock(long + "!")}}
	if err := j.b.Complete(0, out, batch.AnswerTool, benchTime); err != nil {
		t.Fatal(err)
	}
	c = j.commit(&batch.Commit{Changed: []int{0}})
	c.Tickets = []*batch.Ticket{{ID: "t", Run: c.Run.ID, Status: batch.TicketDenied, Prompt: "short"}}
	mustCommit(t, s, c)
	if n := len(filesIn(t, s.dir)); n != 1 {
		t.Fatalf("%d files for an output", n)
	}
	b, err := s.Batch(ctx, j.r.ID, 1)
	if err != nil || b.Calls[0].Output.Content[0].Text != long+"!" || b.Calls[0].Grant.Hosts[0] != long {
		t.Fatal(err)
	}
	for i := 1; i < benchCalls; i++ { // smaller changes leave it alone
		mustCommit(t, s, j.move())
	}
	if n := len(filesIn(t, s.dir)); n != 1 {
		t.Fatalf("%d files at the end", n)
	}
}

// TestManySmallCalls is large in its light part.
func TestManySmallCalls(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	j := newJourney(1)
	c := j.request()
	for i := benchCalls; i < batch.MaxCalls; i++ {
		call := c.Batch.Calls[0]
		call.Call.Index, call.Call.ID = i, batch.CallID(fmt.Sprint("call", i))
		c.Batch.Calls = append(c.Batch.Calls, call)
	}
	mustCommit(t, s, c)
	if n := len(filesIn(t, s.dir)); n != 1 {
		t.Fatalf("%d files", n)
	}
	b, err := s.Batch(context.Background(), j.r.ID, 1)
	if err != nil || len(b.Calls) != batch.MaxCalls || string(b.Calls[1023].Call.Arguments) != string(c.Batch.Calls[0].Call.Arguments) {
		t.Fatal(err)
	}
}

// TestRefusedCommitLeavesNoFile covers refusals before and after the file is there.
func TestRefusedCommitLeavesNoFile(t *testing.T) {
	s := openStore(t, Options{})
	value := bytes.Repeat([]byte("v"), 2*largeBytes)
	if err := s.Commit(context.Background(), stateCommit("a", 7, "k", value)); !errors.Is(err, batch.ErrConflict) {
		t.Fatal(err)
	}
	if names := filesIn(t, s.dir); len(names) > 0 {
		t.Fatalf("%q stay behind", names)
	}
	mustCommit(t, s, stateCommit("a", 0, "k", value))
	if err := s.Commit(context.Background(), stateCommit("a", 7, "k", value)); !errors.Is(err, batch.ErrConflict) {
		t.Fatal(err)
	}
	if names := filesIn(t, s.dir); len(names) != 1 {
		t.Fatalf("the file of another commit went: %q", names)
	}
}

// TestOrphansAreSwept leaves behind what a killed process would.
func TestOrphansAreSwept(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("v"), 2*largeBytes)
	mustCommit(t, s, stateCommit("a", 0, "k", value))
	used := filesIn(t, dir)
	orphan := newContent([]byte("nobody's"), nil)
	if err := s.files.store(orphan); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, filesFolder, newFolder, "half")
	if err := errors.Join(os.WriteFile(half, []byte("half"), 0o600), s.Close(), os.Remove(filepath.Join(dir, cleanFile))); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	s.sweeper.wg.Wait()
	if have := filesIn(t, dir); len(have) != 1 || have[0] != used[0] {
		t.Fatalf("files are %q, want %q", have, used)
	}
	state, err := s.State(context.Background(), "a")
	if err := errors.Join(err, s.Close()); err != nil || !bytes.Equal(state["k"], value) {
		t.Fatal(len(state["k"]), err)
	}
}

// TestDamagedFileIsWrittenAgain commits the content of a file that is damaged.
func TestDamagedFileIsWrittenAgain(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{})
	value := bytes.Repeat([]byte("v"), 2*largeBytes)
	mustCommit(t, s, stateCommit("a", 0, "k", value))
	path := filesIn(t, s.dir)[0]
	for what, p := range map[string][]byte{"changed": append([]byte("x"), value[1:]...), "cut short": value[:100], "empty": {}} {
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.State(ctx, "a")
		if !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
			t.Fatalf("%s: read with %v", what, err)
		}
		mustCommit(t, s, stateCommit(batch.RunID("b-"+strings.ReplaceAll(what, " ", "")), 0, "k", value))
		if state, err := s.State(ctx, "a"); err != nil || !bytes.Equal(state["k"], value) {
			t.Fatalf("%s: not written again: %v", what, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.State(ctx, "a"); !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Fatalf("missing: read with %v", err)
	}
}

// TestFilesHammer lets runs with few contents come, change and go at once, beside
// readers. What is there can be read, and at the end there is what is used.
func TestFilesHammer(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	values := make([][]byte, 3)
	for i := range values {
		values[i] = bytes.Repeat([]byte{byte('a' + i)}, largeBytes+i)
	}
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				state, err := s.State(ctx, batch.RunID(fmt.Sprint("run", rand.IntN(6))))
				if err != nil {
					t.Error(err)
					return
				}
				if v := state["k"]; v != nil && len(v) < largeBytes {
					t.Errorf("%d bytes", len(v))
				}
			}
		})
	}
	for w := range 6 {
		writers.Go(func() {
			id, version := batch.RunID(fmt.Sprint("run", w)), uint64(0)
			for range 60 {
				if version > 0 && rand.IntN(3) == 0 {
					if err := s.Delete(ctx, id, version); err != nil {
						t.Error(err)
						return
					}
					version = 0
					continue
				}
				if err := s.Commit(ctx, stateCommit(id, version, "k", values[rand.IntN(3)])); err != nil {
					t.Error(err)
					return
				}
				version++
				if rand.IntN(4) == 0 {
					release := s.files.hold()
					defer release()
				}
			}
			if version > 0 {
				if err := s.Delete(ctx, id, version); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if names := filesIn(t, s.dir); len(names) > 0 || len(s.files.pins) > 0 || len(s.files.later) > 0 {
		t.Fatalf("%q, %d pins and %d removals are left", names, len(s.files.pins), len(s.files.later))
	}
}

// TestFormat1ValueLog reads what the first version of the store left in Badger's
// value log, and moves it to a file when it is written again.
func TestFormat1ValueLog(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithValueThreshold(32 << 10).WithValueLogFileSize(128 << 20).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("old "), 50<<10)
	err = db.Update(func(txn *badger.Txn) error {
		set := func(key []byte, rec string) {
			if err := txn.Set(key, []byte(rec)); err != nil {
				t.Error(err)
			}
		}
		set(schemaKey, "\x01M{\"version\":1}")
		set(runKey("run-1"), string(mustHex(t, golden1[kindRun])))
		set(stateKey("run-1", "large"), "\x01s"+string(value))
		set(stateKey("run-1", "small"), "\x01s1")
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for life := range 3 {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := s.State(ctx, "run-1")
		if err != nil || !bytes.Equal(state["large"], value) || string(state["small"]) != "1" {
			t.Fatalf("life %d: %d bytes and %q, %v", life, len(state["large"]), state["small"], err)
		}
		r, err := s.Run(ctx, "run-1")
		if err != nil || r.Version != 7+uint64(life) || r.Agent != "agent" {
			t.Fatalf("life %d: %+v, %v", life, r, err)
		}
		if life == 0 {
			if names := filesIn(t, dir); len(names) > 0 {
				t.Fatalf("files %q", names)
			}
		}
		c := &batch.Commit{Run: r, Expect: r.Version, State: []batch.StateWrite{{Key: "large", Value: value}}}
		if err := errors.Join(s.Commit(ctx, c), s.Close()); err != nil {
			t.Fatal(err)
		}
		if names := filesIn(t, dir); len(names) != 1 {
			t.Fatalf("files %q", names)
		}
	}
}
