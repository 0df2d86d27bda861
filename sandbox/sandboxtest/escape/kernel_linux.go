package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a system call and calls it an escape when it works.
func call(name string, number uintptr, args ...uintptr) (string, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return "", fmt.Errorf("%s: %w", name, errno)
	}
	return fmt.Sprintf("%s answers %d", name, r), nil
}

// keyring reads the kernel's keys, which know no namespaces.
func keyring([]string) (string, error) {
	return anyOf(func() (string, error) {
		if _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); err != nil {
			return "", fmt.Errorf("keyctl: %w", err)
		}
		return "has a session keyring", nil
	}, func() (string, error) {
		if _, err := unix.AddKey("user", "awaken-escape", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING); err != nil {
			return "", fmt.Errorf("add_key: %w", err)
		}
		return "added a key", nil
	})
}

// bpf loads a program or makes a map in the kernel.
func bpf([]string) (string, error) {
	// union bpf_attr of BPF_MAP_CREATE: an array of one entry.
	attr := [32]uint32{2 /* BPF_MAP_TYPE_ARRAY */, 4, 4, 1}
	return call("bpf", unix.SYS_BPF, 0 /* BPF_MAP_CREATE */, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

// perf watches what the kernel does.
func perf([]string) (string, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, 0)
	if err != nil {
		return "", fmt.Errorf("perf_event_open of the processor: %w", err)
	}
	return "watches a processor", unix.Close(fd)
}

// uring makes a queue of system calls that no filter sees.
func uring([]string) (string, error) {
	var params [30]uint32
	return call("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))
}

// userfault stops the kernel in the middle of what it does.
func userfault([]string) (string, error) {
	return call("userfaultfd", unix.SYS_USERFAULTFD, 0)
}

// module loads code into the kernel. What it hands over is none.
func module([]string) (string, error) {
	null, err := os.Open("/dev/null")
	if err != nil {
		return "", err
	}
	defer func() { _ = null.Close() }()
	empty := []byte{0}
	reached := func(name string, number uintptr, args ...uintptr) func() (string, error) {
		return func() (string, error) {
			got, err := call(name, number, args...)
			if err != nil && !denied(err) {
				return fmt.Sprintf("the kernel reads what it is given: %v", err), nil
			}
			return got, err
		}
	}
	return anyOf(
		reached("init_module", unix.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&empty[0])), 1, uintptr(unsafe.Pointer(&empty[0]))),
		reached("finit_module", unix.SYS_FINIT_MODULE, null.Fd(), uintptr(unsafe.Pointer(&empty[0])), 0),
	)
}

func denied(err error) bool {
	for _, e := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS} {
		if asErrno(err) == e {
			return true
		}
	}
	return false
}

// terminal types into the terminal that the host was started from.
func terminal([]string) (string, error) {
	var tries []func() (string, error)
	for _, name := range []string{"/dev/tty", "/dev/stdin", "/dev/console", "/dev/tty0"} {
		tries = append(tries, func() (string, error) {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				return "", err
			}
			defer func() { _ = f.Close() }()
			c := byte('\n')
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
			if errno != 0 {
				return "", fmt.Errorf("TIOCSTI on %s: %w", name, errno)
			}
			return "typed into " + name, nil
		})
	}
	return anyOf(tries...)
}
