package wasm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// grantPaths gives p host folders: guest path to what is granted there.
func grantPaths(p *plugins.Plugin, paths map[string]plugins.PathGrant) {
	p.Grant = &plugins.Grant{Paths: paths}
	modes := map[string]string{}
	for guest, g := range paths {
		modes[guest] = g.Mode
	}
	p.Effective.Paths = modes
	p.Manifest.Capabilities.Paths = maps.Clone(modes)
}

// filesRig is the guest testdata/files.c with folders.
func filesRig(tb testing.TB, o Options, paths map[string]plugins.PathGrant) *rig {
	tb.Helper()
	p := newPlugin(guest(tb, "files"), plugins.ABIWASI, tool("files", encoding("text:script", "text")))
	grantPaths(p, paths)
	return newRig(tb, newRuntime(tb, o), p)
}

// script runs steps and returns the lines that the guest printed.
func (g *rig) script(steps []string, edit ...func(*batch.Call)) []string {
	g.tb.Helper()
	args, err := json.Marshal(map[string]string{"script": strings.Join(steps, "\n") + "\n"})
	if err != nil {
		g.tb.Fatal(err)
	}
	out := g.call("files", string(args), edit...)
	if out.IsError {
		g.tb.Fatalf("the guest failed: %s", clip(out.Text()))
	}
	return strings.Split(strings.TrimSpace(out.Text()), "\n")
}

// steps runs every "step => wanted" in one call.
func (g *rig) steps(table string, edit ...func(*batch.Call)) {
	g.tb.Helper()
	var steps, want []string
	for line := range strings.Lines(table) {
		if step, result, ok := strings.Cut(strings.TrimSpace(line), " => "); ok {
			steps, want = append(steps, step), append(want, result)
		}
	}
	got := g.script(steps, edit...)
	if len(got) != len(want) {
		g.tb.Fatalf("%d results for %d steps: %q", len(got), len(want), got)
	}
	for i := range want {
		if _, result, _ := strings.Cut(got[i], ": "); result != want[i] {
			g.tb.Errorf("%s\n got %s\nwant %s", steps[i], clip(result), want[i])
		}
	}
}

func write(tb testing.TB, file, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// What a program does with files every day.
func TestFilesOrdinaryUse(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in", "a.txt"), "hello")
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}})
	g.steps(`
		read /w/in/a.txt => ok hello
		read /w/in/../in/./a.txt => ok hello
		read /w/none => ENOENT
		read /w/in/a.txt/ => ENOTDIR
		write /w/b one => ok
		excl /w/b two => EEXIST
		append /w/b +two => ok
		pappend /w/b +three => ok
		read /w/b => ok one+two+three
		over /w/b ONE => ok
		setappend /w/b +four => ok
		read /w/b => ok ONE+two+three+four
		size /w/b => ok 18
		truncate /w/b 3 => ok
		read /w/b => ok ONE
		truncate /w/b 5000 => ok
		size /w/b => ok 5000
		allocate /w/b 9000 => ok
		size /w/b => ok 9000
		mkdir /w/d => ok
		mkdir /w/d => EEXIST
		mkdir /w/none/d => ENOENT
		write /w/d/c deep => ok
		rmdir /w/d => ENOTEMPTY
		unlink /w/d => EISDIR
		rmdir /w/b => ENOTDIR
		rename /w/d /w/e => ok
		read /w/e/c => ok deep
		rename /w/e/c /w/b => ok
		read /w/b => ok deep
		rename /w/b /w/e => EISDIR
		rename /w/e /w/b => ENOTDIR
		rename /w/none /w/x => ENOENT
		rmdir /w/e => ok
		list /w => ok 2
		list /w/in => ok 1
		utimes /w/b => ok
		futimes /w/b => ok
		stdio /w/s => ok 1000 lines, 8890, [line 999], 8895
		unlink /w/s => ok
		unlink /w/b => ok
		unlink /w/b => ENOENT
		list /w => ok 1
	`)
	info, err := os.Stat(filepath.Join(dir, "in", "a.txt"))
	must(t, err)
	if info.Size() != 5 {
		t.Errorf("a file that was only read has %d bytes", info.Size())
	}
}

