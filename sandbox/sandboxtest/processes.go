package sandboxtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Processes inside of every tier of the tests are processes of this machine, where a
// test that is root sees them all. What has no /proc sees none.

// running are the processes with the mark in an argument, but for this one.
func running(t testing.TB, mark string) []int {
	t.Helper()
	return processes(t, "cmdline", mark)
}

// runningWith are the processes with the nonce of a boundary in their environment.
func runningWith(t testing.TB, nonce string) []int {
	t.Helper()
	return processes(t, "environ", nonceVariable+"="+nonce)
}

func processes(t testing.TB, file, mark string) (found []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skipf("no /proc to look for processes in: %v", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process may have ended, or belong to another user.
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
		if err == nil && bytes.Contains(data, []byte(mark)) && !zombie(pid) {
			found = append(found, pid)
		}
	}
	return found
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true // gone
	}
	_, after, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	return len(after) > 0 && after[0] == 'Z'
}

// handProcess is the Hand of a boundary on this machine: of all that inherited its
// environment the one whose program is the Hand.
func (b *boundary) handProcess() int {
	b.t.Helper()
	for _, pid := range runningWith(b.t, b.nonce) {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err != nil {
			continue
		}
		args := bytes.Split(line, []byte{0})
		if name := filepath.Base(string(args[0])); (name == "hand" || name == "awaken-hand") && len(args) > 1 && string(args[1]) == "serve" {
			return pid
		}
	}
	b.t.Fatal("the Hand's process is not found on this machine")
	return 0
}
