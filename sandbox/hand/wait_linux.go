package hand

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Wait is process 1 of a boundary into which Hands are started from outside: it reaps
// what ends without a parent, and ends on SIGTERM or SIGINT, after it has killed all
// other processes of the boundary. As another process than 1, it ends only what
// descends from it. What it has open, such as the log of the boundary, is no other
// program's to open: see Harden.
func Wait() error {
	if err := Harden(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for s := range signals {
		if s == syscall.SIGCHLD {
			reapEnded()
			continue
		}
		if os.Getpid() == 1 {
			_ = syscall.Kill(-1, syscall.SIGKILL)
		}
		for deadline := time.Now().Add(killWithin); reapEnded() && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			for _, pid := range descendants(os.Getpid()) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return nil
	}
	return nil
}

// reapEnded reaps children that have ended and reports whether there are others.
func reapEnded() (others bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		}
	}
}
