package wasm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// wat assembles a module given as text.
func wat(tb testing.TB, name, source string) []byte {
	tb.Helper()
	path := filepath.Join("testdata", "inline_"+name+".wat")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		tb.Fatal(err)
	}
	defer os.Remove(path)
	return guest(tb, "inline_"+name+".wat")
}

func TestLoadRefuses(t *testing.T) {
	r := newRuntime(t, Options{})
	run := `(func (export "run") (result i32) (i32.const 0))`
	imports := func(module, name, typ string) string {
		return `(module (import "` + module + `" "` + name + `" ` + typ + `) ` + run + `)`
	}
	for _, c := range []struct {
		name   string
		module []byte
		abi    plugins.ABI
		edit   func(*plugins.Plugin)
		want   []string
	}{
		{name: "empty", module: nil, want: []string{"not a WebAssembly binary"}},
		{name: "text", module: []byte("(module)"), want: []string{"wat2wasm"}},
		{name: "component", module: []byte("\x00asm\x0d\x00\x01\x00"), want: []string{"Component", "wasm32-wasip1"}},
		{name: "version", module: []byte("\x00asm\x02\x00\x00\x00"), want: []string{"version 2"}},
		{name: "cut", module: guest(t, "guest")[:3000], want: []string{"ends too early"}},
		{name: "bad code", module: wat(t, "ok", `(module `+run+`)`), edit: func(p *plugins.Plugin) {
			p.Module = append([]byte(nil), p.Module...)
			p.Module[len(p.Module)-1] = 0x00 // the end of the function body
			resign(p)
		}, want: []string{"does not compile"}},
		{name: "digest", module: guest(t, "guest"), edit: func(p *plugins.Plugin) {
			p.Manifest.Module.SHA256 = strings.Repeat("0", 64)
		}, want: []string{"its SHA-256 is", "the manifest says 0000"}},
		{name: "exec", module: wat(t, "exec", imports("extism:host/user", "awaken_exec", `(func (param i64) (result i64))`)),
			want: []string{"extism:host/user.awaken_exec", "set target = \"sandbox\""}},
		{name: "unknown user", module: wat(t, "user", imports("extism:host/user", "kv_read", `(func (param i64) (result i64))`)),
			want: []string{"extism:host/user.kv_read", "awaken_call, awaken_exec, awaken_log, awaken_progress, awaken_secret_get, awaken_state_get"}},
		{name: "env", module: wat(t, "env", imports("env", "puts", `(func)`)), want: []string{"env.puts", "--allow-undefined"}},
		{name: "preview 2", module: wat(t, "p2", imports("wasi:cli/environment@0.2.0", "get", `(func)`)), want: []string{"preview 2"}},
		{name: "preview 0", module: wat(t, "p0", imports("wasi_unstable", "fd_write", `(func)`)), want: []string{"wasi_snapshot_preview1"}},
		{name: "unknown wasi", module: wat(t, "uw", imports("wasi_snapshot_preview1", "thread_spawn", `(func)`)), want: []string{"wasi_snapshot_preview1.thread_spawn"}},
		{name: "memory import", module: wat(t, "mi", imports("env", "memory", `(memory 1)`)), want: []string{"env.memory (a memory)"}},
		{name: "global import", module: wat(t, "gi", imports("env", "g", `(global i32)`)), want: []string{"env.g (a global)"}},
		{name: "wrong type", module: wat(t, "wt", imports("extism:host/env", "alloc", `(func (param i32) (result i32))`)),
			want: []string{"extism:host/env.alloc with type i32>i32", "alloc has type i64>i64"}},
		{name: "wrong wasi type", module: wat(t, "wwt", imports("wasi_snapshot_preview1", "proc_exit", `(func (param i64))`)),
			want: []string{"proc_exit has type i32>"}},
		{name: "program", module: guest(t, "goprogram"), want: []string{"is a program", "-buildmode=c-shared", `abi = "wasi"`}},
		{name: "library as program", module: wat(t, "lib", `(module `+run+`)`), abi: plugins.ABIWASI, want: []string{"does not export _start", `abi = "extism"`}},
		{name: "extism as wasi", module: wat(t, "eaw", `(module (import "extism:host/env" "input_length" (func (result i64))) (func (export "_start")))`),
			abi: plugins.ABIWASI, want: []string{"extism:host/env.input_length", `set abi = "extism"`}},
		{name: "odd start", module: wat(t, "os", `(module (func (export "_start") (param i32)))`), abi: plugins.ABIWASI, want: []string{"_start has type i32>"}},
		{name: "missing export", module: wat(t, "me", `(module (func (export "walk")) (func (export "go")) (global (export "run") i32 (i32.const 0)))`),
			want: []string{`tool "run" names the export "run"`, "it exports go, walk"}},
		{name: "export with parameters", module: wat(t, "ep", `(module (func (export "run") (param i32)))`), want: []string{"has type i32>"}},
		{name: "large memory", module: wat(t, "lm", `(module (memory 1024) `+run+`)`), want: []string{"starts at 64 MiB and the limit is 32 MiB", "capabilities.memory_mib"}},
		{name: "large table", module: wat(t, "lt", `(module (table 9000000 funcref) `+run+`)`), want: []string{"tables start with 9000000 entries"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			abi := c.abi
			if abi == "" {
				abi = plugins.ABIExtism
			}
			p := newPlugin(c.module, abi, tool("run"))
			if c.edit != nil {
				c.edit(p)
			}
			err := r.Load(context.Background(), p)
			if err == nil {
				t.Fatal("it was loaded")
			}
			for _, w := range append(c.want, "plugin t: module bin/t.wasm: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\ndoes not say %q", err, w)
				}
			}
			// Signing says the same, but for what only compiling and the digest tell.
			if c.name != "digest" && c.name != "bad code" {
				if signing := Check(p.Manifest, p.Module); signing == nil || signing.Error() != err.Error() {
					t.Errorf("Check says %v", signing)
				}
			}
			if again := r.Load(context.Background(), p); again == nil || again.Error() != err.Error() {
				t.Errorf("the second load says %v", again)
			}
			// No attempt of a call will find it better.
			g := newRig(t, r, p)
			var te *batch.ToolError
			if _, err := g.exec.Invoke(t.Context(), g.newCall("run", `{}`)); !errors.As(err, &te) || te.Kind != batch.ToolErrorPlacement || !strings.Contains(te.Msg, c.want[0]) {
				t.Errorf("a call says %v", err)
			}
		})
	}
	if len(r.loaded) != 0 || len(r.programs) != 0 {
		t.Errorf("refused plugins are kept: %d, %d programs", len(r.loaded), len(r.programs))
	}
}

