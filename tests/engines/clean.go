package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroup names the control group that everything of this set is in.
func (e *engines) cgroup() string { return "awaken-" + e.settings.ID }

const cgroups = "/sys/fs/cgroup"

// hierarchies are the folders of cgroups that have groups: with cgroup v2 the one,
// with v1 one for each controller.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{cgroups}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if _, err := os.Stat(filepath.Join(cgroups, entry.Name(), "cgroup.procs")); err == nil && entry.Type()&fs.ModeSymlink == 0 {
			all = append(all, filepath.Join(cgroups, entry.Name()))
		}
	}
	return all, nil
}

// makeCgroup makes the group: a kubelet wants it to be there.
func (e *engines) makeCgroup() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, parent := range all {
		dir := filepath.Join(parent, e.cgroup())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("a control group: %w", err)
		}
		// A new group of v1 has no processors and no memory until it is told.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(parent, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *engines) removeCgroup() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var failed error
	for _, parent := range all {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(parent, e.cgroup()), func(name string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && entry.IsDir() {
				dirs = append(dirs, name)
			}
			return err
		})
		failed = errors.Join(failed, err)
		for _, dir := range slices.Backward(dirs) {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", dir, err))
			}
		}
	}
	return failed
}

func (e *engines) makeBridge(ctx context.Context, bridge, net string) error {
	ip, err := find("ip", "iproute2")
	if err != nil {
		return err
	}
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		return nil
	}
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", fmt.Sprintf("10.%d.0.1/24", e.settings.Nets[net]), "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if _, err := output(ctx, append([]string{ip}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// down stops everything, in the order that lets engines clean up, and then whatever
// is left: also what the engines left that were killed.
func (e *engines) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if e.settings.Ports == nil {
		return os.RemoveAll(e.dir)
	}
	for _, name := range []string{"kubelet", "kube-scheduler", "kube-apiserver", "etcd", "dockerd", "containerd", "registry"} {
		if p, err := e.process(name); err == nil {
			if err := p.stop(5 * time.Second); err != nil {
				return err
			}
		}
	}
	if err := e.sweep(); err != nil {
		return err
	}
	var failed error
	failed = errors.Join(failed, e.unmount())
	ip, err := find("ip", "iproute2")
	if err != nil {
		return err
	}
	for _, bridge := range []string{"awd", "awp", "awk"} {
		bridge += e.settings.ID
		if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
			_, err := output(ctx, ip, "link", "delete", bridge)
			failed = errors.Join(failed, err)
		}
	}
	failed = errors.Join(failed, e.removeCgroup(), e.removeStrays())
	if failed != nil {
		return failed
	}
	if err := os.Remove(e.settings.Report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(e.dir)
}

// engineNames are the programs that sweep may end; a person's editor with one of the
// logs in it is none.
var engineNames = []string{
	"dockerd", "containerd", "containerd-shim", "containerd-shim-runc-v2", "containerd-shim-runc-v1", "docker-proxy", "runc", "crun",
	"conmon", "podman", "etcd", "kube-apiserver", "kube-scheduler", "kubelet",
}

// sweep kills what runs out of the folder: engines and their helpers, which name it in
// their arguments, and containers, whose root file system is in it.
func (e *engines) sweep() error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left, err := e.ours()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of %s do not end", left, e.dir)
		}
		for _, pid := range left {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
}

func (e *engines) ours() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if state, _, err := stat(pid); err != nil || state == "Z" || state == "X" {
			continue // it ended meanwhile
		}
		if e.isEngine(pid) || e.isContained(pid) {
			all = append(all, pid)
		}
	}
	return all, nil
}

func (e *engines) isEngine(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	argv := strings.Split(string(text), "\x00")
	return slices.Contains(engineNames, filepath.Base(argv[0])) &&
		slices.ContainsFunc(argv[1:], func(arg string) bool { return strings.Contains(arg, e.dir+"/") })
}

func (e *engines) isContained(pid int) bool {
	mounts, err := readMounts(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(mounts, func(m mount) bool {
		return m.point == "/" && strings.Contains(m.options, "="+e.dir+"/")
	})
}

type mount struct{ point, options string }

// readMounts reads a mountinfo of proc(5).
func readMounts(name string) ([]mount, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []mount
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(source) < 3 {
			return nil, fmt.Errorf("%s: %q", name, lines.Text())
		}
		all = append(all, mount{point: unescape.Replace(fields[4]), options: unescape.Replace(source[2])})
	}
	return all, lines.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func (e *engines) unmount() error {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var failed error
	for _, m := range slices.Backward(mounts) {
		if strings.HasPrefix(m.point, e.dir+"/") {
			if err := syscall.Unmount(m.point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
				failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", m.point, err))
			}
		}
	}
	return failed
}

// removeStrays removes what is kept outside of the folder by programs that let nobody
// choose the place: links to the logs of Pods, and what CNI remembers.
func (e *engines) removeStrays() error {
	var failed error
	links, err := filepath.Glob("/var/log/containers/*.log")
	failed = errors.Join(failed, err)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, e.dir+"/") {
			failed = errors.Join(failed, os.Remove(link))
		}
	}
	results, err := filepath.Glob("/var/lib/cni/results/" + e.cgroup() + "-*")
	failed = errors.Join(failed, err)
	for _, result := range results {
		failed = errors.Join(failed, os.Remove(result))
	}
	return failed
}