// What the guest makes belongs to the host's user alone, and its times are set.
func TestFilesModesAndTimes(t *testing.T) {
	dir := t.TempDir()
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}})
	g.steps(`
		write /w/f x => ok
		mkdir /w/d => ok
		utimes /w/f => ok
		utimesnofollow /w/d => EISDIR
		utimes /w/d => ok
	`)
	for name, want := range map[string]os.FileMode{"f": 0o600, "d": os.ModeDir | 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		if at := info.ModTime().UnixNano(); at/1000 != 2000*int64(time.Millisecond) {
			t.Errorf("%s was last changed at %d ns", name, at)
		}
	}
}

// Every way out that does not need the host's help.
func TestFilesEscapes(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "SECRET")
	dir := filepath.Join(outside, "jail")
	write(t, filepath.Join(dir, "inner", "ok"), "fine")
	for link, target := range map[string]string{
		"passwd": "/etc/passwd", "absolute": filepath.Join(outside, "secret"), "up": "../secret", "out": "..",
		"abs": outside, "chain": "up", "inside": "inner/ok", "folder": "inner", "loop": "loop",
		"self": "/proc/self/fd/0", "cwd": "/proc/self/cwd", "dangling": "../new", "inner/back": "../../secret", "inner/ok2": "../inner/ok",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	must(t, os.Link(filepath.Join(outside, "secret"), filepath.Join(dir, "hard")))
	must(t, os.Link(filepath.Join(dir, "inner", "ok"), filepath.Join(dir, "twice")))

	var log bytes.Buffer
	g := filesRig(t, Options{Logger: logTo(&log)}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}, "/r": {Host: dir, Mode: "ro"}})
	steps := []string{}
	for _, m := range []string{"/w", "/r"} {
		steps = append(steps,
			"read "+m+"/../secret", "read "+m+"/inner/../../secret", "read "+m+"/passwd", "read "+m+"/absolute", "read "+m+"/up",
			"read "+m+"/out/secret", "read "+m+"/abs/secret", "read "+m+"/chain", "read "+m+"/self", "read "+m+"/cwd/go.mod", "read "+m+"/loop",
			"read "+m+"/inner/back", "read "+m+"/hard", "read "+m+"/twice", "readnofollow "+m+"/inside",
			"raw "+m+" ../secret", "raw "+m+" /etc/passwd", "raw "+m+" inner/../../secret", "raw "+m+" out/secret", "raw "+m+" ./../secret",
			"raw "+m+" folder/../../secret", "raw "+m+" //etc/passwd", "rawsub "+m+"/inner ../../secret", "rawsub "+m+"/inner ../up", "rawsub "+m+"/out secret",
			"rawsub "+m+" ../secret", "rawsub "+m+"/folder ../../secret",
			"readlink "+m+"/passwd", "readlink "+m+"/up", "readlink "+m+"/out", "readlink "+m+"/inner/back", "size "+m+"/absolute", "size "+m+"/up", "size "+m+"/out/secret",
			"list "+m+"/out", "list "+m+"/abs")
	}
	steps = append(steps,
		"write /w/up x", "write /w/absolute x", "write /w/dangling x", "excl /w/dangling x", "write /w/out/new x", "append /w/up x", "truncate /w/up 0", "write /w/hard x", "over /w/hard x",
		"append /w/hard x", "truncate /w/hard 0", "rawtrunc /w hard", "utimes /w/hard", "utimesnofollow /w/hard", "utimes /w/up", "utimesnofollow /w/up", "utimes /w/out",
		"mkdir /w/out/d", "mkdir /w/dangling/", "unlink /w/out/secret", "rmdir /w/out/jail", "rename /w/out/secret /w/got", "rename /w/inner/ok /w/out/got", "rename /w/inner /w/out/inner",
		"symlink /etc/passwd /w/l1", "symlink ../secret /w/l2", "symlink inner/ok /w/l3", "rawsymlink /etc/passwd l4", "rawsymlink .. l5",
		"link /w/inner/ok /w/l6", "link /w/up /w/l7", "link /w/hard /w/l8")
	for _, line := range g.script(steps) {
		if strings.Contains(line, "SECRET") || strings.Contains(line, "root:") || strings.Contains(line, outside) {
			t.Errorf("got out: %s", line)
		}
		if _, result, _ := strings.Cut(line, ": "); strings.HasPrefix(result, "ok") || strings.HasPrefix(result, "errno") || result == "ENOSYS" {
			t.Errorf("not refused: %s", line)
		}
	}
	// What leads to a place inside works.
	g.steps(`
		read /w/inside => EACCES
		read /w/folder/ok2 => EACCES
		readlink /w/inside => ok inner/ok
		readlink /w/inner/ok2 => ok ../inner/ok
		list /w/folder => ok 3
		unlink /w/twice => ok
		read /w/inside => ok fine
		read /r/folder/ok2 => ok fine
		readnofollow /w/inner/ok => ok fine
		unlink /w/hard => ok
		unlink /w/up => ok
		rename /w/out /w/moved => ok
	`)
	for name, want := range map[string]string{"secret": "SECRET", "jail/inner/ok": "fine"} {
		if got, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	entries, err := os.ReadDir(outside)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("something was made or removed outside: %v", entries)
	}
	for _, want := range []string{"the file has more than one name (hard links)", "leads out of the granted folder", "guest_path=/w/"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	if strings.Contains(log.String(), "SECRET") {
		t.Error("the log has the secret")
	}
}

