package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
)

var (
	buildDir string // built guests
	cacheDir string // compiled code, shared by the tests
)

// childVariable is set in the child process of a test: the cache folder to use.
const childVariable = "WASM_TEST_CHILD_CACHE"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wasm-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		buildDir, cacheDir = dir, filepath.Join(dir, "cache")
		if parent := os.Getenv(childVariable); parent != "" {
			cacheDir = parent
		}
		return m.Run()
	}())
}

type recipe struct {
	tool, install string
	dir           string // of a module of its own; empty: testdata/goguest, for Go
	args          []string
	env           []string
}

var recipes = map[string]recipe{
	"guest": {tool: "clang", install: "apt-get install clang lld", args: []string{
		"--target=wasm32", "-std=c11", "-O2", "-ffreestanding", "-fno-builtin", "-nostdlib", "-Wno-infinite-recursion",
		"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536", "-Wl,--stack-first",
		"-I", "../../examples/wasm-tools/include", "testdata/guest.c", "-o"}},
	"keeper": {tool: "clang", install: "apt-get install clang lld", args: []string{
		"--target=wasm32", "-std=c11", "-O2", "-ffreestanding", "-fno-builtin", "-nostdlib",
		"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536", "-Wl,--stack-first",
		"-I", "../../examples/wasm-tools/include", "../../tests/guests/keeper/keeper.c", "-o"}},
	"command": {tool: "clang", install: "apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32",
		args: []string{"--target=wasm32-wasi", "-O2", "testdata/command.c", "-o"}},
	"renumber": {tool: "clang", install: "apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32",
		args: []string{"--target=wasm32-wasi", "-O2", "testdata/renumber.c", "-o"}},
	"files": {tool: "clang", install: "apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32",
		args: []string{"--target=wasm32-wasi", "-O2", "testdata/files.c", "-o"}},
	"goguest": {tool: "go", install: "https://go.dev/dl",
		args: []string{"build", "-buildmode=c-shared", "-o"}, env: []string{"GOOS=wasip1", "GOARCH=wasm"}},
	"fetch": {tool: "go", install: "https://go.dev/dl", dir: "../../tests/guests/fetch",
		args: []string{"build", "-buildmode=c-shared", "-o"}, env: []string{"GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS="}},
	"goprogram": {tool: "go", install: "https://go.dev/dl",
		args: []string{"build", "-o"}, env: []string{"GOOS=wasip1", "GOARCH=wasm"}},
}

var (
	builtMu sync.Mutex
	built   = map[string][]byte{}
)

// guest builds testdata's guest once and returns its bytes. Names that end in .wat
// are assembled.
func guest(tb testing.TB, name string) []byte {
	tb.Helper()
	builtMu.Lock()
	defer builtMu.Unlock()
	if b, ok := built[name]; ok {
		return b
	}
	out := filepath.Join(buildDir, name+".wasm")
	r, ok := recipes[name]
	if strings.HasSuffix(name, ".wat") {
		r, ok = recipe{tool: "wat2wasm", install: "apt-get install wabt", args: []string{"--enable-all", "testdata/" + name, "-o"}}, true
	}
	if !ok {
		tb.Fatalf("no recipe for guest %q", name)
	}
	if _, err := exec.LookPath(r.tool); err != nil {
		needed := fmt.Sprintf("%s is needed to build a guest: %s", r.tool, r.install)
		if os.Getenv("CI") == "true" {
			tb.Fatal(needed)
		}
		tb.Skip(needed)
	}
	args := append(append([]string{}, r.args...), out)
	switch {
	case r.dir != "":
		args = append(args, ".")
	case r.tool == "go":
		args = append(args, "./testdata/goguest")
	}
	cmd := exec.Command(r.tool, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), r.env...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd, err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		tb.Fatal(err)
	}
	built[name] = b
	return b
}

// tool is a ToolSpec whose id is its export; edit it through the functions.
func tool(export string, edit ...func(*plugins.ToolSpec)) plugins.ToolSpec {
	s := plugins.ToolSpec{
		ID: export, Export: export, Description: "a test", Target: batch.TargetBrain, Recovery: batch.ReplaySafe,
		Isolation: plugins.IsolationCall, Encoding: plugins.Encoding{Input: "json", Output: "json"},
	}
	for _, e := range edit {
		e(&s)
	}
	return s
}

