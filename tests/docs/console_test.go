package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// untried are commands that are not run here: they build or test the repository
// this test is part of.
var untried = []string{"make demo", "make test", "make build"}

// patience bounds one command of a document.
const patience = 5 * time.Minute

// console is the shell of a document. Folder and exit status carry over from one
// command to the next, variables do not.
type console struct {
	dir    string // the document's folder
	cwd    string
	status int // of the last command
	env    []string
	bound  bindings
}

func newConsole(t *testing.T) *console {
	t.Helper()
	c := &console{dir: filepath.Join(t.TempDir(), "work"), bound: bindings{}}
	home := filepath.Join(filepath.Dir(c.dir), "home")
	for _, d := range []string{c.dir, home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.cwd = c.dir
	c.env = append(os.Environ(),
		"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+home, "TZ=UTC", "LC_ALL=C.UTF-8", "AWAKEN_SRC="+root)
	c.env = append(c.env, goEnvironment(t)...)
	return c
}

// run runs a console block: lines that begin with $ are commands, the others are
// what the one before prints on both streams. Messages of the log below warnings are
// left out. A command that fails must be followed by one that shows the status.
func (c *console) run(t *testing.T, d *document, b block) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")
	for i := 0; i < len(lines); {
		at := b.line + 1 + i
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			t.Fatalf("%s:%d: %q follows no command", d.name, at, lines[i])
		}
		for i++; strings.HasSuffix(command, `\`) && i < len(lines); i++ {
			command = strings.TrimSuffix(command, `\`) + strings.TrimLeft(lines[i], " ")
		}
		var want strings.Builder
		for ; i < len(lines) && !strings.HasPrefix(lines[i], "$ "); i++ {
			want.WriteString(lines[i] + "\n")
		}
		if slices.Contains(untried, command) {
			continue
		}
		shown := command == "echo $?"
		if c.status != 0 && !shown {
			t.Fatalf("%s:%d: the command before ended with status %d, which the document does not show: add $ echo $?", d.name, at, c.status)
		}
		got, err := c.command(c.bound.command(command))
		if err != nil {
			t.Fatalf("%s:%d: %s: %v\n%s", d.name, at, command, err, got)
		}
		if err := c.bound.match(want.String(), got); err != nil {
			t.Fatalf("%s:%d: $ %s: %v", d.name, at, command, err)
		}
	}
	if c.status != 0 {
		t.Fatalf("%s:%d: the last command of the block ended with status %d, which the document does not show", d.name, b.line, c.status)
	}
}

func (c *console) command(line string) (printed string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	where := filepath.Join(filepath.Dir(c.dir), "where")
	script := fmt.Sprintf("(exit %d)\n%s\nstatus=$?\npwd >\"$WHERE\"\nexit $status\n", c.status, line)
	cmd := exec.CommandContext(ctx, "sh", "-c", script) // #nosec G204 -- the documents are ours
	cmd.Dir, cmd.Env = c.cwd, append(slices.Clip(c.env), "WHERE="+where)
	out, err := cmd.CombinedOutput()
	c.status = 0
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return string(out), errors.New("it does not end")
	case errors.As(err, &exit):
		c.status = exit.ExitCode()
	case err != nil:
		return string(out), err
	}
	cwd, err := os.ReadFile(where) // #nosec G304 -- ours
	if err != nil {
		return string(out), err
	}
	c.cwd = strings.TrimSpace(string(cwd))
	return withoutChatter(string(out)), nil
}

func withoutChatter(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "time=") && (strings.Contains(line, " level=INFO ") || strings.Contains(line, " level=DEBUG ")) {
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}

// has reports whether a tool that a block needs is there. Where all must be, it
// fails instead.
func has(t *testing.T, d *document, b block) bool {
	t.Helper()
	tool, ok := strings.CutPrefix(b.rest, "needs ")
	if !ok {
		if b.rest != "" {
			t.Fatalf("%s:%d: %q: write console, or console needs TOOL", d.name, b.line, b.rest)
		}
		return true
	}
	probes := map[string]struct {
		name, how string
		works     func() bool
	}{
		// The linker, and the target, may be missing too.
		"clang": {"clang for wasm32", "apt-get install clang lld", func() bool {
			probe := exec.Command("clang", "--target=wasm32", "-nostdlib", "-Wl,--no-entry", "-x", "c", "-", "-o", os.DevNull)
			probe.Stdin = strings.NewReader("int f(void) { return 0; }\n")
			return probe.Run() == nil
		}},
		"bwrap": {"a sandbox in namespaces", "apt-get install bubblewrap", func() bool {
			return exec.Command(binary, "-q", "sandbox", "check", "namespace").Run() == nil // #nosec G204 -- our own program
		}},
	}
	p, known := probes[tool]
	if !known {
		t.Fatalf("%s:%d: nobody knows how to find and install %s: say it in console_test.go", d.name, b.line, tool)
	}
	if p.works() {
		return true
	}
	msg := fmt.Sprintf("%s:%d: %s is missing. To install it: %s", d.name, b.line, p.name, p.how)
	if os.Getenv("CI") == "true" {
		t.Fatal(msg)
	}
	t.Log("not tried: " + msg)
	return false
}

func TestConsole(t *testing.T) {
	c := newConsole(t)
	d := &document{name: "test.md"}
	c.run(t, d, block{line: 1, text: "$ mkdir a && cd a\n$ pwd\n…/work/a\n$ false\n$ echo $?\n1\n$ echo one \\\n  two\none two\n"})
	for _, tc := range []struct{ line, printed, kept string }{
		{"time=now level=INFO msg=x", "a\n", "a\n"},
		{"time=now level=WARN msg=x", "a\n", "time=now level=WARN msg=x\na\n"},
	} {
		if got := withoutChatter(tc.line + "\n" + tc.printed); got != tc.kept {
			t.Errorf("%q", got)
		}
	}
	if c.status != 0 || len(c.bound) != 0 {
		t.Error(c.status, c.bound)
	}
}
