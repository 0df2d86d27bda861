package main

import (
	"errors"
	"fmt"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// The exit statuses. Standard.ExitCode gives 0, 1 and 2.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitParked      = 3
	exitInterrupted = 130 // by the second signal
)

// status ends a command with an exit status when all has been said.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError is wrong usage that a command finds in its own work.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// status is the exit status for the error of a command line.
func (a *app) status(err error) int {
	var (
		st    status
		usage usageError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &st):
		return int(st)
	case !a.began, errors.As(err, &usage):
		return exitUsage
	}
	return standard.ExitCode(err)
}
