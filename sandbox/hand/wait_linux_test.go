package hand

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Process 1 of a boundary has that one's log as its standard output: a command of the
// same user could fill a disk with it.
func TestWaitLetsNobodyIn(t *testing.T) {
	program, err := handProgram()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "wait")
	cmd.Stderr = &said
	if unix.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: 65534}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	at := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "fd")
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		// The kernel gives to root what is of a process that nobody may look into.
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err != nil {
			t.Fatal(err)
		}
		if st.Uid == 0 && st.Gid == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("user %d, group %d may look into %s", st.Uid, st.Gid, at)
		}
	}
	// It may not hear of signals yet.
	for until := time.After(30 * time.Second); ; {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return
		case <-time.After(20 * time.Millisecond):
		case <-until:
			t.Fatalf("it does not end: %s", said.String())
		}
	}
}
