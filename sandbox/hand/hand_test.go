package hand

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestPureCall(t *testing.T) {
	for name, start := range map[string]func(*world) *world{
		"in process": (*world).inProcess,
		"as process": func(w *world) *world { return w.asProcess() },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(newWorld(t))
			key := w.give(tool(t, "plugins/calc"))
			if out := w.call(key, "evaluate", `{"expression":"6*7"}`); out.IsError || out.Text() != `{"value":42}` {
				t.Errorf("%+v", out)
			}
		})
	}
}

// remote is the kind of a failure that the Hand reported.
func remote(err error) string {
	var r *sandbox.RemoteError
	if errors.As(err, &r) {
		return r.Kind
	}
	return ""
}

func TestCallsThatAreNotBegun(t *testing.T) {
	w := newWorld(t).inProcess()
	m, code := tool(t, "plugins/calc")
	p := w.params("calc", "evaluate")
	if _, err := w.invoke(t.Context(), p, `{}`); remote(err) != string(batch.ToolErrorUnavailable) {
		t.Errorf("a plugin that is not known: %v", err)
	}
	w.give(m, code)
	for name, edit := range map[string]func(*sandbox.CallParams){
		"another digest": func(p *sandbox.CallParams) { p.ToolDigest = "other" },
		"another tool":   func(p *sandbox.CallParams) { p.Tool = "none" },
		"attempt 0":      func(p *sandbox.CallParams) { p.Attempt = 0 },
	} {
		q := w.params("calc", "evaluate")
		edit(&q)
		if _, err := w.invoke(t.Context(), q, `{"expression":"1"}`); remote(err) != string(batch.ToolErrorUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What was not begun may be tried again, in the same attempt.
	if out, err := w.invoke(t.Context(), p, `{"expression":"1+1"}`); err != nil || out.Text() != `{"value":2}` {
		t.Errorf("%+v, %v", out, err)
	}
	wrong := sandbox.ModuleOffer{SHA256: strings.Repeat("0", 64), Bytes: int64(len(code))}
	if _, err := w.ask(sandbox.MethodModule, wrong, code, nil); err == nil {
		t.Error("a module of another digest is taken")
	}
}

// An operation runs once, whoever asks for it how often.
func TestOperationsRunOnce(t *testing.T) {
	w := newWorld(t).asProcess()
	key := w.give(tool(t, "guests/exec"))
	p := w.params(key, "run")
	const args = `{"argv":["sh","-c","echo run >> count; sleep 0.3; wc -l < count"]}`
	results := make([]string, 4)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			if out, err := w.invoke(context.Background(), p, args); err != nil {
				t.Error(err)
			} else {
				results[i] = out.Text()
			}
		})
	}
	all.Wait()
	later := p
	later.Attempt = 2
	for _, q := range []sandbox.CallParams{p, later} {
		out, err := w.invoke(context.Background(), q, args)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, out.Text())
	}
	for _, r := range results {
		if r != results[0] || !strings.Contains(r, `"1\n"`) {
			t.Errorf("%s", r)
		}
	}
	// Another Hand of the same Environment knows it too.
	_ = w.channel.Close()
	_ = w.cmd.Wait()
	again := newWorld(t)
	again.hello.Places = w.hello.Places
	again.asProcess()
	again.give(tool(t, "guests/exec"))
	if out, err := again.invoke(context.Background(), p, args); err != nil || out.Text() != results[0] {
		t.Errorf("%+v, %v", out, err)
	}
}

// An attempt that began and did not end is not run again as the same one.
func TestAttemptThatBegan(t *testing.T) {
	w := newWorld(t)
	l, err := sandbox.OpenLedger(w.hello.Places[sandbox.StateDir], testKey)
	if err != nil {
		t.Fatal(err)
	}
	p := w.params("calc", "evaluate")
	if err := l.Begin(p.Operation(), 1); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	w.inProcess()
	w.give(tool(t, "plugins/calc"))
	if _, err := w.invoke(t.Context(), p, `{"expression":"1"}`); remote(err) != string(batch.ToolErrorExecution) {
		t.Errorf("the same attempt: %v", err)
	}
	p.Attempt = 2
	if out, err := w.invoke(t.Context(), p, `{"expression":"1"}`); err != nil || out.IsError {
		t.Errorf("the next attempt: %+v, %v", out, err)
	}
}