func encoding(in, out string) func(*plugins.ToolSpec) {
	return func(s *plugins.ToolSpec) { s.Encoding = plugins.Encoding{Input: in, Output: out} }
}

func isolation(i plugins.Isolation) func(*plugins.ToolSpec) {
	return func(s *plugins.ToolSpec) { s.Isolation = i }
}

func named(id string) func(*plugins.ToolSpec) { return func(s *plugins.ToolSpec) { s.ID = id } }

// newPlugin is a plugin with generous limits; tests narrow what they are about.
func newPlugin(module []byte, abi plugins.ABI, tools ...plugins.ToolSpec) *plugins.Plugin {
	sum := sha256.Sum256(module)
	caps := plugins.Capabilities{MemoryMiB: 32, Timeout: 2 * time.Minute}
	return &plugins.Plugin{
		Manifest: &plugins.Manifest{ID: "t", Version: "1.0.0", Description: "test",
			Module:       plugins.Module{Path: "bin/t.wasm", SHA256: hex.EncodeToString(sum[:]), ABI: abi},
			Capabilities: caps, Tools: tools},
		Dir: "testdata", Digest: strings.Repeat("ab", 32), Module: module, Effective: caps, OutputMiB: 16,
	}
}

func newRuntime(tb testing.TB, o Options) *Runtime {
	tb.Helper()
	if o.CacheDir == "" {
		o.CacheDir = cacheDir
	}
	r, err := New(context.Background(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return r
}

// rig is a plugin behind the executor that the host uses.
type rig struct {
	tb   testing.TB
	r    *Runtime
	p    *plugins.Plugin
	exec batch.Executor
	step atomic.Int64
}

func newRig(tb testing.TB, r *Runtime, p *plugins.Plugin) *rig {
	tb.Helper()
	snap, err := plugins.NewSnapshot([]*plugins.Plugin{p})
	if err != nil {
		tb.Fatal(err)
	}
	return &rig{tb: tb, r: r, p: p, exec: r.Executor(func() *plugins.Snapshot { return snap })}
}

func (g *rig) newCall(id, args string) *batch.Call {
	return &batch.Call{Run: "run", Step: int(g.step.Add(1)), ID: "c1", Tool: batch.ToolID("t__" + id), Arguments: []byte(args), Attempt: 1}
}

// call invokes a tool; an error of the host fails the test.
func (g *rig) call(id, args string, edit ...func(*batch.Call)) *batch.Output {
	g.tb.Helper()
	c := g.newCall(id, args)
	for _, e := range edit {
		e(c)
	}
	out, err := g.exec.Invoke(context.Background(), c)
	if err != nil {
		g.tb.Fatalf("%s: %v", id, err)
	}
	check(g.tb, c, out)
	return out
}

// check holds every output to what the ledger accepts.
func check(tb testing.TB, c *batch.Call, out *batch.Output) {
	tb.Helper()
	if out.CallID != c.ID {
		tb.Errorf("output names call %q", out.CallID)
	}
	if out.IsError && len(out.State) > 0 {
		tb.Error("an error output carries state")
	}
	if out.IsError && len(out.Content) == 0 {
		tb.Error("an error output says nothing")
	}
	for i, b := range out.Content {
		if err := b.Validate(); err != nil {
			tb.Errorf("block %d: %v", i, err)
		}
	}
}

// good wants a success with the given text.
func good(tb testing.TB, out *batch.Output, want string) {
	tb.Helper()
	if out.IsError || out.Text() != want {
		tb.Errorf("got %s (error %t), want %s", clip(out.Text()), out.IsError, want)
	}
}

// bad wants an error result that says all of want.
func bad(tb testing.TB, out *batch.Output, want ...string) {
	tb.Helper()
	if !out.IsError {
		tb.Errorf("got the success %s, want an error result", clip(out.Text()))
	}
	for _, w := range want {
		if !strings.Contains(out.Text(), w) {
			tb.Errorf("the error result %q does not say %q", clip(out.Text()), w)
		}
	}
}

func clip(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}

// logTo is a logger whose lines a test can read.
func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(&lockedWriter{w: w}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
