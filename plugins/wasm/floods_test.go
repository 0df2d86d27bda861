package wasm

import (
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// What a guest pours out where nobody reads as fast: each ends at its own limit,
// which is named, and the host has no more of it than that.
func TestFloods(t *testing.T) {
	var logged strings.Builder
	p := guestPlugin(t)
	p.Effective.MemoryMiB = 64
	p.Manifest.Tools = append(p.Manifest.Tools, tool("long_error"), tool("poll_forever"), tool("extism_log_flood"), tool("random_flood"))
	p.Effective.Timeout = 500 * time.Millisecond
	g := newRig(t, newRuntime(t, Options{Logger: logTo(&logged)}), p)
	out := g.call("long_error", `{}`)
	bad(t, out, "bytes left out")
	if n := len(out.Text()); n > 2*maxErrorText {
		t.Errorf("an error text of %d bytes got through", n)
	}
	logged.Reset()
	good(t, g.call("extism_log_flood", `{}`), "true")
	if n := logged.Len(); n > 4*maxLogBytes {
		t.Errorf("%d bytes were logged", n)
	}
	if s := logged.String(); !strings.Contains(s, "the rest was dropped") {
		t.Error("the log does not say that lines were dropped")
	}
	bad(t, g.call("poll_forever", `{}`), "timeout of 500ms")
	bad(t, g.call("random_flood", `{}`), "timeout of 500ms")
	good(t, g.call("echo", `{}`), `{}`)
}

// With isolation "run" and "shared" a flood of variables ends with its instance.
func TestVariablesAreBounded(t *testing.T) {
	p := newPlugin(guest(t, "guest"), plugins.ABIExtism, tool("fill_vars", isolation(plugins.IsolationShared)), tool("count_var", isolation(plugins.IsolationShared)))
	g := newRig(t, newRuntime(t, Options{}), p)
	good(t, g.call("count_var", `{}`), "1")
	bad(t, g.call("fill_vars", `{}`), "tool t__fill_vars outgrew the limit of its variables, 1 MiB")
	good(t, g.call("count_var", `{}`), "1")
}