// Nothing but files and folders is opened, and nothing blocks the host.
func TestFilesSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	must(t, err)
	defer l.Close()
	table := "list /w => ok %d\n"
	n := 2
	for _, name := range []string{"fifo", "socket"} {
		table += fmt.Sprintf("read /w/%[1]s => EACCES\nover /w/%[1]s x => EACCES\nutimes /w/%[1]s => EACCES\nwrite /w/%[1]s x => EACCES\n", name)
	}
	if err := syscall.Mknod(filepath.Join(dir, "zero"), syscall.S_IFCHR|0o600, 1<<8|5); err == nil {
		n++
		table += "read /w/zero => EACCES\nover /w/zero x => EACCES\n"
	} else if os.Geteuid() == 0 {
		t.Logf("no device node could be made: %v", err)
	}
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}})
	g.steps(fmt.Sprintf(table, n))
}

// A folder that is granted to be read is only read.
func TestFilesReadOnly(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "f"), "text")
	write(t, filepath.Join(dir, "d", "g"), "more")
	old := time.Unix(1_000_000, 0)
	for _, name := range []string{"f", "d/g", "d"} {
		must(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/r": {Host: dir, Mode: "ro"}, "/w": {Host: other, Mode: "rw"}})
	g.steps(`
		read /r/f => ok text
		list /r => ok 2
		write /r/f x => EROFS
		over /r/f x => EROFS
		append /r/f x => EROFS
		write /r/new x => EROFS
		excl /r/new x => EROFS
		truncate /r/f 0 => EROFS
		rotruncate /r/f => EROFS
		rawtrunc /r f => EROFS
		allocate /r/f 100 => EROFS
		mkdir /r/e => EROFS
		rmdir /r/d => EROFS
		unlink /r/f => EROFS
		rename /r/f /r/g => EROFS
		symlink f /r/l => EROFS
		link /r/f /r/l => EROFS
		utimes /r/f => EROFS
		utimesnofollow /r/f => EROFS
		futimes /r/f => EROFS
		utimes /r/d => EROFS
		write /w/x mine => ok
		rename /w/x /r/x => ENOSYS
		rename /r/f /w/f => ENOSYS
		link /r/f /w/f => ENOSYS
		read /r/f => ok text
	`)
	for _, name := range []string{"f", "d/g", "d"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if !info.ModTime().Equal(old) {
			t.Errorf("%s was changed at %v", name, info.ModTime())
		}
	}
}

// Paths, names, listings and open files have bounds.
func TestFilesBounds(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	var log bytes.Buffer
	g := filesRig(t, Options{Logger: logTo(&log)}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "rw"}})
	g.steps(`
		nest /w/deep 300 => ENOENT 0
		mkdir /w/deep => ok
		nest /w/deep 300 => ENAMETOOLONG 99
		mkdir /w/top => ok
		mkdir /w/top/under => ok
		rename /w/deep /w/top/under/deep => ENAMETOOLONG
		rename /w/deep /w/renamed => ok
		longname /w 200 => ok
		longname /w 300 => ENAMETOOLONG
		longname /w 5000 => ENAMETOOLONG
		openmany /w/f 300 => EIO 63
		read /w/f => ok x
		hugelist /w => ok
		pwrite /w/f -5 => EINVAL
	`)
	if !strings.Contains(log.String(), "too many files are open") {
		t.Error("the log does not say that too many files were open")
	}
	if n := g.r.openFiles.Load(); n != 0 {
		t.Errorf("%d files are still counted as open", n)
	}
}

