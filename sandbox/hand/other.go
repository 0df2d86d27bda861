//go:build !linux

package hand

import (
	"errors"
	"os/exec"
)

// Elsewhere no system call finds everything that a command leaves behind, so none is
// run.
const canSupervise = false

var errLinux = errors.New("this works on Linux only")

// Harden does nothing: what keeps others from this process is the tier's.
func Harden() error { return nil }

// Supervise runs no command.
func Supervise() int { return 1 }

// Wait is for process 1 of a container.
func Wait() error { return errLinux }

// unlinked is nothing where no command runs.
func unlinked(string) int64 { return 0 }

func canConfine() bool { return false }

type orphans struct{}

func watchOrphans(bool) *orphans { return &orphans{} }

func (o *orphans) start(cmd *exec.Cmd) error { return cmd.Start() }

func (o *orphans) wait(cmd *exec.Cmd) error { return cmd.Wait() }

func (o *orphans) close() {}