// resign makes the manifest name the module as it is now.
func resign(p *plugins.Plugin) {
	p.Manifest.Module.SHA256 = newPlugin(p.Module, p.Manifest.Module.ABI).Manifest.Module.SHA256
}

func TestLoadIsIdempotentAndShared(t *testing.T) {
	r := newRuntime(t, Options{})
	a, b := guestPlugin(t), guestPlugin(t) // as before and after a reload
	if err := Check(a.Manifest, a.Module); err != nil {
		t.Errorf("Check: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := a
			if i%2 == 1 {
				p = b
			}
			if err := r.Load(context.Background(), p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(r.programs) != 1 || len(r.loaded) != 2 {
		t.Errorf("%d programs for %d plugins with the same module", len(r.programs), len(r.loaded))
	}
	// What nobody uses is let go, and comes back by itself.
	r.sweep(time.Now().Add(time.Hour))
	if len(r.programs) != 0 || len(r.loaded) != 0 {
		t.Errorf("%d programs, %d plugins after a sweep", len(r.programs), len(r.loaded))
	}
	good(t, newRig(t, r, a).call("echo", `1`), "1")
}

func TestGuestsThatMisbehaveOnStart(t *testing.T) {
	r := newRuntime(t, Options{})
	for _, c := range []struct{ guest, want string }{
		{"start_spin.wat", "timeout of 200ms"},
		{"init_spin.wat", "timeout of 200ms"},
		{"start_trap.wat", "unreachable"},
		{"bad_data.wat", "could not be instantiated"},
		{"own_maximum.wat", "unreachable"},
		{"recurse.wat", "ran out of stack"},
	} {
		t.Run(c.guest, func(t *testing.T) {
			p := newPlugin(guest(t, c.guest), plugins.ABIExtism, tool("run"))
			if strings.Contains(c.guest, "spin") {
				p.Effective.Timeout = 200 * time.Millisecond
			}
			start := time.Now()
			bad(t, newRig(t, r, p).call("run", `{}`), c.want)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestTablesAreBounded(t *testing.T) {
	p := newPlugin(guest(t, "table_grow.wat"), plugins.ABIExtism, tool("run"), tool("insist"))
	g := newRig(t, newRuntime(t, Options{}), p)
	good(t, g.call("run", `{}`), "0")
	bad(t, g.call("insist", `{}`), "trapped", "its tables may have 1048576 entries together")
}

func TestLoadWaitsNoLongerThanAsked(t *testing.T) {
	r := newRuntime(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := guestPlugin(t)
	// Compilation goes on; whoever comes next gets it.
	_ = r.Load(ctx, p)
	if err := r.Load(context.Background(), p); err != nil {
		t.Error(err)
	}
}

func FuzzParseModule(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))
	for _, name := range []string{"guest", "table_grow.wat", "own_maximum.wat", "start_trap.wat"} {
		f.Add(guest(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseModule(b)
		if err != nil {
			return
		}
		bounded, err := m.boundTables(b)
		if err != nil {
			return
		}
		again, err := parseModule(bounded)
		if err != nil {
			t.Fatalf("a bounded module does not parse: %v", err)
		}
		var total uint64
		for i, table := range again.tables {
			if table.min != m.tables[i].min {
				t.Fatalf("table %d starts with %d, was %d", i, table.min, m.tables[i].min)
			}
			total += uint64(max(table.min, table.max))
		}
		if total > maxTableEntries {
			t.Fatalf("tables may still grow to %d entries", total)
		}
		if len(again.exports) != len(m.exports) || len(again.imports) != len(m.imports) {
			t.Fatal("bounding the tables changed imports or exports")
		}
	})
}

// What host.toml declares has no module: there is nothing to load, and it is not
// run as one either.
func TestDeclaredPluginsHaveNoModule(t *testing.T) {
	r := newRuntime(t, Options{})
	p, err := plugins.NewClientPlugin([]plugins.HostTool{{ID: "ask_user"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context(), p); err != nil {
		t.Errorf("Load: %v", err)
	}
	s, err := plugins.NewSnapshot([]*plugins.Plugin{p})
	if err != nil {
		t.Fatal(err)
	}
	x := r.Executor(func() *plugins.Snapshot { return s })
	var te *batch.ToolError
	if _, err := x.Invoke(t.Context(), &batch.Call{Run: "r", Step: 1, ID: "c", Tool: "ask_user", Arguments: []byte("{}")}); !errors.As(err, &te) || te.Kind != batch.ToolErrorPlacement {
		t.Errorf("Invoke: %v", err)
	}
}
