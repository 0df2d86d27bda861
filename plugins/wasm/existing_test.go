package wasm

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// existing is the folder of plugins that others built, in several languages and with
// other hosts in mind: those with which Extism tests its own Go SDK.
func existing(tb testing.TB) string {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/extism/go-sdk").Output()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(string(bytes.TrimSpace(out)), "wasm")
}

// TestExistingPlugins wraps each by the manifest that Inspect writes, and runs it as
// it is.
func TestExistingPlugins(t *testing.T) {
	dir := existing(t)
	r := newRuntime(t, Options{})
	cases := map[string]struct {
		tool, input string
		config      map[string]string
		bytes       bool
		good, bad   string // the result, or a part of it when it failed
		refused     string // a part of why no manifest could run it
	}{
		"alloc":            {tool: "run_test", good: ""},
		"config":           {tool: "run_test", config: map[string]string{"thing": "hello"}, good: `{"config": "hello"}`},
		"count_vowels":     {tool: "count_vowels", input: "hello world", good: `{"count":3,"total":3,"vowels":"aeiouAEIOU"}`},
		"count_vowels_std": {tool: "start", input: "hello world", good: `{"count": 3, "config": "<unset by host>", "a": "this is var a"}`},
		"exit":             {tool: "start", config: map[string]string{"code": "2"}, bad: "exit status 2"},
		"fail":             {tool: "run_test", bad: "Some error message"},
		"fs":               {tool: "run_test", bad: "failed with status"},
		"fs_std":           {tool: "run_test", bad: "failed with status"},
		"hello":            {tool: "run_test", good: "Hello, world!"},
		"hello_haskell":    {tool: "testing", input: "John", config: map[string]string{"greeting": "Howdy"}, good: "Howdy, John"},
		"host":             {refused: "extism:host/user.mult"},
		"host_memory":      {refused: "host.to_upper"},
		"host_multiple":    {refused: "hostGreenMessage"},
		"http":             {tool: "run_test", bad: "jsonplaceholder.typicode.com"},
		"http_headers":     {tool: "http_get", input: `{"url":"https://example.com"}`, bad: "example.com"},
		"input_offset":     {tool: "input_offset_length", input: "hello world", bytes: true, good: `"CwAAAAAAAAA="`},
		"lib":              {tool: "start", good: ""},
		"log":              {tool: "run_test", good: ""},
		"main":             {refused: "lib.capitalize"},
		"nested.c.instr":   {refused: "locals and operands"},
		"noop":             {tool: "run_test", good: ""},
		"println":          {tool: "run_test", input: "to the log", good: ""},
		"read_write":       {tool: "try_read", bad: "Path not found in config"},
		"replace":          {tool: "run_test", input: "a", good: "a"},
		"sleep":            {tool: "run_test", config: map[string]string{"duration": "1"}, good: "slept for 1 seconds"},
		"std_command":      {tool: "start", input: "ben", good: "hello ben"},
		"var":              {tool: "run_test", good: "a: 0"},
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no plugins in the module of the SDK: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		t.Run(name, func(t *testing.T) {
			c, known := cases[name]
			if !known {
				t.Fatal("the SDK has a plugin that this test does not know")
			}
			module, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			i, err := Inspect(file, module)
			if err != nil {
				if c.refused == "" || !strings.Contains(err.Error(), c.refused) {
					t.Fatal(err)
				}
				return
			}
			if c.refused != "" {
				if i.Refused == nil || !strings.Contains(i.Refused.Error(), c.refused) {
					t.Fatalf("refused: %v, want %q", i.Refused, c.refused)
				}
				return
			}
			if i.Refused != nil {
				t.Fatal(i.Refused)
			}
			g := newRig(t, r, wrapped(t, module, i, c.bytes))
			g.p.Config = c.config
			call := g.newCall(c.tool, `{"input":"`+strings.ReplaceAll(c.input, `"`, `\"`)+`"}`)
			out, err := g.exec.Invoke(context.Background(), call)
			if err != nil {
				t.Fatal(err)
			}
			check(t, call, out)
			if c.bad != "" {
				bad(t, out, c.bad)
			} else {
				good(t, out, c.good)
			}
		})
	}
}

