package wasm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

func text(id string) plugins.ToolSpec { return tool(id, encoding("json", "text")) }

// guestTools is every export of guest.c with one useful encoding.
func guestTools() []plugins.ToolSpec {
	return []plugins.ToolSpec{
		tool("echo"), tool("echo", named("raw_json"), encoding("base64:d", "json")), tool("echo", named("raw_text"), encoding("base64:d", "text")),
		tool("echo", named("raw_blocks"), encoding("base64:d", "blocks")), tool("echo", named("words"), encoding("text:w", "text")),
		tool("nothing"), tool("nothing", named("nothing_text"), encoding("json", "text")),
		tool("trap"), tool("spin"), tool("spin_host"), tool("recurse"),
		tool("grow_trap"), tool("grow_at_once"), tool("grow_gracefully"), tool("grow_and_say"), text("fill_extism"),
		tool("big_output", encoding("text:n", "text")),
		tool("error_but_zero"), tool("error_with_output"), tool("status_with_output"), tool("status_only"), tool("bad_error_text"),
		tool("count_static"), text("count_var"), tool("fill_vars"), text("config"), tool("fetch", encoding("text:request", "text")),
		tool("call_info"), tool("state"), tool("raw_state", encoding("text:r", "json")), tool("wild_request"),
		tool("talk"), tool("log_flood"), tool("world"), tool("surroundings"),
		tool("exit_zero"), tool("exit_three"), tool("exit_like_timeout"), tool("sleep_long"), tool("damage_and_hang"),
	}
}

func guestPlugin(tb testing.TB) *plugins.Plugin {
	p := newPlugin(guest(tb, "guest"), plugins.ABIExtism, guestTools()...)
	p.Config = map[string]string{"units": "metric"}
	return p
}

func b64(s string) string {
	return `{"d":"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"}`
}

func TestInvokeAnswers(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{}), guestPlugin(t))
	good(t, g.call("echo", `{"a": [1,"ü"]}`), `{"a": [1,"ü"]}`)
	good(t, g.call("words", `{"w":"zwei Wörter"}`), "zwei Wörter")
	good(t, g.call("raw_text", b64("\x00 and é")), "\x00 and é")
	good(t, g.call("nothing_text", `{}`), "")
	good(t, g.call("config", `{}`), "metric")
	good(t, g.call("exit_zero", `{}`), `"bye"`)

	out := g.call("raw_blocks", b64(`{"content":[{"type":"text","text":"hi"},{"type":"image","data":"AAE=","mime_type":"image/png"}],"state":[{"op":"increment","key":"n","value":1}]}`))
	if out.IsError || len(out.Content) != 2 || !bytes.Equal(out.Content[1].Data, []byte{0, 1}) || len(out.State) != 1 || out.State[0].Op != batch.OpIncrement {
		t.Errorf("blocks: %+v", out)
	}
	out = g.call("raw_blocks", b64(`{"content":[{"type":"text","text":"no"}],"is_error":true,"state":[{"op":"delete","key":"n"}]}`))
	bad(t, out, "no")
	bad(t, g.call("raw_blocks", b64(`{"content":[],"is_error":true}`)), "failed")
}

