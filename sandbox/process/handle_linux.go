package process

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Handle holds on to one process: a signal goes to it or to nobody.
type Handle struct {
	fd int
}

// Open gets hold of the process that has this number now. The error is
// os.ErrNotExist when there is none. The caller closes the handle.
func Open(pid int) (*Handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, os.ErrNotExist
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &Handle{fd: fd}, nil
}

// Kill sends SIGKILL. It is no error when the process has ended.
func (h *Handle) Kill() error {
	if err := unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// Wait returns when the process has ended, or with ctx. The first process of a PID
// namespace ends after all others of it.
func (h *Handle) Wait(ctx context.Context) error {
	for {
		wait := time.Second
		if at, ok := ctx.Deadline(); ok {
			wait = min(wait, max(time.Until(at), 0))
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, int(wait.Milliseconds())+1) //nolint:gosec // a descriptor
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// Close lets go.
func (h *Handle) Close() error { return unix.Close(h.fd) }
