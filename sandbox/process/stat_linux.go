package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat is what names one process for good: a number is given to another once its
// process is gone, a number and a start time are not.
type Stat struct {
	PID    int
	Parent int
	Start  uint64 // in ticks since the machine started
	Zombie bool
}

// ReadStat reads it. The error is os.ErrNotExist when there is no such process.
func ReadStat(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrNotExist
	}
	if err != nil {
		return Stat{}, err
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat, in which a name may hold spaces and parentheses.
func parseStat(pid int, b []byte) (Stat, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return Stat{}, fmt.Errorf("/proc/%d/stat: %q has no name", pid, b)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("/proc/%d/stat: %d fields after the name, want 20 at least", pid, len(f))
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return Stat{}, fmt.Errorf("/proc/%d/stat: parent: %w", pid, err)
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("/proc/%d/stat: start time: %w", pid, err)
	}
	return Stat{PID: pid, Parent: parent, Start: start, Zombie: f[0] == "Z" || f[0] == "X"}, nil
}

// All lists the processes that can be seen, except zombies.
func All() ([]Stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []Stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := ReadStat(pid); err == nil && !s.Zombie {
			all = append(all, s)
		}
	}
	return all, nil
}