func TestInvokeFailures(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{}), guestPlugin(t))
	const memory = "outgrew its memory limit of 32 MiB (capabilities.memory_mib)"
	for _, c := range []struct {
		tool, args string
		want       []string
	}{
		{"trap", `{}`, []string{"tool t__trap trapped", "unreachable"}},
		{"recurse", `{}`, []string{"trapped", "out of bounds memory access"}},
		{"grow_trap", `{}`, []string{memory}},
		{"grow_at_once", `{}`, []string{memory}},
		{"grow_and_say", `{}`, []string{"no memory left", memory}},
		{"fill_extism", `{}`, []string{memory}},
		{"nothing", `{}`, []string{"bad result", "empty"}},
		{"error_but_zero", `{}`, []string{"set as an error"}},
		{"error_with_output", `{}`, []string{"half done", `{"partial":true}`}},
		{"status_with_output", `{}`, []string{`{"partial":true}`}},
		{"status_only", `{}`, []string{"failed with status 7"}},
		{"bad_error_text", `{}`, []string{"bad \uFFFD text"}},
		{"fill_vars", `{}`, []string{"outgrew the limit of its variables, 1 MiB"}},
		{"exit_three", `{}`, []string{"ended with exit status 3", "gave up"}},
		{"exit_like_timeout", `{}`, []string{"ended with exit status 4026531839"}},
		{"raw_json", b64(`{"a":NaN}`), []string{"not one JSON value", "byte 6"}},
		{"raw_json", b64(`{"a":1`), []string{"not one JSON value"}},
		{"raw_json", b64(`1 2`), []string{"not one JSON value"}},
		{"raw_json", b64("\"\xff\""), []string{"byte 1 is 0xff, which is not UTF-8"}},
		{"raw_json", b64(`"\ud800"`), []string{`\ud800 at byte 1 is half of a surrogate pair`}},
		{"raw_json", b64(strings.Repeat("[", 100) + strings.Repeat("]", 100)), []string{"nests deeper than 64"}},
		{"raw_text", b64("ab\xc3("), []string{"not UTF-8 (byte 2 is 0xc3)"}},
		{"raw_blocks", b64(`{"content":[{"type":"text","text":"x"}],"tier":"local"}`), []string{`unknown field "tier"`}},
		{"raw_blocks", b64(`{"content":[{"type":"text","text":"\udfff"}]}`), []string{"surrogate"}},
		{"raw_blocks", b64(`{"content":[{"type":"text","json":1}]}`), []string{"content block 0"}},
		{"raw_blocks", b64(`not json`), []string{"envelope"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			bad(t, g.call(c.tool, c.args), c.want...)
			good(t, g.call("echo", `{}`), `{}`)
		})
	}
	// A guest that is refused memory and gets by is a success.
	out := g.call("grow_gracefully", `{}`)
	if n, err := strconv.Atoi(out.Text()); out.IsError || err != nil || n < 400 || n > 512 {
		t.Errorf("grew by %s pages, error %t; the limit is 512", out.Text(), out.IsError)
	}
}

func TestTimeouts(t *testing.T) {
	p := guestPlugin(t)
	p.Effective.Timeout, p.Manifest.Capabilities.Timeout = 300*time.Millisecond, 300*time.Millisecond
	g := newRig(t, newRuntime(t, Options{}), p)
	for _, tool := range []string{"spin", "spin_host", "sleep_long", "damage_and_hang"} {
		start := time.Now()
		bad(t, g.call(tool, `{}`), fmt.Sprintf("tool t__%s ran longer than its timeout of 300ms (capabilities.timeout)", tool))
		took := time.Since(start)
		if took < 300*time.Millisecond || took > 5*time.Second {
			t.Errorf("%s took %v", tool, took)
		}
		// This one does not hear the end of its context: it takes the closing of its
		// instance. If it ended without, the test would not show that.
		if tool == "damage_and_hang" && took < 300*time.Millisecond+killGrace {
			t.Errorf("%s ended after %v, before it was closed", tool, took)
		}
	}
}

func TestSizes(t *testing.T) {
	p := guestPlugin(t)
	p.OutputMiB = 1
	g := newRig(t, newRuntime(t, Options{}), p)
	long := strings.Repeat("x", 200<<10) // beyond the usual 64 KiB line
	good(t, g.call("words", `{"w":"`+long+`"}`), long)
	good(t, g.call("big_output", `{"n":"1048576"}`), strings.Repeat("\x00", 1<<20))
	bad(t, g.call("big_output", `{"n":"1048577"}`), "output of 1048577 bytes, the limit is 1 MiB ([limits].output_mib)")
	p.Effective.MemoryMiB, p.Manifest.Capabilities.MemoryMiB = 2, 2
	g = newRig(t, g.r, p)
	bad(t, g.call("words", `{"w":"`+strings.Repeat("y", 3<<20)+`"}`), "input of 3 MiB", "memory limit of 2 MiB (capabilities.memory_mib)")
	// It fits the limit but leaves the guest no room for a copy.
	bad(t, g.call("words", `{"w":"`+strings.Repeat("y", 3<<19)+`"}`), "out of memory", "memory limit of 2 MiB")
	// It fits before the guest's own memory is counted, and not after.
	bad(t, g.call("words", `{"w":"`+strings.Repeat("y", 2<<20-1000)+`"}`), "memory limit of 2 MiB")

	big := guestPlugin(t)
	big.Effective.MemoryMiB, big.Manifest.Capabilities.MemoryMiB = 64, 64
	g = newRig(t, g.r, big)
	if out := g.call("big_output", `{"n":"16777216"}`); out.IsError || len(out.Text()) != 16<<20 {
		t.Errorf("16 MiB result: error %t, %d bytes", out.IsError, len(out.Text()))
	}
}

