package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errNothing = errors.New("nothing of it is seen")

// search looks for a mark in a file of every process but itself.
func search(file, mark string) (pid int, err error) {
	found, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, f := range found {
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if pid == os.Getpid() || pid == os.Getppid() {
			continue // they have the mark in their own arguments
		}
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(mark)) && !ours(data) {
			return pid, nil
		}
	}
	return 0, errNothing
}

// ours tells the command lines of what runs this program.
func ours(line []byte) bool {
	return bytes.Contains(line, []byte("escape ")) || bytes.Contains(line, []byte("escape\x00"))
}

// see looks for a process of the host by its arguments, where it has a secret.
func see(args []string) (string, error) {
	pid, err := search("cmdline", args[0])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("it is process %d", pid), nil
}

// signalOthers ends a process of the host's.
func signalOthers(args []string) (string, error) {
	tries := []func() (string, error){func() (string, error) {
		pid, err := search("cmdline", args[0])
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("killed %d", pid), unix.Kill(pid, unix.SIGKILL)
	}}
	return anyOf(tries...)
}

// environ looks for a secret in the environment of all processes, its own too.
func environ(args []string) (string, error) {
	for _, v := range os.Environ() {
		if strings.Contains(v, args[0]) {
			return "it is in its own environment", nil
		}
	}
	pid, err := search("environ", args[0])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("it is in that of process %d", pid), nil
}

// ptrace takes over the process of its argument.
func ptrace(args []string) (string, error) {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	return anyOf(func() (string, error) {
		if err := unix.PtraceSeize(pid); err != nil {
			return "", fmt.Errorf("ptrace: %w", err)
		}
		return "traces it", nil
	}, func() (string, error) {
		buf := make([]byte, 16)
		at, err := mapped(pid)
		if err != nil {
			return "", err
		}
		n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}, []unix.RemoteIovec{{Base: at, Len: len(buf)}}, 0)
		if err != nil {
			return "", fmt.Errorf("process_vm_readv: %w", err)
		}
		return fmt.Sprintf("read %d bytes of its memory", n), nil
	})
}

func mapped(pid int) (uintptr, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	start, _, _ := strings.Cut(string(maps), "-")
	at, err := strconv.ParseUint(start, 16, 64)
	return uintptr(at), err
}

// memoryOf reads memory, environment and files of the process of its argument.
func memoryOf(args []string) (string, error) {
	dir := "/proc/" + args[0]
	return anyOf(func() (string, error) {
		f, err := os.Open(dir + "/mem")
		if err != nil {
			return "", err
		}
		return "opened its memory", f.Close()
	}, func() (string, error) {
		data, err := os.ReadFile(dir + "/environ")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("read %d bytes of its environment", len(data)), nil
	}, func() (string, error) {
		return os.Readlink(dir + "/fd/0")
	}, func() (string, error) {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return "", err
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return "", fmt.Errorf("pidfd_open: %w", err)
		}
		defer func() { _ = unix.Close(fd) }()
		if _, err := unix.PidfdGetfd(fd, 1, 0); err != nil {
			return "", fmt.Errorf("pidfd_getfd: %w", err)
		}
		return "took its standard output", nil
	})
}

// channel writes to the standard output of the processes of its arguments, which is
// what the host reads.
func channel(args []string) (string, error) {
	var tries []func() (string, error)
	for _, pid := range args {
		for _, fd := range []string{"0", "1", "2", "3"} {
			tries = append(tries, func() (string, error) {
				f, err := os.OpenFile("/proc/"+pid+"/fd/"+fd, os.O_WRONLY, 0)
				if err != nil {
					return "", err
				}
				if fd == "1" {
					return "may write to the channel", f.Close()
				}
				return "opened descriptor " + fd + " of process " + pid, f.Close()
			})
		}
	}
	return anyOf(tries...)
}

