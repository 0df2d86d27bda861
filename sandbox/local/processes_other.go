//go:build !linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// setUp gives cmd a session of its own.
func setUp(cmd *exec.Cmd, _ *sandbox.Labels) (mark string) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return ""
}

// killAll ends the Hand's process group. What left the group is not found on this
// system: the Hand ends its commands itself when its input ends.
func (i *instance) killAll(context.Context) error {
	if err := syscall.Kill(-i.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("ending process group %d: %w", i.PID(), err)
	}
	return nil
}

// Leftovers finds nothing on this system: a Hand ends when its input does, which the
// end of its host closes.
func (*Tier) Leftovers(context.Context, string) ([]sandbox.Leftover, error) { return nil, nil }

// Remove has nothing to remove on this system.
func (*Tier) Remove(context.Context, sandbox.Leftover) error { return nil }
