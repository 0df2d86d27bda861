package wasm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// A policy drops a folder or makes it read-only, and never the other way.
func TestMountsAreNarrowed(t *testing.T) {
	p := newPlugin(nil, plugins.ABIWASI)
	grantPaths(p, map[string]plugins.PathGrant{"/r": {Host: "/host/r", Mode: "ro"}, "/w": {Host: "/host/w", Mode: "rw", MaxMiB: 2, MaxFiles: 3}})
	tests := []struct {
		name  string
		grant *batch.Grant
		want  string
	}{
		{"no grant", nil, "/r ro, /w rw"},
		{"another thing", &batch.Grant{MemoryMiB: 1}, "/r ro, /w rw"},
		{"nothing", &batch.Grant{Paths: map[string]string{}}, ""},
		{"one", &batch.Grant{Paths: map[string]string{"/r": "ro"}}, "/r ro"},
		{"to read", &batch.Grant{Paths: map[string]string{"/w": "ro"}}, "/w ro"},
		{"wider", &batch.Grant{Paths: map[string]string{"/r": "rw", "/w": "rw"}}, "/r ro, /w rw"},
		{"another", &batch.Grant{Paths: map[string]string{"/x": "rw", "/w/": "rw"}}, ""},
		{"odd", &batch.Grant{Paths: map[string]string{"/r": "", "/w": "RW"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, m := range mountsOf(p, tt.grant) {
				mode := "ro"
				if m.write {
					mode = "rw"
				}
				got = append(got, m.guest+" "+mode)
				if want := "/host" + m.guest; m.host != want {
					t.Errorf("%s is %s", m.guest, m.host)
				}
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	p.Grant = nil
	if got := mountsOf(p, nil); got != nil {
		t.Errorf("without an operator's grant: %v", got)
	}
}

// A narrowed call sees less, in an instance of its own, and the next one sees all.
func TestNarrowedCallsSeeLess(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/a": {Host: dir, Mode: "rw"}, "/b": {Host: dir, Mode: "rw"}})
	grant := func(paths map[string]string) func(*batch.Call) {
		return func(c *batch.Call) { c.Grant = &batch.Grant{Paths: paths} }
	}
	g.steps("read /a/f => ok x\nread /b/f => ok x\nover /b/f y => ok")
	g.steps("read /a/f => ok y\nover /a/f z => EROFS\nread /b/f => ENOTCAPABLE", grant(map[string]string{"/a": "ro"}))
	g.steps("read /a/f => ENOTCAPABLE\nread /b/f => ENOTCAPABLE", grant(map[string]string{}))
	g.steps("over /a/f z => ok\nread /b/f => ok z")
}

// A folder that is not there is found when the plugin is loaded, and says so
// without the host's path when it goes away later.
func TestMissingFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}})
	err := g.r.Load(context.Background(), g.p)
	if err == nil || !strings.Contains(err.Error(), `"/w" stands for the folder `+dir+`, which cannot be opened: no such file or directory; make it (mkdir -p `+dir+`)`) {
		t.Fatalf("Load = %v", err)
	}
	write(t, dir, "a file")
	if err := g.r.Load(context.Background(), g.p); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("Load = %v", err)
	}
	must(t, os.Remove(dir))
	must(t, os.Mkdir(dir, 0o700))
	must(t, g.r.Load(context.Background(), g.p))
	g.steps("write /w/f x => ok")
	must(t, os.RemoveAll(dir))
	for _, when := range []string{"loaded", "let go of"} {
		_, err = g.exec.Invoke(context.Background(), g.newCall("files", `{"script":"list /w\n"}`))
		if err == nil || !strings.Contains(err.Error(), "the folder granted at /w cannot be opened: no such file") || strings.Contains(err.Error(), dir) {
			t.Errorf("Invoke of a plugin that is %s = %v", when, err)
		}
		g.r.sweep(time.Now().Add(time.Hour))
	}
}