// wrapped is a plugin as the manifest has it that Inspect wrote.
func wrapped(t *testing.T, module []byte, i *Inspection, bytes bool) *plugins.Plugin {
	t.Helper()
	text := i.Manifest
	if bytes {
		text = strings.ReplaceAll(text, `output = "text"`, `output = "base64"`)
	}
	m, err := plugins.ParseManifest("plugin.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := newPlugin(module, m.Module.ABI, m.Tools...)
	p.Effective = plugins.Capabilities{MemoryMiB: 64, Timeout: 2 * time.Minute}
	return p
}

// TestExistingPluginsWithGrants gives those that need a folder or a host what they need.
func TestExistingPluginsWithGrants(t *testing.T) {
	w := newWebsite(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test.txt"), []byte("hello world!"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t, Options{})
	for _, c := range []struct{ name, tool, args, mode, good, bad string }{
		{name: "fs", tool: "run_test", args: `{"input":""}`, mode: "rw", good: "hello world!"},
		{name: "fs_std", tool: "run_test", args: `{"input":""}`, mode: "rw", good: "hello world!"},
		{name: "read_write", tool: "try_read", args: `{"input":""}`, mode: "ro", good: "hello world!"},
		{name: "read_write", tool: "try_write", args: `{"input":"no"}`, mode: "ro", bad: "Failed to write file"},
		{name: "read_write", tool: "try_write", args: `{"input":"hello again"}`, mode: "rw", good: ""},
		{name: "read_write", tool: "try_read", args: `{"input":""}`, mode: "ro", good: "hello again"},
		{name: "http_headers", tool: "http_get", args: `{"input":"{\"url\":\"` + w.url + `/echo\"}"}`, good: `{"x-seen":`},
	} {
		module, err := os.ReadFile(filepath.Join(existing(t), c.name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		i, err := Inspect(c.name+".wasm", module)
		if err != nil {
			t.Fatal(err)
		}
		p := wrapped(t, module, i, false)
		p.Config = map[string]string{"path": "/mnt/test.txt"}
		if c.mode != "" {
			grantPaths(p, map[string]plugins.PathGrant{"/mnt": {Host: dir, Mode: c.mode}})
		} else {
			reaching(p, w.by)
		}
		out := newRig(t, r, p).call(c.tool, c.args)
		switch {
		case c.bad != "":
			bad(t, out, c.bad)
		case out.IsError || !strings.Contains(out.Text(), c.good):
			t.Errorf("%s %s: %s (error %t), want %s", c.name, c.tool, clip(out.Text()), out.IsError, c.good)
		}
	}
}

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name, module string
		abi          plugins.ABI
		tools        []string // exports that the manifest has as tools
		want         []string // in the notes, or in why it is refused
		refused      bool
	}{
		{name: "library", module: `(module (memory 2 4) (func (export "run") (result i32) i32.const 0) (func (export "two") (param i32)))`,
			abi: plugins.ABIExtism, tools: []string{"run"}},
		{name: "command", module: `(module (func (export "_start")))`, abi: plugins.ABIWASI},
		{name: "extism command", module: `(module (import "extism:host/env" "input_length" (func (result i64))) (func (export "_start")))`,
			abi: plugins.ABIExtism, tools: []string{"_start"}},
		{name: "fetches", module: `(module (import "extism:host/env" "http_request" (func (param i64 i64) (result i64))) (func (export "run")))`,
			abi: plugins.ABIExtism, tools: []string{"run"}, want: []string{"capabilities.hosts"}},
		{name: "starts", module: `(module (func $s) (func (export "run")) (start $s))`, abi: plugins.ABIExtism, tools: []string{"run"}, want: []string{"start section"}},
		{name: "large", module: `(module (memory 8192) (func (export "run")))`, abi: plugins.ABIExtism, tools: []string{"run"}},
		{name: "unknown", module: `(module (import "env" "system" (func)) (func (export "run")))`, abi: plugins.ABIExtism, refused: true, want: []string{"env.system", "linker"}},
		{name: "nothing", module: `(module (memory (export "memory") 1))`, abi: plugins.ABIExtism, refused: true, want: []string{"exports nothing"}},
		{name: "names", module: `(module (func (export "a b")) (func (export "a.b")) (func (export "A_B")))`, abi: plugins.ABIExtism, tools: []string{"a b", "a.b", "A_B"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := wat(t, "inspect-"+c.name, c.module)
			i, err := Inspect("some dir/My Plugin.wasm", module)
			if err != nil {
				t.Fatal(err)
			}
			if i.ABI != c.abi || (i.Refused != nil) != c.refused || (i.Manifest == "") != c.refused {
				t.Fatalf("abi %s, refused %v, manifest %q", i.ABI, i.Refused, i.Manifest)
			}
			said := strings.Join(i.Notes, "\n")
			if i.Refused != nil {
				said += i.Refused.Error()
			}
			for _, w := range c.want {
				if !strings.Contains(said, w) {
					t.Errorf("%q does not say %q", said, w)
				}
			}
			if c.refused {
				return
			}
			m, err := plugins.ParseManifest("plugin.toml", []byte(i.Manifest))
			if err != nil {
				t.Fatal(err)
			}
			if c.abi == plugins.ABIExtism && len(m.Tools) != len(c.tools) {
				t.Errorf("%d tools, want %v", len(m.Tools), c.tools)
			}
			for n, want := range c.tools {
				if !strings.Contains(i.Manifest, "export = \""+want+"\"") {
					t.Errorf("tool %d is not the export %q:\n%s", n, want, i.Manifest)
				}
			}
		})
	}
	for _, b := range []string{"", "text", "\x00asm\x0d\x00\x01\x00", "\x00asm\x01\x00\x00\x00\x01\xff"} {
		if _, err := Inspect("x.wasm", []byte(b)); err == nil {
			t.Errorf("%q was inspected", b)
		}
	}
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x12\x09producers\x01\x08language"))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := Inspect("x.wasm", b)
		if err == nil && (i.Refused == nil) != (i.Manifest != "") {
			t.Errorf("refused %v, manifest %q", i.Refused, i.Manifest)
		}
	})
}

