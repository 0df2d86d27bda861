package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

const value = "correct horse battery staple"

var _ = []plugins.SecretSource{Env(""), File(""), (*Command)(nil)}

type source interface {
	plugins.SecretSource
	Check() error
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return file
}

func TestSources(t *testing.T) {
	t.Setenv("SECRET_OF_TEST", value)
	t.Setenv("EMPTY_OF_TEST", "")
	private, public, open := write(t, "private", value, 0o600), write(t, "public", value, 0o644), write(t, "open", value, 0o666)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	script := write(t, "script", "#!/bin/sh\necho "+value+"\n", 0o700)
	for _, c := range []struct {
		name   string
		source source
		want   string
		words  string // of Resolve's error
		doubt  string // of Check's
	}{
		{"variable", Env("SECRET_OF_TEST"), value, "", ""},
		{"empty variable", Env("EMPTY_OF_TEST"), "", "", ""},
		{"no variable", Env("NOT_SET_IN_TEST"), "", "not set", "not set"},
		{"file", File(private), value, "", ""},
		{"link", File(link), value, "", ""},
		{"file that all can read", File(public), value, "", "chmod o= " + public},
		{"file that all can write", File(open), "", "chmod o= " + open, "can write to it"},
		{"no file", File(private + "x"), "", "no such file", "no such file"},
		{"folder", File(filepath.Dir(private)), "", "not a regular file", "not a regular file"},
		{"pipe", File(pipe), "", "not a regular file", "not a regular file"},
		{"command", NewCommand("", "echo", value), value + "\n", "", ""},
		{"command by path", NewCommand("", script), value + "\n", "", ""},
		{"no shell", NewCommand("", "echo", "$HOME;x"), "$HOME;x\n", "", ""},
		{"folder of a command", NewCommand(filepath.Dir(private), "cat", "private"), value, "", ""},
		{"no input", NewCommand("", "cat"), "", "", ""},
		{"no command", NewCommand("", "awaken-no-such-command", value), "", "executable file not found", "executable file not found"},
		{"no command by path", NewCommand("", filepath.Join(filepath.Dir(private), "gone"), value), "", "no such file", "no such file"},
		{"failing command", NewCommand("", "sh", "-c", "echo "+value+"; echo "+value+" >&2; exit 3"), "", "exit status 3", ""},
		{"killed command", NewCommand("", "sh", "-c", "kill -9 $$"), "", "signal: killed", ""},
		{"endless output", NewCommand("", "yes", value), "", "more than 65536 bytes", ""},
		{"child left behind", NewCommand("", "sh", "-c", "sleep 60 & echo "+value), "", "left a process behind", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			got, err := c.source.Resolve(t.Context())
			if string(got) != c.want || (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%q, %v", got, err)
			}
			doubt := c.source.Check()
			if (doubt == nil) != (c.doubt == "") || doubt != nil && !strings.Contains(doubt.Error(), c.doubt) {
				t.Errorf("Check: %v", doubt)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			text, jsonErr := json.Marshal(c.source)
			shown := fmt.Sprintf("%v %+v %#v %q %s %s %v %v %v", c.source, c.source, c.source, c.source, c.source, text, err, doubt, jsonErr)
			if strings.Contains(shown, "correct") || strings.Contains(shown, "$HOME") {
				t.Errorf("it shows what it must not: %s", shown)
			}
		})
	}
}

// A value that was changed is the one that is read next.
func TestRotation(t *testing.T) {
	file := write(t, "token", "first value", 0o600)
	for _, s := range []source{File(file), NewCommand("", "cat", file), Env("ROTATES_IN_TEST")} {
		for _, want := range []string{"one value", "another value"} {
			t.Setenv("ROTATES_IN_TEST", want)
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Resolve(t.Context()); string(got) != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", s, got, err, want)
			}
		}
	}
}

// A command that hangs ends with the call, with the children that it has.
func TestCommandEnds(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	hangs := NewCommand("", "sh", "-c", `trap "" TERM INT; sleep 60 & echo $! > "$0"; wait`, pidFile)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("the call ended")
	var pid int
	go func() {
		defer cancel(ended)
		for range 500 {
			text, _ := os.ReadFile(pidFile)
			if pid, _ = strconv.Atoi(strings.TrimSpace(string(text))); pid > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := hangs.Resolve(ctx)
	if !errors.Is(err, ended) {
		t.Fatal(err)
	}
	if pid == 0 {
		t.Fatal("the command never began")
	}
	for range 200 {
		if gone(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

// gone reports whether the process has ended, be it that nobody has asked for its
// status yet.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