func TestGrantNarrows(t *testing.T) {
	p := guestPlugin(t)
	p.Effective.MemoryMiB = 24 // clamped by the operator: the manifest says 32
	g := newRig(t, newRuntime(t, Options{}), p)
	bad(t, g.call("grow_trap", `{}`), "memory limit of 24 MiB ([limits].memory_mib)")
	narrow := func(grant batch.Grant) func(*batch.Call) {
		return func(c *batch.Call) { c.Grant = &grant }
	}
	bad(t, g.call("grow_trap", `{}`, narrow(batch.Grant{MemoryMiB: 8})), "memory limit of 8 MiB (the policy's grant)")
	bad(t, g.call("grow_trap", `{}`, narrow(batch.Grant{MemoryMiB: 800})), "memory limit of 24 MiB ([limits].memory_mib)")
	bad(t, g.call("spin", `{}`, narrow(batch.Grant{Timeout: 50 * time.Millisecond})), "timeout of 50ms (the policy's grant)")
	// In the guest's own memory: 200 KiB to begin with do not fit into nothing.
	good(t, g.call("echo", `1`, narrow(batch.Grant{MemoryMiB: 1})), "1")
}

func TestHostSideErrors(t *testing.T) {
	r := newRuntime(t, Options{MaxConcurrent: 1})
	g := newRig(t, r, guestPlugin(t))
	kind := func(err error) batch.ToolErrorKind {
		var te *batch.ToolError
		if !errors.As(err, &te) {
			t.Fatalf("%v is not a ToolError", err)
		}
		return te.Kind
	}
	want := func(what string, err error, k batch.ToolErrorKind, is error) {
		t.Helper()
		if kind(err) != k || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := g.exec.Invoke(context.Background(), g.newCall("absent", `{}`))
	want("unknown tool", err, batch.ToolErrorUnavailable, nil)
	changed := g.newCall("echo", `{}`)
	changed.ToolDigest = strings.Repeat("cd", 32)
	_, err = g.exec.Invoke(context.Background(), changed)
	want("changed tool", err, batch.ToolErrorUnavailable, nil)
	_, err = g.exec.Invoke(context.Background(), g.newCall("words", `{"other":1}`))
	want("missing argument", err, batch.ToolErrorInvalidArguments, nil)

	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = g.exec.Invoke(gone, g.newCall("echo", `{}`))
	want("cancelled before", err, batch.ToolErrorUnavailable, context.Canceled)

	// Cancelled while it runs, and another one while it waits for the only slot.
	spinning, stop := context.WithCancel(context.Background())
	first := make(chan error)
	go func() {
		_, err := g.exec.Invoke(spinning, g.newCall("spin", `{}`))
		first <- err
	}()
	for len(r.slots) == 0 {
		time.Sleep(time.Millisecond)
	}
	waiting, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	_, err = g.exec.Invoke(waiting, g.newCall("echo", `{}`))
	want("waited for a slot", err, batch.ToolErrorUnavailable, context.DeadlineExceeded)
	time.Sleep(20 * time.Millisecond)
	stop()
	want("cancelled while it ran", <-first, batch.ToolErrorExecution, context.Canceled)
	good(t, g.call("echo", `{}`), `{}`)
	why := errors.New("the run was cancelled by alice")
	running, give := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { give(why) })
	_, err = g.exec.Invoke(running, g.newCall("spin", `{}`))
	want("cancelled for a reason", err, batch.ToolErrorExecution, context.Canceled)
	want("cancelled for a reason", err, batch.ToolErrorExecution, why)

	if got := g.exec.RecoveryCapability("t__echo"); got != batch.ReplaySafe {
		t.Error(got)
	}
	if got := g.exec.RecoveryCapability("t__absent"); got != batch.NonRecoverable {
		t.Error(got)
	}
}

