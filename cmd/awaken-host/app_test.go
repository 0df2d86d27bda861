package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// call runs a command line in process.
func call(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = newApp(strings.NewReader(stdin), &out, &err).main(args)
	return out.String(), err.String(), code
}

func TestWrongUsage(t *testing.T) {
	config := filepath.Join(initialised(t), "host.toml")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"rum"}, "Did you mean run or runs?"},
		{"unknown command of a group", []string{"tickets", "aprove"}, "Did you mean approve?"},
		{"unknown flag", []string{"run", "--principle", "p", "-"}, "Did you mean --principal?"},
		{"unknown short flag", []string{"run", "-z"}, "awaken-host run --help"},
		{"flag without a value", []string{"run", "--run"}, "--run"},
		{"no argument", []string{"run"}, "one message file"},
		{"too many arguments", []string{"runs", "list", "x"}, "takes no arguments"},
		{"unknown format", []string{"version", "-o", "yaml"}, "json and table"},
		{"verbose and quiet", []string{"version", "-v", "-q"}, "exclude"},
		{"no such message", []string{"run", "-c", config, "nothing.json"}, "nothing.json"},
		{"message is a folder", []string{"run", "-c", config, "."}, "is a directory"},
		{"no such host file", []string{"run", "-c", "nothing.toml", "-"}, "nothing.toml"},
		{"bad label", []string{"run", "-c", config, "--label", "x", "-"}, "key=value"},
		{"label twice", []string{"run", "-c", config, "--label", "x=1", "--label", "x=2", "-"}, "twice"},
		{"negative step", []string{"run", "-c", config, "--run", "r", "--step", "-1", "-"}, "--step -1: a number from 1"},
		{"step zero", []string{"run", "-c", config, "--run", "r", "--step", "0", "-"}, "--step 0: a number from 1"},
		{"step of no run", []string{"run", "-c", config, "--step", "2", "-"}, "--step 2: the step of which run? Say so with --run"},
		{"page of nothing", []string{"runs", "list", "-c", config, "--limit", "0"}, "--limit 0: a number from 1"},
		{"bad run id", []string{"run", "-c", config, "--run", "a/b", "-"}, "a/b"},
		{"unknown tool", []string{"tools", "call", "-c", config, "hello__gret"}, "did you mean hello__greet"},
		{"arguments that are not JSON", []string{"tools", "call", "-c", config, "hello__greet", "{"}, "not valid JSON"},
		{"digest that is none", []string{"tickets", "approve", "-c", config, "tk-a", "--arguments-sha256", "abc"}, "64 hex digits"},
		{"result that is not named", []string{"tickets", "result", "-c", config, "tk-a"}, "--result FILE is needed"},
		{"amendment without an answer", []string{"runs", "resolve", "-c", config, "r", "c"}, "either --result FILE or --failed"},
		{"amendment with both", []string{"runs", "resolve", "-c", config, "r", "c", "--failed", "--result", "x"}, "either --result FILE or --failed"},
		{"text of nothing", []string{"runs", "resolve", "-c", config, "r", "c", "--failed", "--text"}, "--text goes with --result"},
		{"no age", []string{"runs", "prune", "-c", config}, "has no store.retention"},
		{"odd age", []string{"runs", "prune", "-c", config, "--older-than", "1 month"}, "such as 30d"},
		{"negative limit", []string{"runs", "events", "-c", config, "r", "--limit", "-1"}, "a number from 1"},
		{"negative number", []string{"runs", "events", "-c", config, "r", "--after", "-1"}, "--after"},
		{"negative page", []string{"runs", "list", "-c", config, "--limit", "-1"}, "a number from 1"},
		{"no key", []string{"plugin", "sign", "."}, "--key is needed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, stderr, code := call(t, `{"calls":[{"id":"a","tool":"hello__greet"}]}`, tc.args...)
			if code != exitUsage || out != "" {
				t.Errorf("exit status %d, stdout %q", code, out)
			}
			if !strings.Contains(stderr, tc.want) || !strings.Contains("\n"+stderr, "\nawaken-host: ") || strings.Contains(stderr, "Usage:\n") {
				t.Errorf("stderr %q, want %q in it", stderr, tc.want)
			}
		})
	}
}

