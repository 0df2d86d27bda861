package process

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Ended says how a program ended that a tier started, with the end of what it wrote
// to standard error. A status of 128 and a signal's number, with which bwrap speaks
// of its child, counts as that signal.
func Ended(tier string, state *os.ProcessState, stderr *Tail) *sandbox.EndedError {
	e := &sandbox.EndedError{Tier: tier, Reason: sandbox.ReasonExited}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		e.Reason, e.What = sandbox.ReasonKilled, "the Hand got signal "+status.Signal().String()
	case ok && status.ExitStatus() > 128 && status.ExitStatus() <= 128+64:
		e.Reason, e.What = sandbox.ReasonKilled, "the Hand got signal "+syscall.Signal(status.ExitStatus()-128).String()
	default:
		e.What = fmt.Sprintf("the Hand ended with status %d", state.ExitCode())
	}
	if said := stderr.String(); said != "" {
		e.What += "; its last words: " + said
	}
	return e
}

// LogLines reads r to its end and closes it: into tail, and line by line into log at
// level debug. Long lines are logged in pieces.
func LogLines(r io.ReadCloser, tail *Tail, log *slog.Logger) {
	defer r.Close()
	lines := bufio.NewReaderSize(io.TeeReader(r, tail), 4096)
	for {
		line, _, err := lines.ReadLine()
		if err != nil {
			return
		}
		log.Debug("the Hand wrote to standard error", "line", string(line))
	}
}
