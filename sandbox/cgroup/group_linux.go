package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// prefix begins the names of folders that hold all groups of one host.
const prefix = "awaken-sandbox-"

// Group holds the processes of one sandbox.
type Group struct {
	place *Place
	name  string            // below the folders of place
	dirs  map[string]string // by controller
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Make makes a group with limits. A controller that cannot be used is left out; Why
// tells of it. An error says that a limit that can be set was not: nothing is left.
func (p *Place) Make(l *sandbox.Labels, limits sandbox.InstanceLimits) (*Group, error) {
	for _, s := range []string{l.Host, l.Owner, l.Environment} {
		if !plain.MatchString(s) {
			return nil, fmt.Errorf("%q cannot stand in the name of a cgroup", s)
		}
	}
	g := &Group{place: p, name: filepath.Join(prefix+l.Host, l.Owner+"."+l.Environment), dirs: map[string]string{}}
	for _, c := range controllers {
		dir, ok := p.dirs[c]
		if !ok {
			continue
		}
		err := makeDirs(dir, g.name, p.v2[c])
		if err == nil {
			g.dirs[c] = filepath.Join(dir, g.name)
			err = g.limit(c, limits)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cgroup for %s: %w", c, err), g.Remove(context.Background()))
		}
	}
	return g, nil
}

func makeDirs(dir, name string, v2 bool) error {
	host := filepath.Join(dir, filepath.Dir(name))
	// The host's folder goes with its last group, perhaps now.
	for try := 0; ; try++ {
		if err := os.Mkdir(host, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if v2 {
			passOn(host)
		}
		err := os.Mkdir(filepath.Join(dir, name), 0o755)
		if !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return err
		}
	}
}

// cpuPeriod is over which processor time is counted, in microseconds.
const cpuPeriod = 100_000

func (g *Group) limit(controller string, l sandbox.InstanceLimits) error {
	memory := strconv.FormatInt(int64(l.MemoryMiB)<<20, 10)
	quota := strconv.FormatInt(max(int64(l.CPUs*cpuPeriod), 1000), 10)
	type file struct {
		name, text string
		optional   bool // a kernel without swap accounting has no such file
	}
	var files []file
	switch v2 := g.place.v2[controller]; {
	case controller == Memory && v2:
		files = []file{{"memory.max", memory, false}, {"memory.swap.max", "0", true}}
	case controller == Memory:
		files = []file{{"memory.limit_in_bytes", memory, false}, {"memory.memsw.limit_in_bytes", memory, true}}
	case controller == PIDs:
		files = []file{{"pids.max", strconv.Itoa(l.PIDs), false}}
	case v2:
		files = []file{{"cpu.max", quota + " " + strconv.Itoa(cpuPeriod), false}}
	default:
		files = []file{{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), true}, {"cpu.cfs_quota_us", quota, true}}
	}
	for _, f := range files {
		err := write(filepath.Join(g.dirs[controller], f.name), f.text)
		if err != nil && (!f.optional || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// write writes to a file that the kernel made: one that is not there is not made.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// unique are the group's folders, each once.
func (g *Group) unique() []string {
	var dirs []string
	for _, c := range controllers {
		if d, ok := g.dirs[c]; ok && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// Add puts a process and what it will start into the group.
func (g *Group) Add(pid int) error {
	for _, d := range g.unique() {
		if err := write(filepath.Join(d, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("moving process %d into its cgroup: %w", pid, err)
		}
	}
	return nil
}

// MemoryLimit reads back how many bytes the processes of the group, of which pid must
// be one, may use together. The error says why it is not known to be limited.
func (g *Group) MemoryLimit(pid int) (int64, error) {
	name := "memory.limit_in_bytes"
	if g.place.v2[Memory] {
		name = "memory.max"
	}
	return g.read(Memory, name, pid)
}

// PIDLimit reads back how many processes and threads there may be in the group, of
// which pid must be one.
func (g *Group) PIDLimit(pid int) (int64, error) { return g.read(PIDs, "pids.max", pid) }

func (g *Group) read(controller, name string, pid int) (int64, error) {
	dir, ok := g.dirs[controller]
	if !ok {
		return 0, errors.New(g.place.why[controller])
	}
	if !slices.Contains(words(filepath.Join(dir, "cgroup.procs")), strconv.Itoa(pid)) {
		return 0, fmt.Errorf("process %d is not in %s", pid, dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: no limit: %q", filepath.Join(dir, name), strings.TrimSpace(string(b)))
	}
	return n, nil
}

// OOMKills is how many processes of the group the kernel has ended since it had no
// more memory to give. The error says why that is not known.
func (g *Group) OOMKills() (uint64, error) {
	dir, ok := g.dirs[Memory]
	if !ok {
		return 0, errors.New("the group has no limit of memory")
	}
	name := "memory.oom_control"
	if g.place.v2[Memory] {
		name = "memory.events"
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			return strconv.ParseUint(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s does not say it", filepath.Join(dir, name))
}

// Remove ends what is in the group and removes it. It returns when nothing is left.
func (g *Group) Remove(ctx context.Context) error {
	for _, d := range g.unique() {
		if err := remove(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// remove ends what is in dir and removes it, and the host's folder above it if it was
// the last.
func remove(ctx context.Context, dir string) error {
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(filepath.Dir(dir)) // it has others in it
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("removing cgroup: %w", err)
		}
		end(dir)
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing cgroup: %w: %w", err, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// end sends SIGKILL to what is in dir.
func end(dir string) {
	if write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return
	}
	for _, word := range words(filepath.Join(dir, "cgroup.procs")) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		h, err := process.Open(pid)
		if err != nil {
			continue
		}
		// The number may be another's since it was read.
		if slices.Contains(words(filepath.Join(dir, "cgroup.procs")), word) {
			_ = h.Kill()
		}
		_ = h.Close()
	}
}

// Leftovers lists groups of the host, of whatever owner. Session is in no label.
func (p *Place) Leftovers(host string) []sandbox.Labels {
	var found []sandbox.Labels
	for _, c := range controllers {
		entries, err := os.ReadDir(filepath.Join(p.dirs[c], prefix+host))
		if p.dirs[c] == "" || err != nil || !plain.MatchString(host) {
			continue
		}
		for _, e := range entries {
			owner, env, ok := strings.Cut(e.Name(), ".")
			l := sandbox.Labels{Host: host, Owner: owner, Environment: env}
			if ok && e.IsDir() && plain.MatchString(env) && !slices.Contains(found, l) {
				found = append(found, l)
			}
		}
	}
	return found
}

// Remove ends what is in the group with these labels, and removes it.
func (p *Place) Remove(ctx context.Context, l *sandbox.Labels) error {
	for _, s := range []string{l.Host, l.Owner, l.Environment} {
		if !plain.MatchString(s) {
			return fmt.Errorf("%q is in no name of a cgroup", s)
		}
	}
	g := &Group{place: p, name: filepath.Join(prefix+l.Host, l.Owner+"."+l.Environment), dirs: map[string]string{}}
	for c, dir := range p.dirs {
		g.dirs[c] = filepath.Join(dir, g.name)
	}
	return g.Remove(ctx)
}