// Extism plugins have their folders too, under every isolation, and their files are
// closed when they end.
func TestFilesOfExtismPlugins(t *testing.T) {
	dir := t.TempDir()
	p := newPlugin(guest(t, "goguest"), plugins.ABIExtism,
		tool("os_use", encoding("json", "text")), tool("os_use", named("run"), encoding("json", "text"), isolation(plugins.IsolationRun)))
	grantPaths(p, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}, "/r": {Host: dir, Mode: "ro"}})
	r := newRuntime(t, Options{})
	g := newRig(t, r, p)
	for _, id := range []string{"os_use", "run", "run"} {
		good(t, g.call(id, `{}`), "fine")
	}
	if n := r.openFiles.Load(); n > 8 {
		t.Errorf("%d files are open", n)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("left over: %v", entries)
	}
}

// Another process changes the tree while it is used: folders become links and come
// back. Nothing outside is read or written.
func TestFilesRaces(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "jail")
	write(t, filepath.Join(outside, "target", "f"), "SECRET")
	write(t, filepath.Join(dir, "real", "f"), "inside")
	write(t, filepath.Join(dir, "file"), "inside")
	j := newJail(t, &Runtime{}, mount{guest: "/w", host: dir, write: true, maxBytes: 1 << 20})

	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() { // the swap
		d, f := filepath.Join(dir, "d"), filepath.Join(dir, "s")
		for !stop.Load() {
			_ = os.Symlink(filepath.Join(outside, "target"), d)
			_ = os.Symlink("../target/f", f)
			_ = os.Remove(d)
			_ = os.Remove(f)
			_ = os.Rename(filepath.Join(dir, "real"), d)
			_ = os.Link(filepath.Join(outside, "target", "f"), f)
			_ = os.Rename(d, filepath.Join(dir, "real"))
			_ = os.Remove(f)
			_ = os.Rename(filepath.Join(dir, "file"), f)
			_ = os.Rename(f, filepath.Join(dir, "file"))
		}
	})
	reads, buf := 0, make([]byte, 64)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		for _, name := range []string{"d/f", "s", "d/../d/f"} {
			for _, flag := range []experimentalsys.Oflag{
				experimentalsys.O_RDONLY, experimentalsys.O_RDWR, experimentalsys.O_RDONLY | experimentalsys.O_NOFOLLOW,
				experimentalsys.O_RDWR | experimentalsys.O_APPEND,
			} {
				f, errno := j.OpenFile(name, flag, 0)
				if errno != 0 {
					continue
				}
				n, _ := f.Pread(buf, 0)
				if strings.Contains(string(buf[:n]), "SECRET") {
					t.Fatalf("%s with %b read %q", name, flag, buf[:n])
				}
				reads++
				if flag != experimentalsys.O_RDONLY {
					_, _ = f.Write([]byte("i"))
				}
				f.Close()
			}
			_ = j.Utimens(name, 1000, 1000)
			_, _ = j.Readlink(name)
		}
		_ = j.Rename("d/f", "d/g")
		_ = j.Rename("d/g", "d/f")
		_ = j.Rename("real/g", "real/f")
		_ = j.Unlink("d/none")
		_ = j.Mkdir("d/made", 0)
		_ = j.Rmdir("d/made")
	}
	stop.Store(true)
	wg.Wait()
	info, err := os.Stat(filepath.Join(outside, "target", "f"))
	must(t, err)
	if got, err := os.ReadFile(filepath.Join(outside, "target", "f")); err != nil || string(got) != "SECRET" {
		t.Errorf("the file outside is %q, %v", got, err)
	}
	if info.ModTime().Year() < 2000 {
		t.Error("the times of the file outside were set")
	}
	if entries, err := os.ReadDir(filepath.Join(outside, "target")); err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
	if reads == 0 {
		t.Error("nothing was ever opened, so nothing was tried")
	}
}

// A granted folder stays the one it was when the instance began.
func TestFilesOfAFolderThatIsReplaced(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "work")
	write(t, filepath.Join(dir, "f"), "mine")
	write(t, filepath.Join(parent, "other", "f"), "other")
	j := newJail(t, &Runtime{}, mount{guest: "/w", host: dir})
	must(t, os.Rename(dir, filepath.Join(parent, "away")))
	must(t, os.Symlink("other", dir))
	f, errno := j.OpenFile("f", experimentalsys.O_RDONLY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer f.Close()
	buf := make([]byte, 16)
	if n, _ := f.Read(buf); string(buf[:n]) != "mine" {
		t.Errorf("read %q", buf[:n])
	}
}