// What guests log comes beside the result, and says which call it is of.
func TestGuestLogIsSent(t *testing.T) {
	w := newWorld(t).inProcess()
	key := w.give(tool(t, "guests/effect"))
	p := w.params(key, "safe")
	if _, err := w.invoke(t.Context(), p, `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 || w.events[0].Attrs["operation"] != string(p.Operation()) {
		t.Errorf("%+v", w.events)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t).inProcess()
	put := func(name string, text string) error {
		_, err := w.ask(sandbox.MethodPut, sandbox.FileParams{Path: name, Mode: 0o640}, []byte(text), nil)
		return err
	}
	if err := put("a/b.txt", "hello"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", w.workspace("out")); err != nil {
		t.Fatal(err)
	}
	var info sandbox.FileInfo
	if b, err := w.ask(sandbox.MethodGet, sandbox.FileParams{Path: "a/b.txt"}, []byte{}, &info); err != nil || string(b) != "hello" || info.Bytes != 5 || info.Mode.Perm() != 0o640 {
		t.Errorf("%s, %+v, %v", b, info, err)
	}
	var list []sandbox.FileInfo
	b, err := w.ask(sandbox.MethodList, sandbox.FileParams{Path: "."}, []byte{}, nil)
	if err != nil || json.Unmarshal(b, &list) != nil || len(list) != 3 || list[1].Path != "a/b.txt" {
		t.Errorf("%s, %v", b, err)
	}
	for _, name := range []string{"../x", "/etc/passwd", "out/passwd", "a/../../x", ""} {
		if err := put(name, "x"); err == nil {
			t.Errorf("%q can be written", name)
		}
		if b, err := w.ask(sandbox.MethodGet, sandbox.FileParams{Path: name}, []byte{}, nil); err == nil {
			t.Errorf("%q can be read: %s", name, b)
		}
	}
	if err := put("big", strings.Repeat("x", 9<<20)); err == nil {
		t.Error("a file larger than the workspace is written")
	}
	if left, _ := os.ReadDir(w.dir + "/workspace"); len(left) != 2 {
		t.Errorf("something is left of it: %v", left)
	}
	if _, err := w.ask(sandbox.MethodGet, sandbox.FileParams{Path: "a/b.txt", Limit: 3}, []byte{}, nil); err == nil {
		t.Error("more than the limit is sent")
	}
	archive, err := w.ask(sandbox.MethodHarvest, sandbox.FileParams{Path: sandbox.WorkspaceDir}, []byte{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := newWorld(t).inProcess()
	if _, err := other.ask(sandbox.MethodSeed, sandbox.FileParams{Path: sandbox.WorkspaceDir}, archive, nil); err == nil {
		t.Error("a link that leads out is unpacked")
	}
	_ = os.Remove(w.workspace("out"))
	if archive, err = w.ask(sandbox.MethodHarvest, sandbox.FileParams{Path: sandbox.WorkspaceDir}, []byte{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := other.ask(sandbox.MethodSeed, sandbox.FileParams{Path: sandbox.WorkspaceDir}, archive, nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(other.workspace("a/b.txt")); string(b) != "hello" {
		t.Errorf("%s, %v", b, err)
	}
	for _, target := range []string{"/etc", sandbox.TempDir, sandbox.WorkspaceDir + "/a"} {
		if _, err := other.ask(sandbox.MethodSeed, sandbox.FileParams{Path: target}, archive, nil); err == nil {
			t.Errorf("%s can be seeded", target)
		}
	}
}

// A Hand that has run tools stays small.
func TestHandIsSmall(t *testing.T) {
	w := newWorld(t).asProcess()
	key := w.give(tool(t, "plugins/calc"))
	for range 50 {
		w.call(key, "evaluate", `{"expression":"6*7"}`)
	}
	w.small(40)
}

// Code that was made ahead is run as it is, and the Hand is smaller than one that
// compiled.
func TestCodeMadeAhead(t *testing.T) {
	w := newWorld(t)
	m, code := tool(t, "plugins/pattern")
	given, err := json.Marshal(sandbox.PluginCode{Manifest: m, Effective: m.Capabilities, Module: code})
	if err != nil {
		t.Fatal(err)
	}
	program, err := handProgram()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.dir, "top", "code")
	compile := exec.Command(program, "compile", dir)
	compile.Stdin = bytes.NewReader(given)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files := func() int {
		n := 0
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
			if !d.IsDir() {
				n++
			}
			return nil
		})
		return n
	}
	made := files()
	w.hello.Code, w.hello.Places[sandbox.CodeDir] = true, dir
	w.asProcess()
	key := w.give(m, code)
	for range 20 {
		if out := w.call(key, "find", `{"pattern":"a+","text":"caat"}`); out.IsError {
			t.Fatalf("%+v", out)
		}
	}
	if n := files(); n != made {
		t.Errorf("%d files became %d: it was compiled once more", made, n)
	}
	time.Sleep(settle + 500*time.Millisecond)
	w.small(64)
}

func TestCompileRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "top", "code")
	for _, given := range []string{"", "{}", `{"manifest":{"id":"x"},"module":"AAAA"}`} {
		if err := Compile(dir, strings.NewReader(given)); err == nil {
			t.Errorf("%q is taken", given)
		}
	}
}

// small fails the test where the Hand has more memory resident.
func (w *world) small(mib int) {
	t := w.t
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/status")
	if err != nil {
		t.Skip("this system has no /proc")
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("%s", b)
	}
	kib, _ := strconv.Atoi(string(m[1]))
	t.Logf("%d MiB resident", kib>>10)
	if kib > mib<<10 {
		t.Errorf("the Hand has %d MiB resident, more than %d", kib>>10, mib)
	}
}

func TestUnknownRequest(t *testing.T) {
	w := newWorld(t).inProcess()
	if _, err := w.ask("what", nil, []byte{}, nil); remote(err) != sandbox.RemoteRefused {
		t.Errorf("%v", err)
	}
}

func TestCapture(t *testing.T) {
	for _, n := range []int{0, 1, maxCaptured / 2, maxCaptured, maxCaptured + 1, 3*maxCaptured + 7} {
		all := make([]byte, n)
		for i := range all {
			all[i] = byte(i * 7)
		}
		c := newCapture()
		for rest := all; len(rest) > 0; {
			took := min(len(rest), 1000+len(rest)%4097)
			_, _ = c.Write(rest[:took])
			rest = rest[took:]
		}
		got := c.captured()
		if int64(n) != int64(len(got.Head)+len(got.Tail))+got.Dropped || !bytes.HasPrefix(all, got.Head) || !bytes.HasSuffix(all, got.Tail) {
			t.Errorf("%d bytes: %d, %d, dropped %d", n, len(got.Head), len(got.Tail), got.Dropped)
		}
	}
}
