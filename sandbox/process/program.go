package process

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"
)

// Program is a started program whose standard input and output are a channel, and
// what an Instance says of it. It is safe for concurrent use.
type Program struct {
	cmd    *exec.Cmd
	pipes  *Pipes
	stderr *Tail
	done   chan struct{}
}

// Launch starts cmd, which dies with this process where the system can see to it. What
// it writes to standard error goes into log, line by line. The caller ends it.
func Launch(cmd *exec.Cmd, log *slog.Logger) (*Program, error) {
	p := &Program{cmd: cmd, stderr: &Tail{}, done: make(chan struct{})}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = errW
	pipes, started, err := Connect(cmd)
	if err != nil {
		_, _ = errR.Close(), errW.Close()
		return nil, err
	}
	p.pipes = pipes
	err = Shared().Start(cmd)
	started()
	_ = errW.Close()
	if err != nil {
		_ = errR.Close()
		pipes.Discard()
		return nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		LogLines(errR, p.stderr, log)
	}()
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
		// What the program started may hold its standard error open: nobody waits for that.
		select {
		case <-read:
		case <-time.After(100 * time.Millisecond):
		}
	}()
	return p, nil
}

// PID is the program's number, which may be another's once it has ended.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Channel is its standard input and output.
func (p *Program) Channel() io.ReadWriteCloser { return p.pipes }

// Done is closed when it has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// EndedAs says how, as the Hand of the tier; nil before.
func (p *Program) EndedAs(tier string) error {
	select {
	case <-p.done:
		return Ended(tier, p.cmd.ProcessState, p.stderr)
	default:
		return nil
	}
}

// Discard waits until it has ended and closes the channel; an error is that of ctx.
func (p *Program) Discard(ctx context.Context) error {
	select {
	case <-p.done:
		p.pipes.Discard()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
