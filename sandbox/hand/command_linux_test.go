package hand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

type ran struct {
	Error           string `json:"error"`
	ExitCode        int    `json:"exit_code"`
	Signal          string `json:"signal"`
	TimedOut        bool   `json:"timed_out"`
	Limit           string `json:"limit"`
	Stdout          string `json:"stdout"`
	StdoutBase64    []byte `json:"stdout_base64"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StdoutDropped   int64  `json:"stdout_dropped"`
	Stderr          string `json:"stderr"`
}

// command asks for a command as the tool does.
func (w *world) command(plugin string, request any, edit ...func(*sandbox.CallParams)) ran {
	w.t.Helper()
	args, err := json.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	p := w.params(plugin, "run")
	for _, e := range edit {
		e(&p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := w.invoke(ctx, p, string(args))
	if err != nil {
		w.t.Fatal(err)
	}
	var r ran
	if out.IsError || json.Unmarshal([]byte(out.Text()), &r) != nil {
		w.t.Fatalf("%s", out.Text())
	}
	return r
}

func sh(script string) map[string]any { return map[string]any{"argv": []string{"sh", "-c", script}} }

// commandWorld has a Hand as a process of its own, and the plugin that runs sh.
func commandWorld(t *testing.T, edit ...func(*sandbox.PluginImage)) (*world, string) {
	t.Helper()
	w := newWorld(t).asProcess()
	m, code := tool(t, "guests/exec")
	return w, w.give(m, code, edit...)
}

func TestCommands(t *testing.T) {
	w, key := commandWorld(t)
	if err := os.Mkdir(w.workspace("sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", w.workspace("out")); err != nil {
		t.Fatal(err)
	}
	request := func(script string, more ...any) map[string]any {
		r := sh(script)
		for pair := range slices.Chunk(more, 2) {
			r[pair[0].(string)] = pair[1]
		}
		return r
	}
	for _, c := range []struct {
		name    string
		request any
		want    ran
		refused string // in part
	}{
		{name: "output", request: sh("echo a; echo b >&2; exit 3"), want: ran{ExitCode: 3, Stdout: "a\n", Stderr: "b\n"}},
		{name: "standard input", request: request("cat", "stdin", "hello"), want: ran{Stdout: "hello"}},
		{name: "bytes", request: request("cat", "stdin_base64", []byte{0, 255}), want: ran{StdoutBase64: []byte{0, 255}}},
		{name: "input that nobody reads", request: request("exit 0", "stdin", strings.Repeat("x", 300_000))},
		{name: "signal", request: sh("kill -TERM $$"), want: ran{ExitCode: 143, Signal: "SIGTERM"}},
		{name: "folder", request: request("basename $(pwd)", "cwd", "sub"), want: ran{Stdout: "sub\n"}},
		{name: "folder by its whole name", request: request("basename $(pwd)", "cwd", "/workspace/sub"), want: ran{Stdout: "sub\n"}},
		{name: "variable", request: request("echo $TZ $HOSTNAME", "env", map[string]string{"TZ": "UTC"}), want: ran{Stdout: "UTC\n"}},
		{name: "timeout", request: request("sleep 30", "timeout_ms", 50), want: ran{ExitCode: 137, Signal: "SIGKILL", TimedOut: true}},
		{name: "no new privileges", request: sh("grep NoNewPrivs /proc/self/status | tr -d '\t'"), want: ran{Stdout: "NoNewPrivs:1\n"}},
		{name: "no core", request: sh("ulimit -c"), want: ran{Stdout: "0\n"}},
		{name: "open files", request: sh("ulimit -n"), want: ran{Stdout: "1024\n"}},
		{name: "folder outside", request: request("pwd", "cwd", "../.."), refused: "not in the workspace"},
		{name: "folder by a link", request: request("pwd", "cwd", "out"), refused: "cannot be entered"},
		{name: "library", request: request("true", "env", map[string]string{"LD_PRELOAD": "/workspace/x.so"}), refused: `"LD_PRELOAD" cannot be set`},
		{name: "Git's program", request: request("true", "env", map[string]string{"GIT_SSH_COMMAND": "sh"}), refused: "cannot be set"},
		{name: "command not asked for", request: map[string]any{"argv": []string{"env"}}, refused: `may not run "env": the manifest`},
		{name: "path", request: map[string]any{"argv": []string{"/bin/sh"}}, refused: "may not run"},
		{name: "zero byte", request: map[string]any{"argv": []string{"sh", "a\x00b"}}, refused: "zero byte"},
		{name: "nothing", request: map[string]any{"argv": []string{}}, refused: "the request is not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.command(key, c.request)
			if c.refused != "" {
				if !strings.Contains(got.Error, c.refused) {
					t.Errorf("got %+v, want an error with %q", got, c.refused)
				}
				return
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
	t.Run("policy", func(t *testing.T) {
		got := w.command(key, sh("true"), func(p *sandbox.CallParams) { p.Grant = &batch.Grant{Commands: []string{}} })
		if !strings.Contains(got.Error, "the policy does not grant it") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("policy takes the workspace", func(t *testing.T) {
		got := w.command(key, sh("true"), func(p *sandbox.CallParams) { p.Grant = &batch.Grant{Paths: map[string]string{}} })
		if !strings.Contains(got.Error, "may not use /workspace") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("policy leaves reading", func(t *testing.T) {
		got := w.command(key, sh("echo x > f && echo wrote"), func(p *sandbox.CallParams) { p.Grant = &batch.Grant{Paths: map[string]string{"/workspace": "ro"}} })
		if _, err := os.Stat(w.workspace("f")); err == nil || strings.Contains(got.Stdout, "wrote") {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A program that a call put into the workspace is not found by its name.
func TestCommandIsNotOfTheWorkspace(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PATH", w.hello.Places[sandbox.WorkspaceDir]+":"+os.Getenv("PATH"))
	if err := os.WriteFile(w.workspace("sh"), []byte("#!/bin/cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.asProcess()
	m, code := tool(t, "guests/exec")
	if got := w.command(w.give(m, code), sh("echo right")); got.Stdout != "right\n" {
		t.Errorf("%+v", got)
	}
}

func TestCommandOutputIsBounded(t *testing.T) {
	w, key := commandWorld(t)
	got := w.command(key, sh("echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last"))
	if !got.StdoutTruncated || !strings.HasPrefix(got.Stdout, "first\n") || !strings.HasSuffix(got.Stdout, "\nlast\n") || len(got.Stdout) != maxCaptured {
		t.Errorf("%d bytes, truncated %t, %.20q…", len(got.Stdout), got.StdoutTruncated, got.Stdout)
	}
	if want := int64(6+5_000_000+1+5) - maxCaptured; got.StdoutDropped != want {
		t.Errorf("dropped %d, want %d", got.StdoutDropped, want)
	}
}

// survivors of this test are told by what they sleep.
func sleeping(t *testing.T, mark string) int {
	t.Helper()
	n := 0
	for _, p := range processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if !p.zombie && strings.Contains(string(b), mark) {
			n++
		}
	}
	return n
}

// bomb leaves sleepers that left session, group, parent and pipes, which go on forking.
func bomb(mark string) string {
	return `i=0; while [ $i -lt 15 ]; do (setsid sh -c 'sleep ` + mark + ` & setsid sleep ` + mark + ` & sleep ` + mark + `' &) ; i=$((i+1)); done; sleep 0.2; echo done`
}

func TestNothingSurvivesACommand(t *testing.T) {
	w, key := commandWorld(t)
	t.Run("end", func(t *testing.T) {
		begun := time.Now()
		if got := w.command(key, sh(bomb("7101.5"))); got.Stdout != "done\n" || got.ExitCode != 0 {
			t.Errorf("%+v", got)
		}
		if n := sleeping(t, "7101.5"); n > 0 {
			t.Errorf("%d processes are left", n)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		r := sh(bomb("7102.5") + "; sleep 7102.5")
		r["timeout_ms"] = 400
		if got := w.command(key, r); !got.TimedOut {
			t.Errorf("%+v", got)
		}
		if n := sleeping(t, "7102.5"); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		args, _ := json.Marshal(sh(bomb("7103.5") + "; sleep 7103.5"))
		p := w.params(key, "run")
		ended := make(chan error, 1)
		go func() {
			_, err := w.invoke(ctx, p, string(args))
			ended <- err
		}()
		waitFor(t, func() bool { return sleeping(t, "7103.5") > 3 })
		cancel()
		if err := <-ended; err == nil {
			t.Error("a cancelled call has a result")
		}
		waitFor(t, func() bool { return sleeping(t, "7103.5") == 0 })
		// What it came to is in the ledger, a moment after the processes are gone.
		waitFor(t, func() bool {
			raw, err := w.ask(sandbox.MethodLedger, sandbox.LedgerQuery{Operation: p.Operation()}, []byte{}, nil)
			var rec sandbox.LedgerRecord
			if err != nil || json.Unmarshal(raw, &rec) != nil {
				t.Fatalf("%s, %v", raw, err)
			}
			return rec.Done && rec.Failed == batch.ToolErrorExecution
		})
	})
	t.Run("the Hand is killed", func(t *testing.T) {
		p := w.params(key, "run")
		args, _ := json.Marshal(sh(bomb("7105.5") + "; sleep 7105.5"))
		ended := make(chan error, 1)
		go func() {
			_, err := w.invoke(context.Background(), p, string(args))
			ended <- err
		}()
		waitFor(t, func() bool { return sleeping(t, "7105.5") > 3 })
		_ = w.cmd.Process.Kill()
		if err := <-ended; !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v", err)
		}
		waitFor(t, func() bool { return sleeping(t, "7105.5") == 0 })
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("it does not happen")
		}
	}
}

// Calls that run at once do not end each other's commands.
func TestConcurrentCommands(t *testing.T) {
	w, key := commandWorld(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			got := w.command(key, sh(fmt.Sprintf("setsid sleep 60 & sleep 0.%d; echo %d", i+1, i)))
			if got.Stdout != fmt.Sprintf("%d\n", i) {
				t.Errorf("%d: %+v", i, got)
			}
		})
	}
	all.Wait()
}

// What lies deeper than a name can be long is not out of sight, be it a folder or only
// the file in it.
func TestUsageOfWhatCannotBeSeen(t *testing.T) {
	const longest = 4095 // PATH_MAX has the zero at the end, too
	for what, file := range map[string]string{"folder": "hidden", "file": strings.Repeat("f", 250)} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			u := newUsage(dir, 1<<20)
			if over := u.over(); over != "" {
				t.Errorf("an empty workspace: %s", over)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.Repeat("d", 200)
			levels := (longest - len(dir)) / (len(name) + 1)
			if what == "folder" {
				levels++
			}
			for range levels {
				if err := root.Mkdir(name, 0o700); err != nil {
					t.Fatal(err)
				}
				below, err := root.OpenRoot(name)
				_ = root.Close()
				if err != nil {
					t.Fatal(err)
				}
				root = below
			}
			defer root.Close()
			if err := root.WriteFile(file, make([]byte, 2<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			if over := u.over(); !strings.Contains(over, "cannot be measured") || len(over) > 500 {
				t.Errorf("2 MiB where nobody can look: %q", over)
			}
		})
	}
}

func TestCommandsAreHeldToTheWorkspaceLimit(t *testing.T) {
	w, key := commandWorld(t)
	got := w.command(key, sh("while true; do head -c 1000000 /dev/zero >> a; head -c 1000000 /dev/zero >> b; sleep 0.02; done"))
	if !strings.Contains(got.Limit, "8 MiB") || got.ExitCode != 137 {
		t.Errorf("%+v", got)
	}
	got = w.command(key, sh("true"))
	if !strings.Contains(got.Error, "holds more than 8 MiB") {
		t.Errorf("%+v", got)
	}
}

// A file that was removed and is still open has no name, and takes its place on the
// disk all the same.
func TestFilesWithoutNamesCount(t *testing.T) {
	w, key := commandWorld(t)
	got := w.command(key, sh("exec 3>a 4>b; rm a b; head -c 6000000 /dev/zero >&3; head -c 6000000 /dev/zero >&4; sleep 300"))
	if !strings.Contains(got.Limit, "8 MiB") || got.ExitCode != 137 {
		t.Errorf("%+v", got)
	}
	if got = w.command(key, sh("true")); got.Error != "" || got.ExitCode != 0 {
		t.Errorf("once it has ended: %+v", got)
	}
}

// What a command may not have of the Hand, though it has the same user.
func TestCommandsDoNotReachTheHand(t *testing.T) {
	w, key := commandWorld(t)
	state := w.hello.Places[sandbox.StateDir]
	for name, script := range map[string]string{
		"ledger":      "cat " + state + "/ledger",
		"forge":       "echo x >> " + state + "/ledger",
		"environment": fmt.Sprintf("cat /proc/%d/environ", w.cmd.Process.Pid),
		"memory":      fmt.Sprintf("head -c 1 /proc/%d/maps", w.cmd.Process.Pid),
		"outside":     "echo x > " + filepath.Join(w.dir, "outside"),
		"signal":      fmt.Sprintf("kill -9 %d", w.cmd.Process.Pid),
	} {
		if version := landlockVersion(); version < landlockNeeds && name != "environment" && name != "memory" || version < 6 && name == "signal" {
			continue
		}
		if got := w.command(key, sh(script)); got.ExitCode == 0 || got.Stdout != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if err := w.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error(err)
	}
}

// Where the kernel cannot confine a command, one runs only for a call that may use
// all that is there.
func TestCommandsWithoutLandlock(t *testing.T) {
	hello := sandbox.Hello{Mounts: map[string]bool{"/data": false}}
	c := &commands{h: &hand{places: newPlaces(hello)}}
	for _, f := range []struct {
		folders map[string]string
		ok      bool
	}{
		{map[string]string{"/workspace": "rw", "/data": "ro"}, true},
		{map[string]string{"/workspace": "rw"}, false},
		{map[string]string{"/workspace": "ro", "/data": "ro"}, false},
		{nil, false},
	} {
		var o order
		if err := c.reach(&o, f.folders); (err == nil) != f.ok || len(o.Read)+len(o.Write) > 0 {
			t.Errorf("%v: %v, %+v", f.folders, err, o)
		}
	}
}

func TestWithout(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b/c", "a/d", "e"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := without(dir, []string{filepath.Join(dir, "a/b"), "/elsewhere"})
	want := []string{filepath.Join(dir, "a/d"), filepath.Join(dir, "e")}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Secrets are read from the host for the call that asks, and do not get into results.
func TestSecretsComeFromTheHost(t *testing.T) {
	w := newWorld(t)
	var asked sandbox.SecretParams
	w.serve = func(_ context.Context, s *sandbox.Stream) error {
		if s.Method() != sandbox.MethodSecret {
			return errors.New("only secrets are asked")
		}
		if err := s.Params(&asked); err != nil {
			return err
		}
		if _, err := s.Write([]byte("hunter2hunter2")); err != nil {
			return err
		}
		return s.End(nil)
	}
	w.asProcess()
	m, code := tool(t, "guests/exec")
	key := w.give(m, code)
	p := w.params(key, "run_with_secret")
	out, err := w.invoke(context.Background(), p, `{"argv":["sh","-c","env; echo hunter2hunter2"]}`)
	if err != nil || out.IsError {
		t.Fatalf("%+v, %v", out, err)
	}
	if asked.Operation != p.Operation() || asked.Name != "API_TOKEN" {
		t.Errorf("asked for %+v", asked)
	}
	if text := out.Text(); strings.Contains(text, "hunter2") || !strings.Contains(text, "[redacted:API_TOKEN]") {
		t.Errorf("%s", text)
	}
}

// As process 1 the Hand reaps what its commands leave.
func TestHandAsProcessOne(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Getuid() != 0 {
		needed := "unshare is needed, and root: apt-get install util-linux"
		if os.Getenv("CI") == "true" {
			t.Fatal(needed)
		}
		t.Skip(needed)
	}
	w := newWorld(t).asProcess(unshare, "--pid", "--fork", "--mount-proc", "--kill-child")
	m, code := tool(t, "guests/exec")
	key := w.give(m, code)
	w.command(key, sh(bomb("7106.5")))
	got := w.command(key, sh("grep -h State /proc/[0-9]*/status | grep -c Z; ls -d /proc/[0-9]* | wc -l"))
	if lines := strings.Fields(got.Stdout); len(lines) != 2 || lines[0] != "0" {
		t.Errorf("%+v", got)
	}
	var p sandbox.Properties
	if _, err := w.ask(sandbox.MethodProbe, nil, []byte{}, &p); err != nil || p[sandbox.PropertyProcesses].State != sandbox.Enforced {
		t.Errorf("%+v, %v", p[sandbox.PropertyProcesses], err)
	}
}
