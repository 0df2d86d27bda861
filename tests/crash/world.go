package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// world is a data_dir over its lives, with what is outside of it.
type world struct {
	config string
	dir    string
	data   string // data_dir
	lives  int
	check  *checker
}

// end is how a life ended.
type end struct {
	killed bool
	where  string // the commit point or "effect"; empty: at a random time, or not killed
	after  bool   // after it was noted
	stage  stage
	took   time.Duration
}

// maxLife is when a life counts as stuck.
const maxLife = 2 * time.Minute

func newWorld(config, dir string) *world {
	return &world{config: config, dir: dir, data: filepath.Join(dir, dataName), check: newChecker(scene())}
}

// command is the next life as a process that is not started yet, and what it will
// say.
func (w *world) command(a aim) (*exec.Cmd, *bytes.Buffer) {
	text, err := json.Marshal(orders{Config: w.config, World: w.dir, Data: w.data, Life: w.lives, Aim: a})
	if err != nil {
		panic(err) // of numbers and names
	}
	program, err := os.Executable()
	if err != nil {
		panic(err) // it runs
	}
	var log bytes.Buffer
	cmd := exec.Command(program) // #nosec G204 -- this very program
	cmd.Env = append(os.Environ(), lifeVariable+"="+string(text))
	cmd.Stderr = &log
	return cmd, &log
}

// live runs one life, which ends where it aims, after the given time when that is
// not zero, or by itself, and then looks at what is left. Violations are the
// invariants that do not hold; an error is a failure of the test itself.
func (w *world) live(a aim, after time.Duration) (e end, violations []string, err error) {
	w.lives++
	cmd, log := w.command(a)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return e, nil, err
	}
	if after == 0 {
		after = maxLife
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	waitErr := cmd.Wait()
	random := !timer.Stop()
	e.took = time.Since(began)

	var exit *exec.ExitError
	switch {
	case waitErr == nil:
	case errors.As(waitErr, &exit) && signalled(exit.ProcessState):
		e.killed = true
		if random && after == maxLife {
			violations = append(violations, fmt.Sprintf("life %d was not at its end after %v", w.lives, maxLife))
		}
	case errors.As(waitErr, &exit):
		violations = append(violations, fmt.Sprintf("life %d ended by itself with status %d:\n%s", w.lives, exit.ExitCode(), log.Bytes()))
	default:
		return e, nil, waitErr
	}
	journal, err := readLines[entry](filepath.Join(w.dir, journalName))
	if err != nil {
		return e, nil, err
	}
	for _, x := range journal {
		if x.Life != w.lives {
			continue
		}
		if x.Stage != "" {
			e.stage = x.Stage
		}
		if x.Strike != "" {
			e.where, e.after = x.Strike, a.After
		}
	}
	found, err := w.look(journal, !e.killed && waitErr == nil)
	return e, append(violations, found...), err
}

func signalled(s *os.ProcessState) bool {
	ws, ok := s.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// look opens the ledger as a listing command does and checks it. Settled says that
// the last life came to its end.
func (w *world) look(journal []entry, settled bool) (violations []string, err error) {
	effects, err := readLines[happened](filepath.Join(w.dir, effectsName))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	l, c, err := standard.OpenLedger(ctx, w.config, standard.Options{DataDir: w.data})
	if err != nil {
		return []string{fmt.Sprintf("the ledger does not open: %v", err)}, nil
	}
	defer func() {
		// A process that is being started for another world shares the locks of this one
		// until its program runs.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		err = errors.Join(err, c.Close())
	}()
	h, err := readHistory(ctx, l)
	if err != nil {
		return []string{fmt.Sprintf("the ledger cannot be read: %v", err)}, nil
	}
	return w.check.look(h, journal, effects, settled), nil
}
