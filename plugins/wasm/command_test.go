package wasm

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

func command(id, in, out string, args ...string) plugins.ToolSpec {
	return tool("", named(id), encoding(in, out), func(s *plugins.ToolSpec) { s.Args = args })
}

func commandRig(tb testing.TB) *rig {
	p := newPlugin(guest(tb, "command"), plugins.ABIWASI,
		command("echo", "json", "json", "echo"), command("words", "text:w", "text", "echo"), command("blocks", "text:w", "blocks", "echo"),
		command("argv", "json", "text", "argv", "--flag", "two words", ""),
		command("fail", "json", "text", "fail"), command("quiet_fail", "json", "text", "quiet_fail"), command("fail_with_output", "json", "json", "fail_with_output"),
		command("exit_zero", "json", "json", "exit_zero"), command("flood", "json", "text", "flood"), command("files", "json", "text", "files"),
		command("spin", "json", "text", "spin"), command("sleep", "json", "text", "sleep"), command("trap", "json", "text", "trap"),
		command("memory", "json", "text", "memory"))
	p.OutputMiB = 1
	return newRig(tb, newRuntime(tb, Options{}), p)
}

func TestCommand(t *testing.T) {
	g := commandRig(t)
	good(t, g.call("echo", `{"a":[1]}`), `{"a":[1]}`)
	good(t, g.call("words", `{"w":"ein Satz\n"}`), "ein Satz\n")
	good(t, g.call("blocks", `{"w":"{\"content\":[{\"type\":\"json\",\"json\":{\"n\":1}}]}"}`), `{"n":1}`)
	good(t, g.call("argv", `{}`), "t.wasm\nargv\n--flag\ntwo words\n\nenv=0\n")
	good(t, g.call("exit_zero", `{}`), `"fine"`)
	long := strings.Repeat("x", 300<<10)
	good(t, g.call("words", `{"w":"`+long+`"}`), long)

	out := g.call("fail", `{}`)
	bad(t, out, "exit status 3", "the last word", "…")
	if len(out.Text()) > 2*maxTail {
		t.Errorf("the error text has %d bytes", len(out.Text()))
	}
	bad(t, g.call("quiet_fail", `{}`), "tool t__quiet_fail ended with exit status 4")
	bad(t, g.call("fail_with_output", `{}`), "exit status 5: half done", `{"partial":true}`)
	bad(t, g.call("trap", `{}`), "trapped", "unreachable")
	short := func(c *batch.Call) { c.Grant = &batch.Grant{Timeout: 200 * time.Millisecond} }
	bad(t, g.call("spin", `{}`, short), "timeout of 200ms (the policy's grant)")
	bad(t, g.call("sleep", `{}`, short), "timeout of 200ms")
	bad(t, g.call("flood", `{}`), "wrote more than 1 MiB", "[limits].output_mib")
	bad(t, g.call("memory", `{}`), "outgrew its memory limit of 32 MiB")
	// Its input may be larger than its memory.
	long = strings.Repeat("y", 1<<20)
	good(t, g.call("words", `{"w":"`+long+`"}`, func(c *batch.Call) { c.Grant = &batch.Grant{MemoryMiB: 1} }), long)
}

func TestCommandSeesItsFilesOnly(t *testing.T) {
	g := commandRig(t)
	out := g.call("files", `{}`, func(c *batch.Call) {
		c.Run, c.Step, c.Index, c.Attempt = "r", 2, 1, 1
		c.State = map[string]json.RawMessage{"counter": json.RawMessage(`7`)}
	})
	good(t, out, strings.Join([]string{
		`/awaken/call.json: {"run":"r","batch":"r/2","operation":"r/2/1","attempt":1,"tool":"t__files"}`,
		`/awaken/state.json: {"counter":7}`,
		`/awaken/../etc/passwd: none`,
		`/etc/passwd: none`,
		`etc/passwd: none`,
		`write: refused`,
		`change: refused`,
		`entry: call.json`,
		`entry: state.json`,
		`root: none`,
		``,
	}, "\n"))
	if out := g.call("files", `{}`); !strings.Contains(out.Text(), "/awaken/state.json: {}\n") {
		t.Errorf("without state: %s", out.Text())
	}
}

func TestMemoryFS(t *testing.T) {
	if err := fstest.TestFS(memoryFS{"a.json": []byte("{}"), "b.json": nil}, "a.json", "b.json"); err != nil {
		t.Error(err)
	}
}

// Numbers of open files are a list of the host's, and each of them takes memory: both
// are bounded.
func TestCommandDescriptorsAreBounded(t *testing.T) {
	p := newPlugin(guest(t, "renumber"), plugins.ABIWASI, command("run", "json", "text"))
	g := newRig(t, newRuntime(t, Options{}), p)
	good(t, g.call("run", `{}`), "5: 0 {\n1023: 0 {\n1024: 8 ?\n2147483647: 8 ?\n4294967295: 8 ?\nmore files: few\nthen: -1\n")
}

// The same for plugins of Extism's, which have files where a folder is granted.
func TestDescriptorsAreBounded(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "text")
	p := newPlugin(guest(t, "renumber.wat"), plugins.ABIExtism, tool("renumber"))
	grantPaths(p, map[string]plugins.PathGrant{"/w": {Host: dir, Mode: "ro"}})
	g := newRig(t, newRuntime(t, Options{}), p)
	bad(t, g.call("renumber", `{}`), "status 58")
}

func TestGoProgramAsCommand(t *testing.T) {
	p := newPlugin(guest(t, "goprogram"), plugins.ABIWASI, command("run", "json", "text"))
	// The program is the Extism plugin with an empty main: it must be told apart.
	err := newRuntime(t, Options{}).Load(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), `set abi = "extism"`) {
		t.Error(err)
	}
}
