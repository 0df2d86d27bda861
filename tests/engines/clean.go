package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil { //nolint:gosec // a control group of ours
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
	results, err := filepath.Glob("/var/lib/cni/results/*")
	failed = errors.Join(failed, err)
	for _, result := range results {
		if text, err := os.ReadFile(result); err == nil && bytes.Contains(text, []byte(e.dir+"/")) {
			failed = errors.Join(failed, os.Remove(result))
		}
	}
	return failed
}