// FuzzJailPath gives the file system names that no library would let through.
func FuzzJailPath(f *testing.F) {
	outside := f.TempDir()
	dir := filepath.Join(outside, "jail")
	write(f, filepath.Join(outside, "secret"), "SECRET")
	write(f, filepath.Join(dir, "a", "b"), "inside")
	for link, target := range map[string]string{"up": "..", "abs": outside, "s": "../secret", "a/in": "../a/b", "a/up": "../.."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			f.Fatal(err)
		}
	}
	for _, seed := range []string{"a/b", "/../secret", "a/../../secret", "up/secret", "abs/secret", "a/up/secret", "s", "//secret", "a/in", "./.", "", "a/b/", "a\x00b", "..", strings.Repeat("x/", 3000)} {
		f.Add(seed, uint32(0))
		f.Add(seed, uint32(experimentalsys.O_CREAT|experimentalsys.O_RDWR|experimentalsys.O_TRUNC))
	}
	j := newJail(f, &Runtime{}, mount{guest: "/w", host: dir, write: true, maxFiles: 1000})
	f.Fuzz(func(t *testing.T, name string, flag uint32) {
		j.set.begin(context.Background(), nil)
		if file, errno := j.OpenFile(name, experimentalsys.Oflag(flag), 0); errno == 0 {
			buf := make([]byte, 16)
			if n, _ := file.Pread(buf, 0); strings.Contains(string(buf[:n]), "SECRET") {
				t.Errorf("%q read the file outside", name)
			}
			_, _ = file.Write([]byte("w"))
			file.Close()
		}
		if target, errno := j.Readlink(name); errno == 0 && (filepath.IsAbs(target) || strings.Contains(target, outside)) {
			t.Errorf("%q shows %q", name, target)
		}
		_ = j.Mkdir(name, 0)
		_ = j.Rename(name, "a/moved")
		_ = j.Rename("a/moved", name)
		_ = j.Utimens(name, 1, 1)
		_ = j.Unlink(name)
		_ = j.Rmdir(name)
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) != 2 || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "secret" }) {
			t.Fatalf("after %q there are %v outside, %v", name, entries, err)
		}
		if got, _ := os.ReadFile(filepath.Join(outside, "secret")); string(got) != "SECRET" {
			t.Fatalf("after %q the file outside is %q", name, got)
		}
	})
}

// script as JSON, for calls that are not made through a rig's steps.
func scriptArgs(tb testing.TB, steps ...string) []byte {
	tb.Helper()
	args, err := json.Marshal(map[string]string{"script": strings.Join(steps, "\n") + "\n"})
	must(tb, err)
	return args
}

// The host closes an instance whose guest is still at work on its files.
func TestFilesAreClosedUnderTheGuest(t *testing.T) {
	dir := t.TempDir()
	r := &Runtime{log: logTo(t.Output())}
	for range 20 {
		s, err := r.openMounts([]mount{{guest: "/w", host: dir, write: true, maxBytes: 1 << 20, maxFiles: 100}})
		must(t, err)
		j := s.jails[0]
		begun, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			var once sync.Once
			for range 5000 {
				f, errno := j.OpenFile("f", experimentalsys.O_CREAT|experimentalsys.O_RDWR|experimentalsys.O_TRUNC, 0)
				if errno == experimentalsys.EBADF {
					return
				}
				once.Do(func() { close(begun) })
				if errno != 0 {
					continue
				}
				_, _ = f.Write([]byte("text"))
				_ = f.SetAppend(true)
				_, _ = f.Pread(make([]byte, 4), 0)
				_ = j.Rename("f", "g")
				_ = j.Unlink("g")
				f.Close()
			}
		}()
		<-begun
		s.close()
		s.close()
		<-done
		if _, errno := j.OpenFile("f", experimentalsys.O_RDONLY, 0); errno != experimentalsys.EBADF {
			t.Errorf("after it was closed: %v", errno)
		}
	}
	if n := r.openFiles.Load(); n != 0 {
		t.Errorf("%d files are counted as open", n)
	}
	for _, d := range r.folders.byID {
		if d.refs != 0 || len(d.nodes) != 0 {
			t.Errorf("%d instances have the folder and %d files are open", d.refs, len(d.nodes))
		}
	}
	r.folders.sweep(time.Now().Add(time.Hour))
	if len(r.folders.byID) != 0 {
		t.Error("a folder that nobody has is remembered")
	}
}
