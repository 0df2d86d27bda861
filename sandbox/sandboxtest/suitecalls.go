package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

func containsText(s, part string) bool { return strings.Contains(s, part) }

// callsOf makes calls of pure Wasm and of guests with files.
func (s Setup) callsOf(t *testing.T) {
	b := s.open(t)
	slow, work, find := load(t, "guests", "slow"), load(t, "plugins", "workspace"), load(t, "plugins", "search")
	if got := b.must(slow, "echo", map[string]any{"a": 1}); !strings.Contains(got, `"a":1`) {
		t.Errorf("a pure call answers %s", got)
	}
	if got := b.must(work, "write", map[string]string{"path": "notes/garden.txt", "text": "water the plants\nplant the beans\n"}); got != "Wrote 33 bytes to notes/garden.txt" {
		t.Errorf("writing a file answers %q", got)
	}
	if got := b.must(work, "list", map[string]any{}); got != `{"files":[{"path":"notes/garden.txt","bytes":33}]}` {
		t.Errorf("the files are %s", got)
	}
	if got := b.must(find, "grep", map[string]string{"pattern": "bea+ns"}); got != `{"matches":[{"file":"notes/garden.txt","line":2,"text":"plant the beans"}],"more":false}` {
		t.Errorf("grep finds %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	t.Run("a path that leads outside", func(t *testing.T) {
		out, err := b.call(ctx, work, "write", map[string]string{"path": "../escaped.txt", "text": "x"})
		if err != nil || !out.IsError {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				out, err := b.call(ctx, slow, "echo", map[string]int{"n": i})
				if want := fmt.Sprintf(`"n":%d`, i); err != nil || out.IsError || !strings.Contains(text(out), want) {
					t.Errorf("call %d: %v, %v", i, out, err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("a call that is cancelled", func(t *testing.T) {
		short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		defer stop()
		begun := time.Now()
		out, err := b.call(short, slow, "sleep_unsafe", map[string]int{"ms": 600000})
		if err == nil || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %v, %v", time.Since(begun), out, err)
		}
	})
	t.Run("a call whose time is over", func(t *testing.T) {
		params := b.params(slow, "sleep_unsafe")
		params.Grant = &batch.Grant{Timeout: 300 * time.Millisecond}
		begun := time.Now()
		out, err := b.callAs(ctx, slow, params, map[string]int{"ms": 600000})
		if err != nil || !out.IsError || !strings.Contains(text(out), "300ms") || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(begun), out, err)
		}
	})
	t.Run("what policy takes away", func(t *testing.T) {
		params := b.params(find, "grep")
		params.Grant = &batch.Grant{Commands: []string{}}
		out, err := b.callAs(ctx, find, params, map[string]string{"pattern": "x"})
		if err != nil || !out.IsError || !strings.Contains(text(out), "policy") {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("a module that cannot run", func(t *testing.T) {
		for name, code := range map[string]string{
			"it has no such function":  "",
			"its function is no code":  "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x08\x01\x04echo\x00\x00\x0a\x05\x01\x03\x00\x1a\x0b", // it drops what is not there
			"it begins and never ends": "\x01\x04",
		} {
			_, err := b.call(ctx, slow.with([]byte("\x00asm\x01\x00\x00\x00"+code), "echo"), "echo", map[string]int{})
			var r *sandbox.RemoteError
			if !errors.As(err, &r) || r.Kind != string(batch.ToolErrorPlacement) {
				t.Errorf("%s: got %v, want the kind %s, as beside the model", name, err, batch.ToolErrorPlacement)
			}
		}
	})
	t.Run("a plugin that is not known", func(t *testing.T) {
		params := b.params(slow, "echo")
		params.Plugin = "unknown"
		err := b.ask(ctx, sandbox.MethodCall, params, nil)
		var r *sandbox.RemoteError
		if !errors.As(err, &r) || r.Kind != string(batch.ToolErrorUnavailable) {
			t.Errorf("got %v, want the kind %s", err, batch.ToolErrorUnavailable)
		}
	})
}

// commandsOf runs commands, and looks for what they leave.
func (s Setup) commandsOf(t *testing.T) {
	b := s.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := b.runAs(ctx, "run", command{Argv: []string{"sh", "-c", "cat; pwd; echo $TERM >&2; exit 7"}, Stdin: "from outside\n", Env: map[string]string{"TERM": "hello"}})
	if err != nil || r.ExitCode != 7 || !strings.HasPrefix(r.Stdout, "from outside\n") || r.Stderr != "hello\n" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := b.runAs(ctx, "run", command{Argv: []string{"id"}}); err != nil || !strings.Contains(r.Error, "may not run") {
		t.Errorf("a command that is not granted: %+v, %v", r, err)
	}
	if r, err := b.runAs(ctx, "run", command{Argv: []string{"sh", "-c", "pwd"}, Dir: "../.."}); err != nil || r.Error == "" {
		t.Errorf("a command that begins outside of the workspace: %+v, %v", r, err)
	}
	t.Run("its end is the end of all it started", func(t *testing.T) {
		mark := newNonce()
		sleeper := "sleep 1000; : " + mark
		begun := time.Now()
		r := b.shell(fmt.Sprintf("setsid sh -c '%s' & (sh -c '%s' &) ; sh -c '%s' & echo over", sleeper, sleeper, sleeper))
		if r.ExitCode != 0 || r.Stdout != "over\n" {
			t.Errorf("got %+v", r)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it waited %v for what keeps its output open", took)
		}
		if left := running(t, mark); len(left) > 0 {
			t.Errorf("the call is over, and these run: %v", left)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		h := b.hold(0)
		h.cancel()
		<-h.done
		if h.err == nil {
			t.Errorf("got %+v", h.ran)
		}
		h.gone(t)
	})
	t.Run("timed out", func(t *testing.T) {
		h := b.hold(time.Second)
		<-h.done
		if h.err != nil || !h.ran.TimedOut || h.took > 15*time.Second {
			t.Errorf("after %v: %+v, %v", h.took, h.ran, h.err)
		}
		if left := running(t, h.mark); len(left) > 0 {
			t.Errorf("the call is over, and these run: %v", left)
		}
	})
	t.Run("a flood of output", func(t *testing.T) {
		r := b.shell("head -c 20000000 /dev/zero | tr '\\0' 'a'; echo the end")
		if !r.StdoutTruncated || len(r.Stdout) > 2<<20 || !strings.HasSuffix(r.Stdout, "the end\n") || r.StdoutDropped+int64(len(r.Stdout)) != 20000000+8 {
			t.Errorf("truncated %t, %d bytes, %d dropped", r.StdoutTruncated, len(r.Stdout), r.StdoutDropped)
		}
	})
	t.Run("temporary files", func(t *testing.T) {
		if r := b.shell("cd ${TMPDIR:-/tmp} && echo x > x && cat x"); r.Stdout != "x\n" {
			t.Errorf("got %+v", r)
		}
	})
}

// outOfMemory has the kernel end a command, whose answer says so.
func (s Setup) outOfMemory(t *testing.T) {
	s.Spec.Limits.MemoryMiB = 128
	b := s.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const grow = `x=x; while :; do x="$x$x"; done`
	for name, script := range map[string]string{"the command": grow, "a child of it": "sh -c '" + grow + "'; exit $?"} {
		r, err := b.runAs(ctx, "run", command{Argv: []string{"sh", "-c", script}})
		if err != nil {
			// A kubelet on cgroup version 2 has the kernel end all of a container together.
			select {
			case <-b.inst.Done():
			case <-ctx.Done():
			}
			if ended := b.inst.Ended(ctx); sandbox.ReasonOf(ended) != sandbox.ReasonMemory {
				t.Errorf("%s: %v; %v", name, err, ended)
			}
			return
		}
		if r.ExitCode != 137 || r.TimedOut || !strings.Contains(r.Limit, "ran out of memory") || !strings.Contains(r.Limit, "128 MiB ([sandbox.limits].memory_mib)") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// What fails by itself, or is killed by somebody else, is not called so afterwards.
	for script, status := range map[string]int{"exit 3": 3, "kill -9 $$": 137} {
		if r := b.shell(script); r.ExitCode != status || r.Limit != "" {
			t.Errorf("%s: %+v", script, r)
		}
	}
}

// ledgerOf makes one operation more than once.
func (s Setup) ledgerOf(t *testing.T) {
	b := s.open(t)
	p := load(t, "guests", "exec")
	params := b.params(p, "run")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	count := command{Argv: []string{"sh", "-c", "echo once >> count; cat count"}}
	first, err := b.callAs(ctx, p, params, count)
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.callAs(ctx, p, params, count)
	if err != nil || text(first) != text(again) || again.CallID != params.ID {
		t.Errorf("the operation made again gave %v, %v; before it was %s", again, err, text(first))
	}
	r := b.ledger(params.Operation())
	if !r.Done || r.Attempt != 1 || r.Output == nil || text(r.Output) != text(first) {
		t.Errorf("the ledger says %+v", r)
	}
	if r := b.ledger(batch.NewOperationID("run", 9, 9)); r.Attempt != 0 || r.Done {
		t.Errorf("the ledger of what never was says %+v", r)
	}
	if got := b.shell("cat count").Stdout; got != "once\n" {
		t.Errorf("it was done more than once: %q", got)
	}
}