// A shell makes "" of a variable that is not set. A flag that is there and says
// nothing must not pass for one that was left out: it may have been a protection.
func TestEmptyValuesAreRefused(t *testing.T) {
	config := filepath.Join(initialised(t), "host.toml")
	root := newApp(nil, io.Discard, io.Discard).root()
	n := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				visit(sub)
			}
		}
		if c.HasSubCommands() {
			return
		}
		args := strings.Fields(c.CommandPath())[1:]
		if c.InheritedFlags().Lookup("config") != nil || c.Flags().Lookup("config") != nil {
			args = append(args, "-c", config)
		}
		words := strings.Fields(c.Use)[1:]
		check := func(f *pflag.Flag) {
			if f.Name == "help" || f.Value.Type() == "bool" || slices.Contains(mayBeEmpty, f.Name) {
				return
			}
			n++
			value := ""
			switch {
			case f.Annotations[zeroIsAll] != nil:
				value = "-1"
			case f.Value.Type() == "int":
				value = "0"
			}
			line := append(slices.Clone(args), "--"+f.Name, value)
			for _, w := range words {
				if w[0] == '[' || w[0] == '-' {
					break
				}
				line = append(line, "x")
			}
			out, stderr, code := call(t, "", line...)
			said := strings.HasPrefix(stderr, "awaken-host: --"+f.Name+" ")
			if slices.Contains([]string{"uint64", "float64", "duration"}, f.Value.Type()) {
				// Refused by what parses the flags, before a command sees it.
				said = strings.Contains(stderr, `"--`+f.Name+`" flag`)
			}
			if code != exitUsage || out != "" || !said {
				t.Errorf("%q: exit status %d, stdout %q, stderr %q", line, code, out, stderr)
			}
		}
		c.LocalFlags().VisitAll(check)
		c.InheritedFlags().VisitAll(check)
	}
	visit(root)
	if n < 40 {
		t.Errorf("%d flags were tried", n)
	}
	for _, args := range [][]string{{"run", "-c", config, ""}, {"init", ""}, {"runs", "show", "-c", config, ""}, {"plugin", "sign", "", "--key", "k"}} {
		out, stderr, code := call(t, "", args...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, "an argument is empty") {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, code, out, stderr)
		}
	}
}

func initialised(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, stderr, code := call(t, "", "init", dir); code != 0 {
		t.Fatalf("init: exit status %d: %s", code, stderr)
	}
	return dir
}

func TestMessageThatIsTooLong(t *testing.T) {
	a := newApp(io.LimitReader(zeros{}, maxInputBytes+10), io.Discard, io.Discard)
	_, _, err := a.readInput(t.Context(), "-")
	var usage usageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("err %v", err)
	}
	a = newApp(io.LimitReader(zeros{}, maxInputBytes), io.Discard, io.Discard)
	if data, _, err := a.readInput(t.Context(), "-"); err != nil || len(data) != maxInputBytes {
		t.Errorf("%d bytes, err %v", len(data), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A model and a guest may not drive the terminal of who looks at their results.
func TestTerminalSeesText(t *testing.T) {
	dir := initialised(t)
	config := filepath.Join(dir, "host.toml")
	evil := "\x1b]0;owned\x07\u009b31m\u202ename"
	args, err := json.Marshal(map[string]string{"name": evil})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"tools", "call", "hello__greet", string(args)},
		{"tools", "call", "hello__greet", string(args), "-o", "table"},
		{"tools", "call", "hello__greet", string(args), "-o", "json"},
		{"tools", "call", "hello__add_note", strings.Replace(string(args), "name", "text", 1)},
		{"tickets", "list"},
		{"tickets", "list", "-o", "json"},
		{"runs", "list"},
	} {
		var out, stderr bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &stderr)
		a.onTerminal, a.errOnTerminal = true, true
		code := a.main(append(line, "-c", config))
		if code != 0 && code != exitParked {
			t.Fatalf("%q: exit status %d: %s", line, code, &stderr)
		}
		if !harmless(out.String()) || !harmless(stderr.String()) {
			t.Errorf("%q:\nstdout %q\nstderr %q", line, &out, &stderr)
		}
	}
}

