package wasm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Each way to use up a disk ends at the quota, and what is removed counts no more.
func TestFilesQuotaOfBytes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "before"), strings.Repeat("b", 100_000))
	var log bytes.Buffer
	g := filesRig(t, Options{Logger: logTo(&log)}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw", MaxMiB: 1}})
	g.steps(`
		fill /w/a 400000 => ok
		fill /w/b 600000 => EIO
		truncate /w/a 2000000 => EIO
		pwrite /w/a 1099511627776 => EIO
		allocate /w/c 4000000000 => EIO
		unlink /w/c => ok
		size /w/a => ok 400000
		unlink /w/b => ok
		fill /w/b 300000 => ok
		truncate /w/b 0 => ok
		fill /w/a 300000 => ok
		write /w/a small => ok
		fill /w/b 800000 => ok
		rename /w/a /w/b => ok
		fill /w/a 800000 => ok
		unlink /w/a => ok
		orphans /w/o 20 => EIO 3
		fill /w/a 900000 => ok
		unlink /w/a => ok
		many /w 10000 => EIO 230
	`)
	if !strings.Contains(log.String(), "the folder may hold 1 MiB (max_mib) and is full") {
		t.Errorf("the log does not name the quota:\n%s", clip(log.String()))
	}
	u, err := measure(context.Background(), openRoot(t, dir), ".")
	must(t, err)
	if u.bytes > 1<<20 {
		t.Errorf("the folder holds %d bytes", u.bytes)
	}
}

func openRoot(tb testing.TB, dir string) *os.Root {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	must(tb, err)
	tb.Cleanup(func() { _ = root.Close() })
	return root
}

func TestFilesQuotaOfFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sub", "before"), "")
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw", MaxFiles: 10}})
	g.steps(`
		many /w 100 => EIO 8
		mkdir /w/d => EIO
		fill /w/f000001 5000000 => ok
		unlink /w/f000001 => ok
		mkdir /w/d => ok
		write /w/x => EIO
		rmdir /w/d => ok
		rename /w/f000002 /w/f000003 => ok
		write /w/x => ok
		write /w/y => ok
		write /w/z => EIO
	`)
}

// The result of a tool that fails names the quota: WASI has no number for it.
func TestFilesQuotaIsNamed(t *testing.T) {
	dir := t.TempDir()
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw", MaxMiB: 1, MaxFiles: 2}})
	bad(t, g.call("files", `{"script":"fill /w/a 900000\ntruncate /w/a 3000000\nmkdir /w/b\nmkdir /w/c\nfail\n"}`),
		"ended with exit status 7", "/w/a: the folder may hold 1 MiB (max_mib) and is full", "/w/c: the folder may hold 2 files and folders (max_files) and is full")
	// A tool that copes with it does not have it in its result.
	if out := g.call("files", `{"script":"fill /w/a 2000000\n"}`); out.IsError || strings.Contains(out.Text(), "max_mib") {
		t.Errorf("got %s", out.Text())
	}
}