func TestNeedsGrant(t *testing.T) {
	module := wat(t, "needs", `(module (import "extism:host/env" "http_request" (func (param i64 i64) (result i64)))
		(import "wasi_snapshot_preview1" "sched_yield" (func (result i32))) (func (export "run")))`)
	p := newPlugin(module, plugins.ABIExtism, tool("run"))
	if got := NeedsGrant(p); len(got) != 1 || !strings.Contains(got[0], "http_request") {
		t.Errorf("without hosts: %q", got)
	}
	p.Effective.Hosts = []string{"example.com"}
	if got := NeedsGrant(p); len(got) != 0 {
		t.Errorf("with hosts: %q", got)
	}
}

// TestStartIsATool runs a program that speaks Extism, one fresh instance each.
func TestStartIsATool(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(existing(t), "std_command.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	start := tool("_start", named("hello"), encoding("text:who", "text"))
	g := newRig(t, newRuntime(t, Options{}), newPlugin(module, plugins.ABIExtism, start))
	for _, who := range []string{"ada", "bob"} {
		good(t, g.call("hello", `{"who":"`+who+`"}`), "hello "+who)
	}
	start.Isolation = plugins.IsolationRun
	if err := Check(newPlugin(module, plugins.ABIExtism, start).Manifest, module); err == nil || !strings.Contains(err.Error(), `isolation = "call"`) {
		t.Errorf("with isolation run: %v", err)
	}
}
