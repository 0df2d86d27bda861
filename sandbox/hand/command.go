package hand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// How long the processes of a command may take to end once they are killed.
const (
	killWithin = 10 * time.Second
	pipeWithin = 2 * time.Second
)

// commands runs the commands of calls, each under a supervisor of its own: this
// program once more, to which everything that a command leaves behind is left, so
// that all of it can be found and nothing of another call's.
type commands struct {
	h        *hand
	usage    *usage
	orphans  *orphans
	confines bool

	uncounted atomic.Bool // nobody knows what the kernel kills for memory
}

func newCommands(h *hand) *commands {
	workspace := h.places.real(sandbox.WorkspaceDir)
	return &commands{
		h: h, orphans: watchOrphans(h.o.OwnProcess), confines: canConfine(),
		usage: newUsage(workspace, int64(h.limits.WorkspaceMiB)<<20),
	}
}

// run starts a child and waits for its end.
func (o *orphans) run(cmd *exec.Cmd) error {
	if err := o.start(cmd); err != nil {
		return err
	}
	return o.wait(cmd)
}

func (c *commands) close() { c.orphans.close() }

// Run implements wasm.Commands.
func (c *commands) Run(ctx context.Context, q *wasm.Command) (*wasm.CommandResult, error) {
	if c.h.o.Program == "" || !canSupervise {
		return nil, errors.New("commands cannot be run on this system")
	}
	o, folder, err := c.order(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	if over := c.usage.over(); over != "" {
		return nil, errors.New(over)
	}
	if c.h.hello.Network == sandbox.NetworkAllowlist {
		p, err := newProxy(ctx, c.h.channel, q.Call.Operation())
		if err != nil {
			return nil, err
		}
		defer p.Close()
		o.Env = append(o.Env, p.env()...)
	}
	kills, counted := c.kernelKills(ctx, q.Call.Operation())
	j := &job{c: c, stdout: newCapture(), stderr: newCapture()}
	if err := j.start(o, q, folder); err != nil {
		return nil, fmt.Errorf("%s: its supervisor cannot be started: %w", q.Argv[0], err)
	}
	result := &wasm.CommandResult{}
	var timeout <-chan time.Time
	if q.Timeout > 0 {
		t := time.NewTimer(q.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	exceeded, unwatch := c.usage.watch()
	defer unwatch()
	select {
	case <-j.ended:
	case <-ctx.Done():
	case <-timeout:
		result.TimedOut = true
	case result.Limit = <-exceeded:
	}
	if err := j.end(); err != nil {
		return nil, fmt.Errorf("%s: %w", q.Argv[0], err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if j.report.Error != "" {
		return nil, fmt.Errorf("%s: %s", q.Argv[0], j.report.Error)
	}
	result.ExitCode, result.Signal = j.report.ExitCode, j.report.Signal
	if counted && result.ExitCode != 0 && !result.TimedOut && result.Limit == "" {
		result.Limit = c.outOfMemory(ctx, q.Call.Operation(), kills)
	} else if result.TimedOut || result.Limit != "" {
		result.ExitCode, result.Signal = 128+9, "SIGKILL"
	}
	result.Stdout, result.Stderr = j.stdout.captured(), j.stderr.captured()
	return result, nil
}

// job is one command with its supervisor.
type job struct {
	c              *commands
	cmd            *exec.Cmd
	stdout, stderr *capture
	orders         *os.File // closing it ends the command
	ended          chan struct{}
	once           sync.Once
	report         report
	err            error
}

func (j *job) start(o *order, q *wasm.Command, folder *os.File) error {
	inOrders, orders, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = inOrders.Close() }()
	reports, outReports, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return err
	}
	defer func() { _ = outReports.Close() }()
	j.cmd = exec.Command(j.c.h.o.Program, SuperviseArg) //nolint:gosec // this program's own file
	j.cmd.Env = labels(os.Environ())
	j.cmd.Stdout, j.cmd.Stderr = j.stdout, j.stderr
	if len(q.Stdin) > 0 {
		j.cmd.Stdin = newStdin(q.Stdin)
	}
	j.cmd.ExtraFiles = []*os.File{orderFile - 3: inOrders, reportFile - 3: outReports, folderFile - 3: folder}
	j.cmd.WaitDelay = pipeWithin
	if err := j.c.orphans.start(j.cmd); err != nil {
		_, _ = orders.Close(), reports.Close()
		return err
	}
	j.orders, j.ended = orders, make(chan struct{})
	go func() {
		defer close(j.ended)
		defer func() { _ = reports.Close() }()
		err := json.NewEncoder(orders).Encode(o)
		waited := j.c.orphans.wait(j.cmd)
		if errors.Is(waited, exec.ErrWaitDelay) {
			waited = nil
		}
		_ = outReports.Close()
		if decoded := json.NewDecoder(io.LimitReader(reports, 64<<10)).Decode(&j.report); decoded != nil {
			j.err = fmt.Errorf("its supervisor died, and with it the command: %w", errors.Join(err, waited, decoded))
		}
	}()
	return nil
}

// labels are the variables by which a tier without a boundary finds what belongs to
// this Hand after the Hand was killed: the supervisor, and so what descends from it.
// The command has none of them.
func labels(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return !strings.HasPrefix(v, "AWAKEN_SANDBOX_") })
}

// end kills what still runs of the command, and returns when nothing does.
func (j *job) end() error {
	j.once.Do(func() { _ = j.orders.Close() })
	select {
	case <-j.ended:
		return j.err
	case <-time.After(killWithin):
	}
	// It was killed itself, stopped, or kept from killing.
	_ = j.cmd.Process.Kill()
	<-j.ended
	return j.err
}