// setuid becomes root.
func setuid([]string) (string, error) {
	if whole, err := os.ReadFile("/proc/self/uid_map"); os.Getuid() == 0 && err == nil && strings.Join(strings.Fields(string(whole)), " ") == "0 0 4294967295" {
		return "it is root of the machine", nil
	}
	return anyOf(func() (string, error) {
		if err := unix.Setresuid(0, 0, 0); err != nil {
			return "", fmt.Errorf("setresuid: %w", err)
		}
		return contents("/etc/shadow")
	}, func() (string, error) {
		if err := unix.Setgroups([]int{0}); err != nil {
			return "", fmt.Errorf("setgroups: %w", err)
		}
		return "setgroups", nil
	}, func() (string, error) {
		if err := os.WriteFile("/proc/self/uid_map", []byte("0 0 1"), 0); err != nil {
			return "", err
		}
		return "wrote its uid_map", nil
	})
}

// setuidFile runs a program whose file says that it runs as root.
func setuidFile([]string) (string, error) {
	run := func(name string, args ...string) func() (string, error) {
		return func() (string, error) {
			out, err := exec.Command(name, args...).Output() //nolint:noctx // it has no caller to obey
			if err != nil {
				return "", err
			}
			fields := strings.Fields(string(out))
			if len(fields) == 2 && fields[0] != fields[1] || os.Getuid() == 0 && rootOutside() {
				return name + " ran as " + string(out), nil
			}
			return "", fmt.Errorf("%s runs as %s", name, strings.TrimSpace(string(out)))
		}
	}
	return anyOf(run("/suid/ids"), run("su", "-c", "id -ru; id -u"))
}

func rootOutside() bool {
	m, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295"
}

// unshare makes namespaces, in which a user is root of something.
func unshare([]string) (string, error) {
	var tries []func() (string, error)
	for name, flags := range map[string]int{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "network": unix.CLONE_NEWNET, "user and mount": unix.CLONE_NEWUSER | unix.CLONE_NEWNS} {
		tries = append(tries, func() (string, error) {
			if err := unix.Unshare(flags); err != nil {
				return "", fmt.Errorf("unshare %s: %w", name, err)
			}
			return "a " + name + " namespace of its own", nil
		})
	}
	return anyOf(tries...)
}

// capabilities looks for privileges, and takes one.
func capabilities([]string) (string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	var held []string
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if (name == "CapEff" || name == "CapPrm" || name == "CapAmb") && strings.Trim(value, "0") != "" {
			held = append(held, line)
		}
	}
	if len(held) > 0 {
		return strings.Join(held, ""), nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return "", fmt.Errorf("none is held, and capset: %w", err)
	}
	return "took CAP_SYS_ADMIN", nil
}

// daemon leaves a process behind that no end of its parents ends: a session of its
// own, no descriptors, every signal ignored that can be. Its mark is in its arguments.
func daemon(args []string) (string, error) {
	if len(args) > 1 { // it is the one that stays
		for {
			_ = unix.Nanosleep(&unix.Timespec{Sec: 3600}, nil)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for range 3 {
		cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT TERM QUIT USR1 USR2; ( "$0" daemon "$1" stays </dev/null >/dev/null 2>&1 & )`, self, args[0]) //nolint:noctx // it has no caller to obey
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	return "three processes stay", nil
}

// hares leaves processes behind of which each is gone when it is found: what it is
// goes on in a child, in a session of its own. They end by themselves in the end, so
// that a machine that does not catch them can still be used.
func hares([]string) (string, error) {
	var now, end unix.Timespec
	clock := func(t *unix.Timespec) {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(t)), 0)
	}
	clock(&end)
	end.Sec += 40
	for range 4 {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return "", errno
		}
		if pid != 0 {
			continue
		}
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			clock(&now)
			if errno == 0 && pid != 0 || now.Sec > end.Sec {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	}
	return "four run", nil
}

// clone makes a child that does nothing but wait to be killed, without the help of the
// runtime: thousands of them are cheap.
func clone() (int, error) {
	timeout := unix.Timespec{Sec: 3600}
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if pid == 0 {
		_, _, _ = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
		for {
			_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
		}
	}
	return int(pid), nil
}
