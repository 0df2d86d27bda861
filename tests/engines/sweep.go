package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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

// detach is MNT_DETACH of umount2(2), which other systems do not have.
const detach = 2

func (e *engines) unmount() error {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var failed error
	for _, m := range slices.Backward(mounts) {
		if strings.HasPrefix(m.point, e.dir+"/") {
			if err := syscall.Unmount(m.point, detach); err != nil && !errors.Is(err, syscall.EINVAL) {
				failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", m.point, err))
			}
		}
	}
	return failed
}
