package secrets

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// CommandTimeout is how long a command may take, where the call that waits for it
// does not end sooner.
const CommandTimeout = 10 * time.Second

// lineEnd is how much longer than a value what is read may be.
const lineEnd = 2

// Command is a program whose standard output is the value.
type Command struct {
	// A function, because nothing prints what is inside of one.
	argv func() []string
	dir  string
}

// NewCommand returns the command argv, which names at least the program: a path, or a
// name to be found in PATH. It is run in dir (empty: the working folder) without a
// shell, with the environment of the host and nothing on standard input. What it
// writes to standard error is dropped.
func NewCommand(dir string, argv ...string) *Command {
	argv = append([]string(nil), argv...)
	return &Command{argv: func() []string { return argv }, dir: dir}
}

// Resolve implements plugins.SecretSource. When ctx ends, or CommandTimeout has
// passed, the command and everything it started are killed, but for what left its
// process group.
func (c *Command) Resolve(ctx context.Context) ([]byte, error) {
	argv := c.argv()
	ctx, cancel := context.WithTimeoutCause(ctx, CommandTimeout, fmt.Errorf("it ran longer than %s", CommandTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- the operator's own command
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children end with it
	cmd.Cancel = func() error { return killGroup(cmd) }
	// A child that stays behind with the output open is not waited for.
	cmd.WaitDelay = 500 * time.Millisecond
	out := &bounded{most: plugins.MaxSecretBytes + lineEnd}
	cmd.Stdout = out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it was ended: %w", context.Cause(ctx))
	case out.over:
		return nil, fmt.Errorf("it printed more than %d bytes", plugins.MaxSecretBytes)
	case errors.Is(err, exec.ErrWaitDelay):
		_ = killGroup(cmd)
		return nil, errors.New("it ended and left a process behind that holds its output: let it wait for its children")
	case err != nil:
		return nil, runReason(err)
	}
	return out.b, nil
}

func killGroup(cmd *exec.Cmd) error {
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// runReason keeps the arguments out of what the system says.
func runReason(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("it ended with %s: run it by hand to see what it says", exit.ProcessState)
	}
	var start *exec.Error
	if errors.As(err, &start) {
		return start.Err
	}
	return reason(err)
}

// Check reports whether there is no such program.
func (c *Command) Check() error {
	if _, err := exec.LookPath(c.argv()[0]); err != nil {
		return runReason(err)
	}
	return nil
}

// String implements plugins.SecretSource: the program without its arguments.
func (c *Command) String() string { return "command " + c.argv()[0] }

// bounded collects output up to a bound.
type bounded struct {
	b    []byte
	most int
	over bool
}

var errTooMuch = errors.New("too much output")

func (w *bounded) Write(p []byte) (int, error) {
	if len(p) > w.most-len(w.b) {
		w.over = true
		return 0, errTooMuch
	}
	w.b = append(w.b, p...)
	return len(p), nil
}
