package container

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

const (
	maxAnswer = 8 << 20 // of a client command
	waitDelay = 2 * time.Second
)

// ClientEnviron are the variables that a client gets: where its user's files are.
// DOCKER_HOST and its like are not among them, because they would decide outside of
// host.toml on which machine tools run.
var clientEnviron = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK",
}

// ElsewhereEnviron are variables that a user of the engine may have set, and that are
// not obeyed.
var elsewhereEnviron = []string{"DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION"}

func environ() []string {
	var env []string
	for _, name := range clientEnviron {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Client makes a command of the engine. It is in a process group of its own, so that
// an interrupt at the terminal of the host is the host's alone. What an engine leaves
// running, such as conmon, must not hold a lock that the host was started under.
func (t *Tier) client(ctx context.Context, args ...string) *exec.Cmd {
	_ = sandbox.KeepDescriptors() // no client gives them to a container
	argv := slices.Concat(t.command, t.global, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the operator names the engine
	cmd.Env = environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = waitDelay
	return cmd
}

// Ask runs a command of the engine and returns what it wrote to its standard output.
// An error is a *clientError.
func (t *Tier) ask(ctx context.Context, args ...string) ([]byte, error) {
	var stdout head
	var stderr process.Tail
	cmd := t.client(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil && stdout.over {
		err = errors.New("the answer is too long")
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return stdout.Bytes(), &clientError{engine: t.engine.name, what: args[0], said: stderr.String(), err: err}
	}
	return stdout.Bytes(), nil
}

// ClientError is a client command that failed.
type clientError struct {
	engine string
	what   string // the subcommand
	said   string // the end of its standard error
	err    error
}

func (e *clientError) Error() string {
	s := e.engine + " " + e.what + ": " + e.err.Error()
	if e.said != "" {
		s += ": " + e.said
	}
	return s
}

func (e *clientError) Unwrap() error { return e.err }

// Head keeps the beginning of what is written to it.
type head struct {
	bytes.Buffer
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	n := len(p)
	if room := maxAnswer - h.Len(); len(p) > room {
		h.over, p = true, p[:room]
	}
	h.Buffer.Write(p)
	return n, nil
}
