package wasm

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/plugins"
)

// TestOutputStaysPure runs guests that talk in a process of its own, with the
// variable set that makes Extism connect them to the process's output.
func TestOutputStaysPure(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestTalkInChild$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"="+cacheDir, extismWASIOutput+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &stdout, &stderr)
	}
	if !strings.Contains(stdout.String(), "--- PASS: TestTalkInChild") {
		t.Fatalf("the child ran nothing:\n%s", &stdout)
	}
	for _, line := range strings.Split(stdout.String()+stderr.String(), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line != "PASS" && !strings.HasPrefix(line, "=== RUN") && !strings.HasPrefix(line, "--- PASS") {
			t.Errorf("the process wrote %q", line)
		}
	}
}

// TestTalkInChild is the other half; alone it checks only that guests may talk.
func TestTalkInChild(t *testing.T) {
	r := newRuntime(t, Options{Logger: logTo(io.Discard)})
	g := newRig(t, r, guestPlugin(t))
	good(t, g.call("talk", `{}`), "true")
	os.Setenv(extismWASIOutput, "1") // by somebody else in the process
	good(t, g.call("talk", `{}`), "true")
	bad(t, g.call("trap", `{}`), "trapped")
	bad(t, g.call("exit_three", `{}`), "gave up")

	s := newRig(t, r, isolated(t, plugins.IsolationShared))
	for range 3 {
		// Extism prints when it cannot reset its own memory for the next call.
		good(t, s.call("damage_extism", `{}`), `"damaged"`)
		good(t, s.call("talk", `{}`), "true")
	}
	c := newRig(t, r, newPlugin(guest(t, "command"), plugins.ABIWASI, command("fail", "json", "text", "fail"), command("argv", "json", "text", "argv")))
	bad(t, c.call("fail", `{}`), "the last word")
	good(t, c.call("argv", `{}`), "t.wasm\nargv\nenv=0\n")

	goer := newRig(t, r, newPlugin(guest(t, "goguest"), plugins.ABIExtism, tool("panics")))
	if out, err := goer.exec.Invoke(context.Background(), goer.newCall("panics", `{}`)); err != nil || !out.IsError {
		t.Error(out, err)
	}
}