func TestResultOnATerminalIsIndented(t *testing.T) {
	var out bytes.Buffer
	a := newApp(nil, &out, io.Discard)
	if err := a.writeValue(map[string]any{"a": 1}); err != nil || out.String() != "{\"a\":1}\n" {
		t.Errorf("%q, %v", &out, err)
	}
	out.Reset()
	a.onTerminal = true
	if err := a.writeValue(map[string]any{"a": 1}); err != nil || out.String() != "{\n  \"a\": 1\n}\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestResultThatReachesNobodyIsAFailure(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var closed bytes.Buffer
	if code := newApp(nil, w, &closed).main([]string{"version"}); code != exitFailed || !strings.Contains(closed.String(), "was not read") {
		t.Errorf("closed pipe: exit status %d: %s", code, &closed)
	}
	var stderr bytes.Buffer
	if code := newApp(nil, failing{syscall.ENOSPC}, &stderr).main([]string{"version"}); code != exitFailed || !strings.Contains(stderr.String(), "cannot be written") {
		t.Errorf("full disk: exit status %d: %s", code, &stderr)
	}
}

// What the program tells people to paste must reach it unchanged.
func TestShellWord(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal("a POSIX shell is needed on the PATH")
	}
	for _, s := range []string{"plain", "a b", "it's", "$(x)`y`", "-c", "", "a\nb", "ü", `\`, "*?[", "~/x", "a;b&c|d", "!h"} {
		out, err := exec.Command(sh, "-c", "printf %s "+standard.ShellWord(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q became %q (%v)", s, out, err)
		}
	}
}

func TestHints(t *testing.T) {
	a := newApp(nil, io.Discard, io.Discard)
	a.config, a.dataDir = "my host.toml", "/d"
	if got, want := a.command("run", "--run", "r1", "-"), "awaken-host run -c 'my host.toml' --data-dir /d --run r1 -"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestApproverIsNeverNameless(t *testing.T) {
	name, err := currentUser()
	if err != nil || name == "" {
		t.Errorf("%q, %v", name, err)
	}
}

func TestProgress(t *testing.T) {
	dir := initialised(t)
	var out, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &stderr)
	a.errOnTerminal = true
	if code := a.main([]string{"run", "-c", filepath.Join(dir, "host.toml"), filepath.Join(dir, "batch.json")}); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	for _, want := range []string{"  1/2 call-1 hello__greet  tool  ", "  2/2 call-2 hello__list_notes  tool  "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %s", want, &stderr)
		}
	}
	var res standard.Result
	if err := json.Unmarshal(out.Bytes(), &res); err != nil || len(res.Results) != 2 {
		t.Errorf("stdout %s: %v", &out, err)
	}
}

// Every command and flag explains itself, and every command that runs has an
// example.
func TestHelp(t *testing.T) {
	root := newApp(nil, io.Discard, io.Discard).root()
	for _, group := range root.Commands() {
		for _, c := range append(group.Commands(), group) {
			if group.Name() == "help" || group.Name() == "completion" {
				continue // cobra's own
			}
			if c.Short == "" || !c.HasSubCommands() && c.Example == "" {
				t.Errorf("%s has no help or no example", c.CommandPath())
			}
		}
	}
}

func TestMessagesAreText(t *testing.T) {
	_, stderr, code := call(t, "", "config", "check", "-c", "\x1b[2J\u202e.toml")
	if code != exitUsage || !harmless(stderr) || !strings.Contains(stderr, `\x1b[2J\u202e.toml: there is no such file`) {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}
