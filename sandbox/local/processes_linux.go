package local

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// setUp marks cmd with its labels and gives it a session of its own.
func setUp(cmd *exec.Cmd, labels *sandbox.Labels) (mark string) {
	mark = process.Mark(sandbox.TierLocal, labels)
	cmd.Args[0] = mark + "/awaken-hand"
	cmd.Env = append(cmd.Env, process.MarkVariable+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return mark
}

// killAll ends the Hand, what descends from it, and what carries its mark: a process
// whose parent ended descends from the Hand no more, and may have its environment.
func (i *instance) killAll(ctx context.Context) error {
	// What was seen to descend from the Hand is remembered, so that its children are
	// found after it ended.
	ours := map[identity]bool{}
	select {
	case <-i.Done(): // the number may be another's
	default:
		if s, err := process.ReadStat(i.PID()); err == nil {
			ours[identityOf(s)] = true
		}
	}
	return process.EndAll(ctx, func(all []process.Stat) []process.Stat {
		byPID := make(map[int]process.Stat, len(all))
		for _, s := range all {
			byPID[s.PID] = s
			if process.HasMark(s.PID, i.mark) {
				ours[identityOf(s)] = true
			}
		}
		return slices.DeleteFunc(all, func(s process.Stat) bool {
			is := ours[identityOf(s)] || descends(s, byPID, ours)
			if is {
				ours[identityOf(s)] = true
			}
			return !is
		})
	})
}

// identity is what of a process does not change while it lives, and is no other's.
type identity struct {
	pid   int
	start uint64
}

func identityOf(s process.Stat) identity { return identity{s.PID, s.Start} }

func descends(s process.Stat, byPID map[int]process.Stat, ours map[identity]bool) bool {
	for range len(byPID) {
		parent, ok := byPID[s.Parent]
		if !ok {
			return false
		}
		if ours[identityOf(parent)] {
			return true
		}
		s = parent
	}
	return false
}

// Leftovers lists Environments whose processes carry the host's label. The ID is the
// number of the oldest.
func (*Tier) Leftovers(_ context.Context, host string) ([]sandbox.Leftover, error) {
	marked, err := process.Marked(sandbox.TierLocal, host)
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", sandbox.TierLocal, err)
	}
	var found []sandbox.Leftover
	for l, s := range marked {
		found = append(found, sandbox.Leftover{Tier: sandbox.TierLocal, ID: strconv.Itoa(s.PID), Labels: l})
	}
	slices.SortFunc(found, func(a, b sandbox.Leftover) int { return cmp.Compare(a.Labels.Environment, b.Labels.Environment) })
	return found, nil
}

// Remove ends the processes that carry exactly these labels, whatever their numbers
// are by now.
func (*Tier) Remove(ctx context.Context, l sandbox.Leftover) error {
	if err := process.EndMarked(ctx, process.Mark(sandbox.TierLocal, &l.Labels)); err != nil {
		return fmt.Errorf("tier %s, environment %s: %w", sandbox.TierLocal, l.Labels.Environment, err)
	}
	return nil
}
