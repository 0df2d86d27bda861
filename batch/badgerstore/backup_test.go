package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// dumpKeys has every record of a store, as it is stored.
func dumpKeys(t testing.TB, s *Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.view("", func(v *view) error {
		return v.scanRaw(context.Background(), nil, func(k, rec []byte) (bool, error) {
			out[string(k)] = string(rec)
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustBackup(t testing.TB, s *Store) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := s.Backup(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBackup(t *testing.T) {
	ctx := context.Background()
	fixture, want := damageFixture(t)
	s, err := Open(fixture, Options{})
	if err != nil {
		t.Fatal(err)
	}
	records, files := dumpKeys(t, s), filesIn(t, fixture)
	if len(files) == 0 {
		t.Fatal("the fixture has no large values")
	}
	whole := mustBackup(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{empty, filepath.Join(parent, "a", "new", "one")} {
		if err := Restore(ctx, dir, bytes.NewReader(whole)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := dump(s)
		if err != nil || got != want {
			t.Fatalf("%s has forgotten something, %v", dir, err)
		}
		if again := dumpKeys(t, s); len(again) != len(records) {
			t.Fatalf("%d records, want %d", len(again), len(records))
		}
		if again := filesIn(t, dir); len(again) != len(files) {
			t.Fatalf("%d files, want %d", len(again), len(files))
		}
		mustCommit(t, s, simple("later", 0))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Restore(ctx, dir, bytes.NewReader(whole)); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "not empty") {
			t.Fatalf("restored over a store: %v", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(parent, "*"))
	if err != nil || len(left) != 2 {
		t.Fatalf("%q are left, %v", left, err)
	}
}

// TestBackupDamaged cuts and changes a backup everywhere. Nothing is left behind.
func TestBackupDamaged(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	finishedRun(t, s, 1)
	mustCommit(t, s, stateCommit("large", 0, "k", bytes.Repeat([]byte("v"), largeBytes)))
	whole := mustBackup(t, s)
	parent := t.TempDir()
	refuse := func(what string, p []byte) {
		t.Helper()
		dir := filepath.Join(parent, "store")
		err := Restore(ctx, dir, bytes.NewReader(p))
		if !errors.Is(err, ErrBadBackup) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Fatalf("%s: %v are left, %v", what, left, err)
		}
	}
	step := max(1, len(whole)/15)
	for n := 0; n < len(whole); n += step {
		refuse(fmt.Sprint("cut at ", n), whole[:n])
		changed := bytes.Clone(whole)
		changed[n] ^= 0x10
		refuse(fmt.Sprint("changed at ", n), changed)
	}
	refuse("without its last byte", whole[:len(whole)-1])
	refuse("with a byte more", append(bytes.Clone(whole), 0))
	refuse("twice", append(bytes.Clone(whole), whole...))
	refuse("text", []byte(strings.Repeat("not a backup at all ", 100)))

	var out bytes.Buffer
	w := newStreamWriter(&out, quarantineStream, benchTime)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	refuse("a quarantine", out.Bytes())
	out.Reset()
	w = newStreamWriter(&out, backupStream, benchTime)
	w.record(userKey(digest{1}, []byte("c")), encodeIndex(kindUser))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	refuse("without a file that it names", out.Bytes())

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := Restore(cancelled, filepath.Join(parent, "store"), bytes.NewReader(whole)); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	if err := s.Backup(cancelled, &out); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

// failing takes so many bytes and no more.
type failing int

var errFull = errors.New("no space")

func (f *failing) Write(p []byte) (int, error) {
	if *f -= failing(len(p)); *f < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestBackupTellsWhatFailed(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	mustCommit(t, s, stateCommit("large", 0, "k", bytes.Repeat([]byte("v"), 10*largeBytes)))
	// The time in the head of each is up to ten bytes shorter than in the first one.
	for _, n := range []failing{0, 100, 70000, failing(len(mustBackup(t, s)) - 11)} {
		if err := s.Backup(ctx, &n); !errors.Is(err, errFull) {
			t.Errorf("a writer that is full: %v", err)
		}
	}
	path := filesIn(t, s.dir)[0]
	if err := os.WriteFile(path, bytes.Repeat([]byte("w"), 10*largeBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(ctx, &bytes.Buffer{}); !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Backup(ctx, &out); !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestBackupWhileInUse takes backups beside commits and deletions: each is the store
// as of one moment.
func TestBackupWhileInUse(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	var backups [][]byte
	done := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for round := 0; ; round++ {
				id := batch.RunID(fmt.Sprint("run", w))
				for v := range uint64(8) {
					select {
					case <-done:
						return
					default:
					}
					c := stateCommit(id, v, "large", bytes.Repeat([]byte{byte(v)}, largeBytes+w))
					c.State = append(c.State, batch.StateWrite{Key: "version", Value: []byte(fmt.Sprint(v + 1))})
					if err := s.Commit(ctx, c); err != nil {
						t.Error(err)
						return
					}
				}
				if err := s.Delete(ctx, id, 8); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 6 {
		backups = append(backups, mustBackup(t, s))
	}
	close(done)
	wg.Wait()
	for _, p := range backups {
		dir := filepath.Join(t.TempDir(), "store")
		if err := Restore(ctx, dir, bytes.NewReader(p)); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := r.Runs(ctx, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			state, err := r.State(ctx, run.ID)
			if err != nil || string(state["version"]) != fmt.Sprint(run.Version) || len(state["large"]) < largeBytes || state["large"][0] != byte(run.Version-1) {
				t.Fatalf("run %s at version %d: %s, %d bytes, %v", run.ID, run.Version, state["version"], len(state["large"]), err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreFormat1 moves large values of the first format to files.
func TestRestoreFormat1(t *testing.T) {
	value := bytes.Repeat([]byte("old "), 50<<10)
	var out bytes.Buffer
	w := newStreamWriter(&out, backupStream, benchTime)
	w.record(schemaKey, []byte("\x01M{\"version\":1}"))
	w.record(runKey("run-1"), mustHex(t, golden1[kindRun]))
	w.record(stateKey("run-1", "large"), append([]byte("\x01s"), value...))
	w.record(stateKey("run-1", "small"), []byte("\x01s1"))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if err := Restore(context.Background(), dir, &out); err != nil {
		t.Fatal(err)
	}
	if n := len(filesIn(t, dir)); n != 1 {
		t.Fatalf("%d files", n)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	state, err := s.State(context.Background(), "run-1")
	if err != nil || !bytes.Equal(state["large"], value) || string(state["small"]) != "1" {
		t.Fatal(len(state["large"]), err)
	}
	if keys := keysOf(t, s, "run-1"); !slices.ContainsFunc(keys, func(k string) bool { return k[0] == kindUser }) ||
		!slices.ContainsFunc(keys, func(k string) bool { return k[0] == kindFile }) {
		t.Fatalf("no index of the file: %q", keys)
	}
}

// FuzzStream reads arbitrary bytes as a stream: no panic, no large allocation, and
// nothing but a whole stream passes.
func FuzzStream(f *testing.F) {
	var out bytes.Buffer
	w := newStreamWriter(&out, backupStream, benchTime)
	w.record([]byte("key"), []byte("record"))
	w.file(newContent([]byte("content"), nil).digest, []byte("content"))
	if err := w.close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add(out.Bytes()[:40])
	f.Add([]byte(streamMagic + "R\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, p []byte) {
		var again bytes.Buffer
		var head streamHead
		var w *streamWriter
		err := streamReader{
			head:   func(h streamHead) error { head, w = h, newStreamWriter(&again, h.Kind, h.Created); return nil },
			record: func(k, rec []byte) error { w.record(k, rec); return nil },
			file:   func(d digest, content []byte) error { w.file(d, content); return nil },
		}.read(bytes.NewReader(p))
		if err != nil {
			if !errors.Is(err, ErrBadBackup) {
				t.Fatal(err)
			}
			return
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if head.Schema == schemaVersion && !bytes.Equal(again.Bytes(), p) && bytes.Equal(p, out.Bytes()) {
			t.Fatal("the stream comes back changed")
		}
	})
}

// TestRestoreBesideTheSweep: a store that was just opened sweeps its folder of
// files that nothing names; those of a restore are not yet named.
func TestRestoreBesideTheSweep(t *testing.T) {
	fixture, _ := damageFixture(t)
	s, err := Open(fixture, Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := mustBackup(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := Restore(t.Context(), filepath.Join(t.TempDir(), "store"), bytes.NewReader(whole)); err != nil {
			t.Fatalf("restore %d: %v", i, err)
		}
	}
}
