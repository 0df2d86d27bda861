package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/badgerstore"
)

func wantLocked(t *testing.T, dir string, texts ...string) {
	t.Helper()
	s, err := badgerstore.Open(dir, badgerstore.Options{})
	if err == nil {
		_ = s.Close()
		t.Fatal("a store that is held was opened")
	}
	if !errors.Is(err, badgerstore.ErrLocked) || errors.Is(err, batch.ErrCorrupt) {
		t.Fatalf("error is %v, want one that is %q", err, badgerstore.ErrLocked)
	}
	for _, text := range append(texts, dir, "stop") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

func TestLockedByAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir, "hold")
	wantLocked(t, dir, fmt.Sprint("process ", c.cmd.Process.Pid), "since 20")
	wantLocked(t, dir, fmt.Sprint("process ", c.cmd.Process.Pid)) // the first refusal changed nothing

	// What SIGKILL leaves behind is harmless.
	c.kill()
	for _, name := range []string{"OWNER", "LOCK"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("the test needs the killed process's %s: %v", name, err)
		}
	}
	s := open(t, dir, badgerstore.Options{})
	if err := s.Commit(context.Background(), &batch.Commit{Run: &batch.Run{ID: "a"}}); err != nil {
		t.Fatal(err)
	}
}

func TestLockedByThisProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, badgerstore.Options{})
	wantLocked(t, dir, "this very process", fmt.Sprint(os.Getpid()))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, badgerstore.Options{})
}

// TestLockedByBadger holds the folder the way Badger's own tools do.
func TestLockedByBadger(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir, badgerstore.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	wantLocked(t, dir, fmt.Sprint("process ", os.Getpid()))
}

func TestStaleOwnerNote(t *testing.T) {
	for name, note := range map[string]string{
		"garbage": "\x00\xff", "empty": "", "a live process": fmt.Sprintf(`{"pid":%d}`, os.Getpid()), "no process": `{"pid":999999999}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "OWNER"), []byte(note), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "LOCK"), []byte("1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			open(t, dir, badgerstore.Options{})
		})
	}
}
