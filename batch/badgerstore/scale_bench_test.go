package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

const scaleRuns = 100_000

// BenchmarkRuns100k fills a store with 100,000 finished runs of one call each and
// ten open ones, and measures what must not grow with them.
//
//	page        Runs with a limit of 50, from places all over the store
//	one         Run, Batch and Events of one run
//	open        Open, the list of batches that are not finalized
//	commit      a new batch in a run of its own
//	start       Open and Close of the store, after a clean end
//	start-kill  Open of the store as a kill left it, with what the log has to recover
//	delete      Delete of a finished run
//	compact     Compact after 95 % of the runs are deleted; MB before and after. Run with
//	            -benchtime 1x for the time of the first
//
// With both starts there is a second figure, for a tenth of the runs.
func BenchmarkRuns100k(b *testing.B) {
	ctx := context.Background()
	small := fillStore(b, b.TempDir(), scaleRuns/10)
	dir := b.TempDir()
	s := fillStore(b, dir, scaleRuns)
	id := func(n int) batch.RunID { return benchRun(n * 7919 % scaleRuns) }

	b.Run("page", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			runs, err := s.Runs(ctx, id(n%1000), 50)
			if err != nil || len(runs) == 0 {
				b.Fatal(len(runs), err)
			}
		}
	})
	b.Run("one", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			_, err := s.Run(ctx, id(n))
			_, err2 := s.Batch(ctx, id(n), 1)
			events, err3 := s.Events(ctx, id(n), 0, 0)
			if err := errors.Join(err, err2, err3); err != nil || len(events) == 0 {
				b.Fatal(len(events), err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if open, err := s.Open(ctx); err != nil || len(open) != 10 {
				b.Fatal(len(open), err)
			}
		}
	})
	next := 2 * scaleRuns
	b.Run("commit", func(b *testing.B) {
		for b.Loop() {
			next++
			if err := s.Commit(ctx, newJourney(next).request()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("start", func(b *testing.B) { s = benchStart(b, s) })
	b.Run("start-tenth", func(b *testing.B) { small = benchStart(b, small) })
	b.Run("start-kill", func(b *testing.B) { benchKill(b, s) })
	b.Run("start-kill-tenth", func(b *testing.B) { benchKill(b, small) })
	deleted := 0
	b.Run("delete", func(b *testing.B) {
		for b.Loop() {
			if deleted == scaleRuns*19/20 {
				b.Fatal("no runs are left")
			}
			if err := deleteFinished(s, deleted); err != nil {
				b.Fatal(err)
			}
			deleted++
		}
	})
	deleteTo(b, s, deleted, scaleRuns*19/20)
	before := diskBytes(b, dir)
	b.Run("compact", func(b *testing.B) {
		for b.Loop() { // the first time counts; later there is nothing to do
			if err := s.Compact(ctx); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(before)/1e6, "MB-before")
		b.ReportMetric(float64(diskBytes(b, dir))/1e6, "MB-after")
	})
	b.Run("open-compacted", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Open(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := errors.Join(s.Close(), small.Close()); err != nil {
		b.Fatal(err)
	}
}

// fillStore makes runs with one call each, and ten that are open. It syncs nothing.
func fillStore(b *testing.B, dir string, runs int) *Store {
	b.Helper()
	s, err := Open(dir, Options{NoSync: true, MinFreeMiB: -1})
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= runs+10 {
					return
				}
				if err := oneCall(s, n, n < runs); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return s
}

// oneCall commits what the engine does for a batch of one call.
func oneCall(s *Store, n int, finish bool) error {
	ctx := context.Background()
	j := newJourney(n)
	c := j.request()
	j.b.Calls = j.b.Calls[:1]
	if err := s.Commit(ctx, c); err != nil || !finish {
		return err
	}
	c = j.move()
	c.Run.OpenStep = 0
	if err := j.b.Finalize(benchTime); err != nil {
		return err
	}
	return s.Commit(ctx, c)
}

func deleteFinished(s *Store, n int) error {
	r, err := s.Run(context.Background(), benchRun(n))
	if err != nil {
		return err
	}
	return s.Delete(context.Background(), r.ID, r.Version)
}

// deleteTo deletes the runs of a range.
func deleteTo(b *testing.B, s *Store, from, to int) {
	b.Helper()
	var next atomic.Int64
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= to {
					return
				}
				if err := deleteFinished(s, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func benchStart(b *testing.B, s *Store) *Store {
	dir := s.dir
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		s, err := Open(dir, Options{NoSync: true, MinFreeMiB: -1})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	s, err := Open(dir, Options{NoSync: true, MinFreeMiB: -1})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// benchKill opens copies of a store in use.
func benchKill(b *testing.B, s *Store) {
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		if err := s.Commit(context.Background(), newJourney(4*scaleRuns+n).request()); err != nil && !errors.Is(err, batch.ErrConflict) {
			b.Fatal(err)
		}
		killed := filepath.Join(b.TempDir(), "store")
		var err error
		for range 20 { // a compaction may take a table away in the middle
			if err = errors.Join(os.RemoveAll(killed), linkTables(killed, s.dir)); err == nil {
				break
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		k, err := Open(killed, Options{NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := k.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// linkTables makes a folder as a kill would leave it: the tables are linked, for they
// never change, and everything else is copied.
func linkTables(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case filepath.Ext(name) == ".sst":
			return os.Link(path, target)
		}
		p, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, p, 0o600)
	})
}

// diskBytes is what the folder takes on disk, without the parts of files that are
// holes.
func diskBytes(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == walSuffix || filepath.Ext(path) == ".vlog" {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			n += fi.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
	return n
}

// TestDiskIsReclaimed deletes most of what there is and compacts.
func TestDiskIsReclaimed(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	j := newJourney(0)
	value := make([]byte, largeBytes-500)
	for n := range 1000 {
		for i := range value {
			value[i] = byte(i*n + i/7 + n) // does not compress well
		}
		c := simple(batch.RunID(fmt.Sprint("run", n)), 0)
		c.State = []batch.StateWrite{{Key: "k", Value: value}}
		mustCommit(t, s, c)
	}
	mustCommit(t, s, j.request())
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	tables := func() (n int64) {
		names, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if fi, err := os.Stat(name); err == nil {
				n += fi.Size()
			}
		}
		return n
	}
	before := tables()
	for n := range 1000 {
		if n%50 == 0 {
			continue
		}
		if err := s.Delete(ctx, batch.RunID(fmt.Sprint("run", n)), 1); err != nil {
			t.Fatal(err)
		}
	}
	var readers sync.WaitGroup
	done := make(chan struct{})
	readers.Go(func() { // beside the compaction
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.State(ctx, batch.RunID(fmt.Sprint("run", n%20*50))); err != nil {
				t.Error(err)
			}
			if err := s.Commit(ctx, simple(batch.RunID(fmt.Sprint("other", n)), 0)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	err := s.Compact(ctx)
	close(done)
	readers.Wait()
	if after := tables(); err != nil || after > before/5 {
		t.Fatalf("%d of %d bytes of tables are left, %v", after, before, err)
	}
	for n := 0; n < 1000; n += 50 {
		state, err := s.State(ctx, batch.RunID(fmt.Sprint("run", n)))
		if err != nil || len(state["k"]) != len(value) {
			t.Fatal(len(state["k"]), err)
		}
	}
	if b, err := s.Batch(ctx, j.r.ID, 1); err != nil || len(b.Calls) != benchCalls {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Compact(cancelled); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