func TestCloseStopsGuests(t *testing.T) {
	r, err := New(context.Background(), Options{CacheDir: cacheDir})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, r, guestPlugin(t))
	done := make(chan error)
	go func() {
		_, err := g.exec.Invoke(context.Background(), g.newCall("spin", `{}`))
		done <- err
	}()
	for len(r.slots) == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	var te *batch.ToolError
	if err := <-done; !errors.As(err, &te) || te.Kind != batch.ToolErrorExecution || !errors.Is(err, ErrClosed) {
		t.Errorf("the running call: %v", err)
	}
	_, err = g.exec.Invoke(context.Background(), g.newCall("echo", `{}`))
	if !errors.As(err, &te) || te.Kind != batch.ToolErrorUnavailable || !errors.Is(err, ErrClosed) {
		t.Errorf("a call after close: %v", err)
	}
	if err := r.Load(context.Background(), g.p); !errors.Is(err, ErrClosed) {
		t.Errorf("load after close: %v", err)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestHostFunctions(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{}), guestPlugin(t))
	out := g.call("call_info", `{}`, func(c *batch.Call) { c.Run, c.Step, c.Index, c.Attempt = "r-1", 4, 2, 3 })
	good(t, out, `{"run":"r-1","batch":"r-1/4","operation":"r-1/4/2","attempt":3,"tool":"t__call_info"}`)
	good(t, g.call("state", `{}`), `{"found":false}`)
	with := func(v string) func(*batch.Call) {
		return func(c *batch.Call) { c.State = map[string]json.RawMessage{"counter": json.RawMessage(v)} }
	}
	good(t, g.call("state", `{}`, with(`{"n":3}`)), `{"found":true,"value":{"n":3}}`)
	good(t, g.call("state", `{}`, with(`null`)), `{"found":true,"value":null}`)
	for _, request := range []string{`""`, `"[]"`, `"{\"key\":1}"`, `"no json"`} {
		good(t, g.call("raw_state", `{"r":`+request+`}`), `{"error":"awaken_state_get: the request is not {\"key\":\"…\"}"}`)
	}
	if out := g.call("wild_request", `{}`); !strings.Contains(out.Text(), `"error"`) {
		t.Errorf("wild offset: %s", out.Text())
	}
	big := g.call("raw_state", `{"r":"`+strings.Repeat("k", 2<<20)+`"}`)
	if !strings.Contains(big.Text(), "at most 1048576 are allowed") {
		t.Errorf("large request: %s", clip(big.Text()))
	}
}

func TestNothingAround(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{}), guestPlugin(t))
	good(t, g.call("surroundings", `{}`), `{"args":0,"env":0,"files":0}`)
}

func TestGoGuest(t *testing.T) {
	p := newPlugin(guest(t, "goguest"), plugins.ABIExtism, tool("echo"), tool("count"), tool("panics"), tool("naps"), tool("hoards"))
	p.Effective.Timeout = 2 * time.Second
	g := newRig(t, newRuntime(t, Options{}), p)
	good(t, g.call("echo", `{"a":1}`), `{"a":1}`)
	good(t, g.call("count", `{}`), "1")
	good(t, g.call("count", `{}`), "1")
	bad(t, g.call("panics", `{}`), "trapped", "panic: runtime error: index out of range")
	bad(t, g.call("hoards", `{}`), "outgrew its memory limit of 32 MiB")
	bad(t, g.call("naps", `{}`), "timeout of 2s ([limits].timeout)")
}

// TestOnePluginDoesNotHoldUpTheOthers: calls that sleep take every place that their
// plugin may have, and another plugin still gets its answer.
func TestOnePluginDoesNotHoldUpTheOthers(t *testing.T) {
	r := newRuntime(t, Options{MaxConcurrent: 3})
	asleep := newRig(t, r, newPlugin(guest(t, "guest"), plugins.ABIExtism, tool("sleep_long"), tool("echo")))
	awake := newRig(t, r, newPlugin(guest(t, "guest"), plugins.ABIExtism, tool("echo")))
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 6 {
		wg.Go(func() { _, _ = asleep.exec.Invoke(ctx, asleep.newCall("sleep_long", `{}`)) })
	}
	for len(r.slots) < 2 {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		good(t, awake.call("echo", `{}`), `{}`)
	}
	waiting, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := asleep.exec.Invoke(waiting, asleep.newCall("echo", `{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call of the plugin that sleeps: %v", err)
	}
	stop()
	wg.Wait()
	good(t, asleep.call("echo", `{}`), `{}`)
	if n := len(r.slots); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}
