package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds every wait for a process.
const patience = 60 * time.Second

// slotKey is where a script keeps its slot.
type slotKey struct{}

// slot holds the process that a script started last.
type slot struct{ b *background }

type background struct {
	cmd    *exec.Cmd
	out    watched
	err    watched
	exited chan struct{}
}

// watched collects what a process writes.
type watched struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *watched) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes())
}

// start PATTERN COMMAND ARGS… starts a command and waits until its standard error
// has PATTERN; the command goes on.
func start(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "start PATTERN COMMAND [ARGS…]")
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	b := &background{exited: make(chan struct{})}
	name := args[1]
	if name == "awaken-host" {
		name = binary
	}
	b.cmd = exec.Command(name, args[2:]...)
	b.cmd.Dir = ts.MkAbs(".")
	b.cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "TMPDIR="+ts.Getenv("TMPDIR"))
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.err
	ts.Check(b.cmd.Start())
	go func() {
		_ = b.cmd.Wait() // how it ended is in ProcessState
		close(b.exited)
	}()
	ts.Defer(func() {
		_ = b.cmd.Process.Kill()
		<-b.exited
	})
	b.await(ts, re)
	ts.Value(slotKey{}).(*slot).b = b
}

// await PATTERN waits until the standard error of what start started has PATTERN.
func await(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "await PATTERN")
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	process(ts).await(ts, re)
}

func (b *background) await(ts *testscript.TestScript, re *regexp.Regexp) {
	deadline := time.After(patience)
	for !re.Match(b.err.bytes()) {
		select {
		case <-b.exited:
			if re.Match(b.err.bytes()) {
				continue
			}
			ts.Fatalf("it ended before %q: %v\n%s", re, b.cmd.ProcessState, b.err.bytes())
		case <-deadline:
			ts.Fatalf("no %q within %v:\n%s", re, patience, b.err.bytes())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func process(ts *testscript.TestScript) *background {
	b := ts.Value(slotKey{}).(*slot).b
	if b == nil {
		ts.Fatalf("nothing was started")
	}
	return b
}

// signal NAME sends KILL, INT, TERM or HUP to what start started.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "signal KILL|INT|TERM|HUP")
	sig, ok := map[string]os.Signal{"KILL": syscall.SIGKILL, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]
	usage(ts, ok, "signal KILL|INT|TERM|HUP")
	ts.Check(process(ts).cmd.Process.Signal(sig))
}

// ended STATUS waits for what start started; STATUS is its exit status, or the
// word killed. Its output is then what stdout and stderr look at.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "ended STATUS|killed")
	b := process(ts)
	select {
	case <-b.exited:
	case <-time.After(patience):
		ts.Fatalf("it did not end within %v:\n%s", patience, b.err.bytes())
	}
	_, err := io.Copy(ts.Stdout(), bytes.NewReader(b.out.bytes()))
	ts.Check(err)
	_, err = io.Copy(ts.Stderr(), bytes.NewReader(b.err.bytes()))
	ts.Check(err)
	got := strconv.Itoa(b.cmd.ProcessState.ExitCode())
	if st, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		got = "killed"
	}
	if got != args[0] {
		ts.Fatalf("it ended with %s, want %s:\n%s", got, args[0], b.err.bytes())
	}
}
