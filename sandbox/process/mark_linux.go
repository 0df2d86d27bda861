package process

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// MarkVariable is in the environment of what is marked, so that it is passed on.
const MarkVariable = "AWAKEN_SANDBOX_MARK"

// Mark names a process as one of a sandbox: as its name for itself, argv[0], which
// everybody can read and nothing inherits, and as the value of MarkVariable.
func Mark(tier string, l *sandbox.Labels) string {
	parts := []string{"awaken-sandbox", tier, l.Host, l.Owner, l.Environment, l.Session}
	for i, p := range parts {
		parts[i] = url.QueryEscape(p)
	}
	return strings.Join(parts, ":")
}

// parseMark undoes Mark.
func parseMark(mark string) (tier string, l sandbox.Labels, ok bool) {
	parts := strings.Split(mark, ":")
	if len(parts) != 6 || parts[0] != "awaken-sandbox" {
		return "", l, false
	}
	for i, p := range parts {
		var err error
		if parts[i], err = url.QueryUnescape(p); err != nil {
			return "", l, false
		}
	}
	l = sandbox.Labels{Host: parts[2], Owner: parts[3], Environment: parts[4], Session: parts[5]}
	return parts[1], l, Mark(parts[1], &l) == mark
}

// readMarks reads what a process is marked with: its own, and what it inherited.
func readMarks(pid int) []string {
	var marks []string
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		name, _, _ := strings.Cut(string(b), "\x00")
		mark, _, _ := strings.Cut(name, "/") // what follows tells people what it is
		marks = append(marks, mark)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil {
		for v := range strings.SplitSeq(string(b), "\x00") {
			if mark, ok := strings.CutPrefix(v, MarkVariable+"="); ok {
				marks = append(marks, mark)
			}
		}
	}
	return marks
}

// HasMark says whether a process has exactly this mark, and is of the host's own user
// or of one of users. Everybody can read a mark and take it: a process of somebody else
// that does so is none of ours.
func HasMark(pid int, mark string, users ...int) bool {
	return slices.Contains(readMarks(pid), mark) && isOf(pid, users)
}

// isOf reports whether a process was started by the host's own user or one of users. Of
// what cannot be read nobody knows.
func isOf(pid int, users []int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	user, ok := statusUser(string(b))
	return ok && (user == os.Getuid() || slices.Contains(users, user))
}

// statusUser reads the real user of /proc/PID/status: a bwrap with the set-user-id bit
// has another effective one.
func statusUser(status string) (int, bool) {
	for line := range strings.Lines(status) {
		ids, is := strings.CutPrefix(line, "Uid:")
		if !is {
			continue
		}
		f := strings.Fields(ids)
		if len(f) != 4 {
			return 0, false
		}
		id, err := strconv.Atoi(f[0])
		return id, err == nil && id >= 0
	}
	return 0, false
}

// Marked lists the sandboxes of a tier and host that have processes, each once, with
// the oldest process of each. Users are those that count besides the host's own; see
// HasMark.
func Marked(tier, host string, users ...int) (map[sandbox.Labels]Stat, error) {
	all, err := All()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	found := map[sandbox.Labels]Stat{}
	for _, s := range all {
		for _, mark := range readMarks(s.PID) {
			of, l, ok := parseMark(mark)
			if !ok || of != tier || l.Host != host || !isOf(s.PID, users) {
				continue
			}
			if first, have := found[l]; !have || s.Start < first.Start {
				found[l] = s
			}
		}
	}
	return found, nil
}

// EndMarked ends every process that has exactly this mark, and returns when none is
// left. Users are as for HasMark.
func EndMarked(ctx context.Context, mark string, users ...int) error {
	return EndAll(ctx, func(all []Stat) []Stat {
		return slices.DeleteFunc(all, func(s Stat) bool { return !HasMark(s.PID, mark, users...) })
	})
}

// EndAll ends the processes that find picks, again and again until it picks none:
// processes start others meanwhile.
func EndAll(ctx context.Context, find func(all []Stat) []Stat) error {
	for {
		all, err := All()
		if err != nil {
			return fmt.Errorf("listing processes: %w", err)
		}
		found := find(all)
		if len(found) == 0 {
			return nil
		}
		for _, s := range found {
			if err := s.Kill(); err != nil {
				return fmt.Errorf("ending process %d: %w", s.PID, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended: %w", found[0].PID, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Kill sends SIGKILL to exactly the process that s is of. It is no error when that has
// ended.
func (s Stat) Kill() error {
	h, err := Open(s.PID)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	// The handle was taken after the look, so it may be of another process.
	if now, err := ReadStat(s.PID); err != nil || now.Start != s.Start {
		return nil
	}
	return h.Kill()
}
