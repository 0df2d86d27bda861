package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/cgroup"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// instance is one sandbox. bwrap stays outside of it as the parent of its first
// process, which is the Hand: when either ends, the kernel ends all that is inside.
type instance struct {
	id       string
	network  sandbox.Network
	limits   sandbox.InstanceLimits
	mark     string          // see process.Mark
	users    []int           // see process.HasMark
	folders  []string        // what can be read of this machine
	writable map[string]bool // mount points that may be
	cmd      *exec.Cmd       // bwrap
	pipes    *process.Pipes
	status   *os.File // what bwrap says of itself; it dies of saying it to nobody
	stderr   *process.Tail
	group    atomic.Pointer[cgroup.Group] // nil: none
	oom      atomic.Bool                  // the kernel ended the Hand since there was no memory
	done     chan struct{}

	mu    sync.Mutex
	child int             // the Hand, as this machine numbers it; 0 before it is known
	first *process.Handle // of child

	stop    sync.Mutex // held while Stop works
	stopped bool
}

// supervise reads what bwrap and Hand write to standard error, and closes done when
// both have ended.
func (i *instance) supervise(stderr io.ReadCloser, log *slog.Logger) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		process.LogLines(stderr, i.stderr, log)
	}()
	go func() {
		defer close(i.done)
		_ = i.cmd.Wait()
		_ = i.status.Close()
		// Nobody inside lives on without bwrap, but ending takes a moment.
		if h, _ := i.handle(); h != nil {
			_ = h.Wait(context.Background())
		}
		n, err := i.OOMKills()
		i.oom.Store(err == nil && n > 0)
		select {
		case <-read:
		case <-time.After(time.Second):
		}
	}()
}

// hold gets hold of the first process inside.
func (i *instance) hold(child int) error {
	h, err := process.Open(child)
	if err != nil {
		return fmt.Errorf("first process %d: %w", child, err)
	}
	if s, err := process.ReadStat(child); err != nil || s.Parent != i.cmd.Process.Pid {
		_ = h.Close()
		return fmt.Errorf("process %d is not bubblewrap's: %w", child, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.child, i.first = child, h
	return nil
}

func (i *instance) handle() (*process.Handle, int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first, i.child
}

// OOMKills implements sandbox.OOMCounter: the Hand sees no cgroup.
func (i *instance) OOMKills() (uint64, error) {
	g := i.group.Load()
	if g == nil {
		return 0, errors.New("the sandbox has no cgroup")
	}
	return g.OOMKills()
}

func (i *instance) Channel() io.ReadWriteCloser { return i.pipes }

func (i *instance) Done() <-chan struct{} { return i.done }

func (i *instance) Ended(context.Context) error {
	select {
	case <-i.done:
		e := process.Ended(sandbox.TierNamespace, i.cmd.ProcessState, i.stderr)
		if e.Reason == sandbox.ReasonKilled && i.oom.Load() {
			e.Reason = sandbox.ReasonMemory
			e.What = fmt.Sprintf("its processes together needed more than %d MiB; %s", i.limits.MemoryMiB, e.What)
		}
		return e
	default:
		return nil
	}
}

// Stop kills the first process inside, with which the kernel ends all others.
func (i *instance) Stop(ctx context.Context) error {
	i.stop.Lock()
	defer i.stop.Unlock()
	if i.stopped {
		return nil
	}
	_ = i.pipes.Close()
	h, child := i.handle()
	if h != nil {
		if err := h.Kill(); err != nil {
			return i.left(fmt.Sprintf("process %d cannot be ended", child), err)
		}
		if err := h.Wait(ctx); err != nil {
			return i.left(fmt.Sprintf("process %d has not ended", child), err)
		}
	}
	// Without a first process bwrap ends by itself. One that was not known yet may wait
	// for a bwrap that is gone; it still has its name.
	if h == nil {
		if err := process.EndMarked(ctx, i.mark, i.users...); err != nil {
			return i.left("bubblewrap cannot be ended", err)
		}
	}
	select {
	case <-i.done:
	case <-ctx.Done():
		return i.left(fmt.Sprintf("bubblewrap, process %d, has not ended", i.cmd.Process.Pid), ctx.Err())
	}
	i.pipes.Discard()
	if g := i.group.Load(); g != nil {
		if err := g.Remove(ctx); err != nil {
			return i.left("what limited it is left", err)
		}
	}
	if h != nil {
		_ = h.Close()
	}
	i.stopped = true
	return nil
}

func (i *instance) left(what string, err error) error {
	return fmt.Errorf("environment %s, tier %s: %s: %w", i.id, sandbox.TierNamespace, what, err)
}

func writable(spec *sandbox.Spec) map[string]bool {
	w := map[string]bool{sandbox.WorkspaceDir: true, sandbox.TempDir: true, sandbox.StateDir: true}
	for _, m := range spec.Mounts {
		w[m.Target] = m.Writable
	}
	return w
}
