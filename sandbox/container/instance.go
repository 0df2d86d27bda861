package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

type instance struct {
	tier  *Tier
	facts *facts
	spec  sandbox.Spec
	name  string
	cmd   *exec.Cmd
	pipes *process.Pipes
	said  said
	ready chan struct{} // closed when the Hand said so
	done  chan struct{} // closed when the client has ended
	exit  error         // of the client; set before done is closed

	scratch string // folder of the client, or empty; see engine.litters

	mu      sync.Mutex // held for as long as the engine is asked: one asks, the others get its answer
	ended   *sandbox.EndedError
	stopped bool
}

var _ sandbox.Instance = (*instance)(nil)

// Discard lets go of what spawn made, but for the client.
func (i *instance) discard() {
	i.pipes.Discard()
	if i.scratch != "" {
		if err := sandbox.RemoveTree(i.scratch); err != nil {
			i.tier.logger.Warn("a folder for temporary files stays", "folder", i.scratch, "error", err)
		}
	}
}

func (i *instance) Channel() io.ReadWriteCloser { return i.pipes }

func (i *instance) Done() <-chan struct{} { return i.done }

// Ended asks the engine what it knows. Its first answer stays.
func (i *instance) Ended(ctx context.Context) error {
	select {
	case <-i.done:
	default:
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended == nil {
		e := i.why(ctx)
		if ctx.Err() != nil {
			return e
		}
		i.ended = e
	}
	return i.ended
}

func (i *instance) why(ctx context.Context) *sandbox.EndedError {
	e := &sandbox.EndedError{Tier: i.tier.engine.name, Reason: sandbox.ReasonLost}
	if i.stopped {
		e.Reason, e.What = sandbox.ReasonKilled, "container "+i.name+" was stopped by this host"
		return e
	}
	list, err := i.tier.inspect(ctx, i.name)
	switch {
	case err != nil && isGone(err):
		e.Reason, e.What = sandbox.ReasonKilled, "container "+i.name+" was removed"
	case err != nil:
		e.What, e.Err = "the engine does not answer any more", err
	case len(list) == 1:
		s := list[0].State
		e.What = fmt.Sprintf("container %s is %s", i.name, s.Status)
		switch {
		case s.Running:
			e.What += ", but its client ended: " + i.exit.Error()
		case s.OOMKilled, s.ExitCode == 128+int(syscall.SIGKILL) && i.noted():
			e.Reason = sandbox.ReasonMemory
			e.What += fmt.Sprintf(", over its limit of %d MiB", i.spec.Limits.WithDefaults().MemoryMiB)
		case s.ExitCode > 128:
			e.Reason = sandbox.ReasonKilled
			e.What += fmt.Sprintf(", by signal %d", s.ExitCode-128)
		default:
			e.Reason = sandbox.ReasonExited
			e.What += fmt.Sprintf(", with status %d", s.ExitCode)
		}
		if s.Error != "" {
			e.What += ": " + s.Error
		}
	}
	if text := i.said.String(); text != "" {
		e.What += ": " + text
	}
	return e
}

// Noted says whether podman's monitor noted that memory ran out: see engine.litters.
func (i *instance) noted() bool {
	if i.scratch == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(i.scratch, "oom"))
	return err == nil
}

// Stop removes the container, which ends all that runs in it, and waits for the
// client. When it succeeded, the engine has said that nothing is left.
func (i *instance) Stop(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil
	}
	if err := i.tier.remove(ctx, i.name); err != nil {
		return err
	}
	i.stopped = true
	select {
	case <-i.done:
	case <-ctx.Done():
	}
	select {
	case <-i.done:
	default:
		// The container is gone; only its client hangs.
		if err := i.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("container %s is removed, but its client (process %d) cannot be ended: %w", i.name, i.cmd.Process.Pid, err)
		}
		<-i.done
	}
	i.discard()
	return nil
}

// IsGone says that the engine knows no such container.
func isGone(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no such container") || strings.Contains(text, "no container with name or id") ||
		strings.Contains(text, "no such object")
}
