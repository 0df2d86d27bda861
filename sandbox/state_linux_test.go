package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestCheckState(t *testing.T) {
	allocate := func(t *testing.T, file string, bytes int64) {
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, bytes), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string // of the error; empty: none
	}{
		"empty":        {func(*testing.T, string) {}, ""},
		"a ledger":     {func(t *testing.T, dir string) { allocate(t, filepath.Join(dir, LedgerFile), maxLedgerBytes) }, ""},
		"a large file": {func(t *testing.T, dir string) { allocate(t, filepath.Join(dir, "x"), maxStateBytes+4096) }, "more than 256 MiB"},
		"two files": {func(t *testing.T, dir string) {
			allocate(t, filepath.Join(dir, "x"), maxStateBytes/2)
			allocate(t, filepath.Join(dir, "y"), maxStateBytes/2+4096)
		}, "more than 256 MiB"},
		"many files": {func(t *testing.T, dir string) {
			for i := range maxStateFiles + 1 {
				write(t, filepath.Join(dir, strconv.Itoa(i)))
			}
		}, "more than 1000 files"},
		"a folder": {func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "d")) }, `the folder "d"`},
		"a link": {func(t *testing.T, dir string) {
			if err := os.Symlink("/", filepath.Join(dir, "l")); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"holes": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "x"))
			if err := os.Truncate(filepath.Join(dir, "x"), 1<<40); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			err := checkState(dir)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := checkState(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("a folder that is not there is within its bounds")
	}
}

// TestStateIsGuarded: a Hand that fills its own folder is ended, and not started with it
// again.
func TestStateIsGuarded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), nil)
		w.mustRun("r1", 1)
		mkdir(t, filepath.Join(w.tier.one(t).spec.State, "grown"))
		time.Sleep(2 * stateEvery)
		synctest.Wait()
		if _, running := w.tier.count(); running != 0 || w.state("r1") != EnvironmentHibernated {
			t.Errorf("it is %s, %d run", w.state("r1"), running)
		}
		_, err := w.invoke("r1", 2)
		wantKind(t, err, batch.ToolErrorPlacement)
		if err == nil || !strings.Contains(err.Error(), `the folder "grown"`) {
			t.Errorf("got %v", err)
		}
		if starts, _ := w.tier.count(); starts != 1 {
			t.Errorf("%d starts", starts)
		}
		if err := w.m.Release(t.Context(), "r1", true); err != nil {
			t.Error(err)
		}
	})
}