// Numbers of the host's disk are not shown, and are still numbers to compare with.
func TestFilesIdentity(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "x")
	write(t, filepath.Join(dir, "b"), "x")
	g := filesRig(t, Options{}, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "ro"}})
	got := g.script([]string{"ids /w/a", "ids /w/a", "ids /w/b"})
	if got[0] != got[1] || strings.TrimPrefix(got[0], "ids /w/a") == strings.TrimPrefix(got[2], "ids /w/b") {
		t.Errorf("files are not told apart: %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	must(t, err)
	id, _, _ := identify(info)
	if strings.Contains(got[0], fmt.Sprint(id.ino)) || strings.Contains(got[0], fmt.Sprint(id.dev)+" ") && id.dev != 1 {
		t.Errorf("the guest sees the host's numbers: %s", got[0])
	}
}

// What is listed of a folder stays in the host's memory until it is closed, so that
// not every open folder can be a large one.
func TestListingsAreBounded(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "x")
	j := newJail(t, &Runtime{}, mount{guest: "/w", host: dir})
	open := func() *jailFile {
		f, errno := j.OpenFile(".", experimentalsys.O_RDONLY, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		return f.(*jailFile)
	}
	list := func(f *jailFile, want experimentalsys.Errno) {
		t.Helper()
		if entries, errno := f.Readdir(10); errno != want || errno == 0 && len(entries) != 1 {
			t.Errorf("%d entries, %v, want %v", len(entries), errno, want)
		}
	}
	large, other := open(), open()
	list(large, 0)
	if large.listed != 1 || j.set.listed != 1 {
		t.Errorf("%d and %d are counted", large.listed, j.set.listed)
	}
	j.set.list(large, maxListed) // as many more
	list(other, experimentalsys.EIO)
	if s := j.set.refusals(); !strings.Contains(s, "too many entries") {
		t.Errorf("it is said that %q", s)
	}
	if _, errno := large.Seek(0, io.SeekStart); errno != 0 {
		t.Fatal(errno)
	}
	list(other, 0)
	j.set.list(large, maxListed+2)
	large.Close()
	other.Close()
	list(open(), 0)
}

// With a coarse clock the times of files are no finer one.
func TestTimesOfFilesAreCoarse(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "x")
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	must(t, os.Chtimes(filepath.Join(dir, "a"), at, at))
	for coarse, want := range map[bool]int64{false: at.UnixNano(), true: at.Truncate(coarseStep).UnixNano()} {
		p := newPlugin(nil, plugins.ABIExtism)
		grantPaths(p, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "ro"}})
		if coarse {
			p.Clock = plugins.ClockCoarse
		}
		j := newJail(t, &Runtime{}, mountsOf(p, nil)[0])
		st, errno := j.Stat("a")
		if errno != 0 || st.Mtim != want || st.Atim%int64(coarseStep) != want%int64(coarseStep) {
			t.Errorf("%v, modified at %d, want %d", errno, st.Mtim, want)
		}
		f, errno := j.OpenFile("a", experimentalsys.O_RDONLY, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		if st, errno = f.Stat(); errno != 0 || st.Mtim != want {
			t.Errorf("%v, the open file was modified at %d, want %d", errno, st.Mtim, want)
		}
	}
}
