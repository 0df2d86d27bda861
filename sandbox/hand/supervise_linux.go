package hand

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Harden makes this process one whose memory, environment and files no process of the
// same user can look into, that can gain no privileges, and that inherits what those
// leave behind that it started. Programs that it starts get none of what was open.
func Harden() error {
	if err := sandbox.KeepDescriptors(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("the Hand cannot be kept from being looked into: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("the Hand cannot keep hold of the processes that it starts: %w", err)
	}
	// A program built with cgo cannot, and has it set by each supervisor for itself.
	_, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno != 0 && !errors.Is(errno, syscall.ENOTSUP) {
		return fmt.Errorf("the Hand cannot give up gaining privileges: %w", errno)
	}
	return nil
}

// Supervise is the whole life of a supervisor: it runs one command, and when that has
// ended, or the Hand wants it to or is gone, kills whatever descends from it, also
// what left its process group or session. It ends when nothing of it runs. It returns
// the exit status for the process.
func Supervise() int {
	for _, fd := range []int{orderFile, reportFile, folderFile} {
		syscall.CloseOnExec(fd)
	}
	out := os.NewFile(reportFile, "report")
	r := supervise(os.NewFile(orderFile, "order"))
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return 1
	}
	return 0
}

func supervise(in io.Reader) report {
	failed := func(err error) report { return report{Error: err.Error()} }
	orders := json.NewDecoder(in)
	var o order
	if err := orders.Decode(&o); err != nil {
		return failed(fmt.Errorf("the order cannot be read: %w", err))
	}
	if err := Harden(); err != nil {
		return failed(err)
	}
	if err := syscall.Fchdir(folderFile); err != nil {
		return failed(fmt.Errorf("its folder cannot be entered: %w", err))
	}
	leader, err := startCommand(&o)
	if err != nil {
		return failed(err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	none := make(chan struct{})
	go reapAll(leader, ended, none)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		// Whatever else comes, its end is what is waited for.
		_, _ = io.Copy(io.Discard, io.MultiReader(orders.Buffered(), in))
	}()
	select {
	case status := <-ended:
		killUntil(none)
		return reportOf(status)
	case <-stop:
	}
	killUntil(none)
	return reportOf(<-ended) // it was a child, and there is none any more
}

func reportOf(s syscall.WaitStatus) report {
	if s.Signaled() {
		return report{ExitCode: 128 + int(s.Signal()), Signal: unix.SignalName(s.Signal())}
	}
	return report{ExitCode: s.ExitStatus()}
}

// reapAll waits for every child that there is or that is left to this process. That
// there is none means that nothing descends from it.
func reapAll(leader int, ended chan<- syscall.WaitStatus, none chan<- struct{}) {
	defer close(none)
	for {
		var s syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &s, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == leader:
			ended <- s
		}
	}
}

// killUntil kills descendants until none is closed. All that are found are stopped
// before one is killed, so that those who fork do not outrun it.
func killUntil(none <-chan struct{}) {
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		pids := descendants(os.Getpid())
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-none:
			return
		case <-time.After(wait):
		}
	}
}

// descendants lists the processes below one, zombies left out.
func descendants(of int) []int {
	children := map[int][]int{}
	dead := map[int]bool{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p.pid)
		dead[p.pid] = p.zombie
	}
	var list []int
	for next := children[of]; len(next) > 0; {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		if !dead[pid] {
			list = append(list, pid)
		}
	}
	return list
}

type process struct {
	pid, parent int
	zombie      bool
}

func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	var list []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		s := parseStat(b)
		if s.parent >= 0 {
			list = append(list, process{pid: pid, parent: s.parent, zombie: s.state == "Z" || s.state == "X"})
		}
	}
	return list
}

// startCommand starts the command from a thread that has given up what the command
// may not have. The thread is not used again.
func startCommand(o *order) (pid int, err error) {
	for resource, n := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: o.OpenFiles, unix.RLIMIT_FSIZE: o.FileBytes} {
		if n == 0 && resource != unix.RLIMIT_CORE {
			continue
		}
		var have syscall.Rlimit
		if err := syscall.Getrlimit(resource, &have); err != nil {
			return 0, fmt.Errorf("its limits cannot be read: %w", err)
		}
		n = min(n, have.Max)
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return 0, fmt.Errorf("its limits cannot be set: %w", err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			err = fmt.Errorf("it cannot be kept from gaining privileges: %w", err)
			return
		}
		dropCapabilities()
		if len(o.Read)+len(o.Write) > 0 {
			if err = confine(o.Read, o.Write); err != nil {
				return
			}
		}
		pid, err = syscall.ForkExec(o.Program, o.Argv, &syscall.ProcAttr{ //nolint:gosec // running it is what this is for
			Env: o.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			err = fmt.Errorf("it cannot be executed: %w", err)
		}
	}()
	<-done
	return pid, err
}

// dropCapabilities takes from root, whose commands would get all of them, those that
// are about more than its files: looking into other processes for one. Who has none
// may not drop any, and need not.
func dropCapabilities() {
	kept := []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}
	for c := range uintptr(64) {
		if !slices.Contains(kept, c) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
}