// It does under every isolation, each call its own.
func TestFilesQuotaIsNamedWhereInstancesAreKept(t *testing.T) {
	for _, i := range []plugins.Isolation{plugins.IsolationCall, plugins.IsolationRun, plugins.IsolationShared} {
		dir := t.TempDir()
		p := newPlugin(guest(t, "two_folders.wat"), plugins.ABIExtism, tool("two_folders", isolation(i)))
		grantPaths(p, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw", MaxFiles: 1}})
		g := newRig(t, newRuntime(t, Options{}), p)
		bad(t, g.call("two_folders", `{}`), "failed with status 1", "was refused in its folders: /w/b: the folder may hold 1 files and folders")
		write(t, filepath.Join(dir, "b", "file"), "") // what is there is not asked for again
		if out := g.call("two_folders", `{}`); strings.Contains(out.Text(), "was refused") {
			t.Errorf("%s: got %s", i, out.Text())
		}
	}
}

// All instances share the folder's quota, under different names of the folder too.
func TestFilesQuotaIsShared(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	g := filesRig(t, Options{MaxConcurrent: 4}, map[string]plugins.PathGrant{
		"/w": {Host: dir, Mode: "rw", MaxMiB: 2, MaxFiles: 300}, "/v": {Host: link, Mode: "rw", MaxMiB: 2, MaxFiles: 300},
	})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			mount := []string{"/w", "/v"}[i%2]
			steps := []string{"mkdir " + fmt.Sprintf("%s/d%d", mount, i)}
			for k := range 8 {
				file := fmt.Sprintf("%s/d%d/f%d", mount, i, k)
				steps = append(steps, "fill "+file+" 150000", "append "+mount+"/common x", "unlink "+file, "fill "+file+" 90000")
			}
			g.script(append(steps, fmt.Sprintf("many %s/d%d 100", mount, i)))
		})
	}
	wg.Wait()
	u, err := measure(context.Background(), openRoot(t, dir), ".")
	must(t, err)
	if filled := u.files > 50 || u.bytes > 1<<20; u.bytes > 2<<20 || u.files > 300 || !filled {
		t.Errorf("the folder holds %d bytes and %d files", u.bytes, u.files)
	}
	info, err := os.Stat(dir)
	must(t, err)
	d, err := g.r.folders.take(info)
	must(t, err)
	defer d.release()
	if d.held.bytes != u.bytes || d.held.files != u.files || len(d.nodes) != 0 || d.refs != 1 {
		t.Errorf("counted %d bytes and %d files, there are %d and %d; %d open, %d users", d.held.bytes, d.held.files, u.bytes, u.files, len(d.nodes), d.refs)
	}
	if common, err := os.Stat(filepath.Join(dir, "common")); err == nil && common.Size() > 48 {
		t.Errorf("what was appended has %d bytes", common.Size())
	}
}

// What others do to the folder is found when it is measured again: at once when a
// write would be refused, within a minute otherwise.
func TestFilesQuotaAndOthers(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := newJail(t, &Runtime{}, mount{guest: "/w", host: dir, write: true, maxBytes: 1 << 20})
		put := func(name string, bytes int) experimentalsys.Errno {
			f, errno := j.OpenFile(name, experimentalsys.O_CREAT|experimentalsys.O_RDWR, 0)
			if errno != 0 {
				return errno
			}
			defer f.Close()
			_, errno = f.Write(make([]byte, bytes))
			return errno
		}
		if errno := put("a", 500_000); errno != 0 {
			t.Fatal(errno)
		}
		write(t, filepath.Join(dir, "theirs"), strings.Repeat("x", 900_000))
		if errno := put("b", 100_000); errno != 0 {
			t.Errorf("what came from others is already known: %v", errno)
		}
		time.Sleep(2 * time.Minute)
		if errno := put("c", 100_000); errno != experimentalsys.EIO {
			t.Errorf("after two minutes what came from others is not known: %v", errno)
		}
		must(t, os.Remove(filepath.Join(dir, "theirs")))
		time.Sleep(2 * time.Second)
		if errno := put("c", 100_000); errno != 0 {
			t.Errorf("after two seconds it is not known that there is room: %v", errno)
		}
		must(t, os.Mkdir(filepath.Join(dir, "locked"), 0o000))
	})
}

func newJail(tb testing.TB, r *Runtime, m mount) *jail {
	tb.Helper()
	if r.log == nil {
		r.log = logTo(tb.Output())
	}
	s, err := r.openMounts([]mount{m})
	must(tb, err)
	tb.Cleanup(s.close)
	return s.jails[0]
}

// A folder that is too large to be measured is not written to.
func TestFilesQuotaThatCannotBeHeld(t *testing.T) {
	dir := t.TempDir()
	j := newJail(t, &Runtime{}, mount{guest: "/w", host: dir, write: true, maxFiles: 10})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	j.set.begin(ctx, nil)
	if errno := j.Mkdir("d", 0); errno != experimentalsys.EIO {
		t.Errorf("Mkdir = %v", errno)
	}
	if got := j.set.refusals(); got != "/w/d: its quota cannot be held: context canceled" {
		t.Errorf("refusals = %q", got)
	}
	j.set.begin(context.Background(), nil)
	if errno := j.Mkdir("d", 0); errno != 0 {
		t.Errorf("Mkdir = %v", errno)
	}
}

func TestCostOf(t *testing.T) {
	for size, want := range map[int64]int64{0: 4096, 1: 4096, 4096: 4096, 4097: 8192, 1 << 40: 1 << 40} {
		if got := costOf(size); got != want {
			t.Errorf("costOf(%d) = %d, want %d", size, got, want)
		}
	}
}
