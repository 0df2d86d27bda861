package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

func ownSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// killAll ends the Hand, what descends from it, and what carries its mark: a process
// whose parent ended descends from the Hand no more, and still has its environment.
// It looks again until a look finds nothing, since processes start others meanwhile.
func (i *instance) killAll(ctx context.Context) error {
	// What was seen to descend from the Hand is remembered, so that its children are
	// found after it ended.
	ours := map[process.Stat]bool{}
	if s, err := process.ReadStat(i.cmd.Process.Pid); err == nil && !i.hasEnded() {
		ours[identity(s)] = true
	}
	for {
		found, err := i.find(ours)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return nil
		}
		for _, s := range found {
			if err := kill(s); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended: %w", found[0].PID, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (i *instance) hasEnded() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// identity is s without what changes while a process lives.
func identity(s process.Stat) process.Stat { return process.Stat{PID: s.PID, Start: s.Start} }

// find lists what is ours and adds it to ours.
func (i *instance) find(ours map[process.Stat]bool) ([]process.Stat, error) {
	all, err := process.All()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	byPID := make(map[int]process.Stat, len(all))
	for _, s := range all {
		byPID[s.PID] = s
	}
	var found []process.Stat
	for _, s := range all {
		if ours[identity(s)] || descends(s, byPID, ours) || slices.Equal(readMark(s.PID), i.mark) {
			ours[identity(s)] = true
			found = append(found, s)
		}
	}
	return found, nil
}

func descends(s process.Stat, byPID map[int]process.Stat, ours map[process.Stat]bool) bool {
	for range len(byPID) {
		parent, ok := byPID[s.Parent]
		if !ok {
			return false
		}
		if ours[identity(parent)] {
			return true
		}
		s = parent
	}
	return false
}

// kill ends exactly the process that s is of.
func kill(s process.Stat) error {
	h, err := process.Open(s.PID)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	// The handle was taken after the look: it may be of another process.
	if now, err := process.ReadStat(s.PID); err != nil || now.Start != s.Start {
		return nil //nolint:nilerr // it is gone
	}
	return h.Kill()
}

// readMark reads the labels of a process from its environment, nil when it has none
// or it is another user's.
func readMark(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || !bytes.Contains(b, []byte(envHost+"=")) {
		return nil
	}
	mark := make([]string, 4)
	for v := range strings.SplitSeq(string(b), "\x00") {
		for i, name := range []string{envHost, envOwner, envEnvironment, envSession} {
			if strings.HasPrefix(v, name+"=") {
				mark[i] = v
			}
		}
	}
	return mark
}

// Leftovers lists processes of this user that carry the host's id. One ID names one
// process: its number and start time.
func (*Tier) Leftovers(_ context.Context, host string) ([]sandbox.Leftover, error) {
	all, err := process.All()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []sandbox.Leftover
	for _, s := range all {
		mark := readMark(s.PID)
		if mark == nil || mark[0] != envHost+"="+host {
			continue
		}
		value := func(i int) string { _, v, _ := strings.Cut(mark[i], "="); return v }
		found = append(found, sandbox.Leftover{
			Tier: sandbox.TierLocal, ID: fmt.Sprintf("%d.%d", s.PID, s.Start),
			Labels: sandbox.Labels{Host: value(0), Owner: value(1), Environment: value(2), Session: value(3)},
		})
	}
	return found, nil
}

// Remove ends the process, if it is still the one that was listed and carries the
// same labels.
func (*Tier) Remove(ctx context.Context, l sandbox.Leftover) error {
	first, second, ok := strings.Cut(l.ID, ".")
	pid, err1 := strconv.Atoi(first)
	start, err2 := strconv.ParseUint(second, 10, 64)
	if !ok || err1 != nil || err2 != nil || l.Labels.Host == "" {
		return fmt.Errorf("tier %s: %q names no process of a sandbox", sandbox.TierLocal, l.ID)
	}
	h, err := process.Open(pid)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	now, err := process.ReadStat(pid)
	if err != nil || now.Start != start || !slices.Equal(readMark(pid), markOf(&l.Labels)) {
		return nil //nolint:nilerr // it is gone, and the number another's
	}
	if err := h.Kill(); err != nil {
		return fmt.Errorf("tier %s: ending process %d: %w", sandbox.TierLocal, pid, err)
	}
	if err := h.Wait(ctx); err != nil {
		return fmt.Errorf("tier %s: process %d has not ended: %w", sandbox.TierLocal, pid, err)
	}
	return nil
}
