package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// TestFreeSpaceGuard asks for more free space than any disk has.
func TestFreeSpaceGuard(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	ctx := context.Background()
	j := newJourney(0)
	if err := s.Commit(ctx, j.request()); err != nil {
		t.Fatal(err)
	}
	s.minFree = 1 << 62
	if err := s.Commit(ctx, j.move()); err != nil {
		t.Fatalf("a batch under way: %v", err)
	}
	if _, err := s.Claim(ctx, j.r.ID, "other", 9); err != nil {
		t.Fatalf("a claim: %v", err)
	}
	fresh := newJourney(1)
	err := s.Commit(ctx, fresh.request())
	if !errors.Is(err, batch.ErrDiskFull) || !strings.Contains(err.Error(), s.dir) || !strings.Contains(err.Error(), "free some space") {
		t.Fatalf("a new batch: %v", err)
	}
	if _, err := s.Run(ctx, fresh.r.ID); !errors.Is(err, batch.ErrNotFound) {
		t.Fatalf("it left a trace: %v", err)
	}
	s.dir = filepath.Join(s.dir, "gone")
	if err := s.Commit(ctx, newJourney(2).request()); !errors.Is(err, batch.ErrDiskFull) {
		t.Fatalf("free space that cannot be measured: %v", err)
	}
	s.minFree = -1
	if err := s.Commit(ctx, newJourney(3).request()); err != nil {
		t.Fatalf("without the guard: %v", err)
	}
}

func TestMinFreeMiB(t *testing.T) {
	for given, want := range map[int64]int64{0: 64 << 20, 5: 5 << 20} {
		if s := openStore(t, Options{MinFreeMiB: given}); s.minFree != want {
			t.Errorf("MinFreeMiB %d: %d bytes, want %d", given, s.minFree, want)
		}
	}
	if s := openStore(t, Options{MinFreeMiB: -1}); s.minFree >= 0 {
		t.Errorf("MinFreeMiB -1: %d bytes", s.minFree)
	}
}

func TestFolder(t *testing.T) {
	parent := t.TempDir()
	wide := filepath.Join(parent, "wide")
	if err := os.Mkdir(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(parent, "new", "er"), wide} {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(dir)
		if err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", dir, fi.Mode(), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil || errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file as folder: %v", err)
	}
}

// TestFolderSync creates a file between two syncs.
func TestFolderSync(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	fo, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer fo.close()
	at := fo.syncedAt
	if err := fo.syncIfChanged(); err != nil || !fo.syncedAt.Equal(at) {
		t.Fatalf("an unchanged folder was synced again: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00002.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fo.syncIfChanged(); err != nil || fo.syncedAt.Equal(at) {
		t.Fatalf("a new file was not synced: %v", err)
	}
}

// TestBadgerIsQuiet keeps Badger's chatter out of the log above debug level.
func TestBadgerIsQuiet(t *testing.T) {
	var out bytes.Buffer
	s, err := Open(t.TempDir(), Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Commit(context.Background(), simple("a", 0)), s.Close()); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("a store that has nothing to say said %q", out.String())
	}
	l := &badgerLog{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	l.Infof("tables %d\n", 3)
	l.Warningf("careful")
	l.Errorf(ignoredTableMessage+" %s", "000001.sst")
	for _, want := range []string{`level=DEBUG msg=badger text="tables 3"`, "level=WARN", "level=ERROR"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log %q has no %q", out.String(), want)
		}
	}
	if l.ignoredTable() == nil || l.syncFailure() != nil {
		t.Error("the table that was left out was not noticed")
	}
}

// TestIdleMemory opens a store and lets it idle: a host must stay far below
// 100 MiB.
func TestIdleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := openStore(t, Options{})
	if err := s.Commit(context.Background(), simple("a", 0)); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 40<<20 {
		t.Fatalf("an idle store holds %d MiB of heap", grown>>20)
	}
}

// TestCloseTwice also looks for the mark of a clean end.
func TestCloseTwice(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, cleanFile)); err != nil {
		t.Fatalf("no mark of a clean end: %v", err)
	}
}
