package namespace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMain lets this program stand in for the Hand.
func TestMain(m *testing.M) {
	if f, ok := insidePrograms[os.Getenv("NAMESPACE_TEST_INSIDE")]; ok {
		f()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var insidePrograms = map[string]func(){
	"syscalls": tryCalls,
	"hog":      hog,
}

// call is a system call and how it must end inside.
type call struct {
	name string
	want unix.Errno
	try  func() error
}

func raw(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
			return e
		}
		return nil
	}
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

func calls() []call {
	file := "/tmp/file"
	create := func(mode uint32) func() error {
		return func() error {
			_ = os.Remove(file)
			fd, err := unix.Openat(unix.AT_FDCWD, file, unix.O_CREAT|unix.O_WRONLY, mode)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}
	}
	var char byte = 'x'
	return []call{
		{"openat", 0, create(0o644)},
		{"openat, set-uid", unix.EPERM, create(0o4755)},
		{"openat, no file made", unix.ENOENT, func() error {
			_ = os.Remove(file)
			_, err := unix.Openat(unix.AT_FDCWD, file, unix.O_RDONLY, 0o4755)
			return err
		}},
		{"openat again", 0, create(0o600)},
		{"fchmodat", 0, func() error { return unix.Fchmodat(unix.AT_FDCWD, file, 0o755, 0) }},
		{"fchmodat, set-uid", unix.EPERM, func() error { return unix.Fchmodat(unix.AT_FDCWD, file, 0o4755, 0) }},
		{"fchmodat, set-gid", unix.EPERM, func() error { return unix.Fchmodat(unix.AT_FDCWD, file, 0o2755, 0) }},
		{"mknodat, set-uid", unix.EPERM, func() error { return unix.Mknodat(unix.AT_FDCWD, file+"2", unix.S_IFREG|0o4755, 0) }},
		{"mknodat, a pipe", 0, func() error { return unix.Mknodat(unix.AT_FDCWD, file+"3", unix.S_IFIFO|0o600, 0) }},
		{"mknodat, a device", unix.EPERM, func() error { return unix.Mknodat(unix.AT_FDCWD, file+"4", unix.S_IFBLK|0o600, 0x0801) }},
		{"mount", unix.EPERM, func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{"umount2", unix.EPERM, func() error { return unix.Unmount("/tmp", unix.MNT_DETACH) }},
		{"pivot_root", unix.EPERM, func() error { return unix.PivotRoot("/tmp", "/tmp") }},
		{"open_tree", unix.EPERM, raw(unix.SYS_OPEN_TREE, ^uintptr(99))},
		{"fsopen", unix.EPERM, raw(unix.SYS_FSOPEN)},
		{"chroot", unix.EPERM, func() error { return unix.Chroot("/tmp") }},
		{"unshare", unix.EPERM, func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"setns", unix.EPERM, func() error { return unix.Setns(0, 0) }},
		{"clone, user namespace", unix.EPERM, raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
		{"clone3", unix.ENOSYS, raw(unix.SYS_CLONE3)},
		{"ptrace", unix.EPERM, func() error { return unix.PtraceAttach(1) }},
		{"process_vm_readv", unix.EPERM, raw(unix.SYS_PROCESS_VM_READV, 1)},
		{"pidfd_getfd", unix.EPERM, raw(unix.SYS_PIDFD_GETFD)},
		{"kcmp", unix.EPERM, raw(unix.SYS_KCMP)},
		{"bpf", unix.EPERM, raw(unix.SYS_BPF)},
		{"perf_event_open", unix.EPERM, raw(unix.SYS_PERF_EVENT_OPEN)},
		{"userfaultfd", unix.EPERM, raw(unix.SYS_USERFAULTFD)},
		{"keyctl", unix.EPERM, raw(unix.SYS_KEYCTL)},
		{"add_key", unix.EPERM, raw(unix.SYS_ADD_KEY)},
		{"open_by_handle_at", unix.EPERM, raw(unix.SYS_OPEN_BY_HANDLE_AT)},
		{"init_module", unix.EPERM, raw(unix.SYS_INIT_MODULE)},
		{"kexec_load", unix.EPERM, raw(unix.SYS_KEXEC_LOAD)},
		{"reboot", unix.EPERM, raw(unix.SYS_REBOOT)},
		{"swapon", unix.EPERM, raw(unix.SYS_SWAPON)},
		{"settimeofday", unix.EPERM, raw(unix.SYS_SETTIMEOFDAY)},
		{"acct", unix.EPERM, raw(unix.SYS_ACCT)},
		{"quotactl", unix.EPERM, raw(unix.SYS_QUOTACTL)},
		{"io_uring_setup", unix.ENOSYS, raw(unix.SYS_IO_URING_SETUP)},
		{"a call of tomorrow", unix.ENOSYS, raw(2000)},
		{"personality, as it is", 0, raw(unix.SYS_PERSONALITY, 0xffffffff)},
		{"personality, fixed addresses", unix.EPERM, raw(unix.SYS_PERSONALITY, 0x40000)},
		{"socket, unix", 0, socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
		{"socket, inet", 0, socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
		{"socket, inet6", 0, socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)},
		{"socket, routes", 0, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		{"socket, device events", unix.EAFNOSUPPORT, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)},
		{"socket, packets", unix.EAFNOSUPPORT, socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"socket, virtual machines", unix.EAFNOSUPPORT, socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"socket, the kernel's ciphers", unix.EAFNOSUPPORT, socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"ioctl, TIOCSTI", unix.EPERM, raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&char)))},                       //nolint:gosec // the kernel is given an address
		{"ioctl, TIOCSTI with upper half", unix.EPERM, raw(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, uintptr(unsafe.Pointer(&char)))}, //nolint:gosec // the kernel is given an address
		{"code in memory", 0, func() error {
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err == nil {
				err = unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC)
			}
			return err
		}},
		{"getpid", 0, raw(unix.SYS_GETPID)},
	}
}

func tryCalls() {
	for _, c := range calls() {
		var got unix.Errno
		if err := c.try(); err != nil && !errors.As(err, &got) {
			fmt.Printf("%s: %v\n", c.name, err)
		}
		if got != c.want {
			fmt.Printf("%s: %q, want %q\n", c.name, got, c.want)
		}
	}
	if runtime.GOARCH == "amd64" {
		if err := raw(0x40000000 | unix.SYS_GETPID)(); !errors.Is(err, unix.ENOSYS) {
			fmt.Printf("x32: %v\n", err)
		}
	}
	fmt.Println("end")
}

// The filter is the kernel's to judge: this program tries the calls inside.
func TestSyscalls(t *testing.T) {
	needBwrap(t)
	tier := New(Options{})
	spec := program(t, tier, "syscalls")
	i := start(t, tier, spec)
	lines := bufio.NewScanner(i.Channel())
	for lines.Scan() {
		if lines.Text() == "end" {
			return
		}
		t.Error(lines.Text())
	}
	<-i.Done()
	t.Errorf("it did not get to the end: %v", i.Ended(t.Context()))
}

// run is what the filter does with a call: an interpreter of the few instructions
// there are.
func (f filter) run(t *testing.T, arch uint32, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(f); pc++ {
		i := f[pc]
		var yes bool
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch i.K {
			case dataNr:
				a = nr
			case dataArch:
				a = arch
			default:
				a = 0
				if n := int(i.K-dataArgs) / 8; n < len(args) {
					a = uint32(args[n])
				}
			}
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = a == i.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			yes = a >= i.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes = a > i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = a&i.K != 0
		default:
			t.Fatalf("instruction %d: %+v", pc, i)
		}
		if yes {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// Whatever the number, only what is listed is allowed, and no other architecture is.
func TestFilterIsAnAllowList(t *testing.T) {
	f := newFilter()
	if len(f) > 4096 {
		t.Fatalf("%d instructions, the kernel takes 4096", len(f))
	}
	listed := map[uint32]bool{}
	for _, nr := range append(append([]uint32{}, allowed...), allowedOlder...) {
		listed[nr] = true
	}
	// These are looked at, and allowed with arguments of zero.
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_IOCTL, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_MKNODAT, unix.SYS_OPENAT, unix.SYS_PERSONALITY} {
		listed[nr] = true
	}
	var extra []string
	for nr := range uint32(1000) {
		got := f.run(t, auditArch, nr)
		if got == unix.SECCOMP_RET_ALLOW != listed[nr] {
			extra = append(extra, fmt.Sprint(nr))
		}
		if other := f.run(t, auditArch+1, nr); other != unix.SECCOMP_RET_KILL_PROCESS {
			t.Fatalf("call %d of another architecture: %#x", nr, other)
		}
		if nr > lastKnown && got != errno(unix.ENOSYS) {
			t.Errorf("call %d, of tomorrow: %#x", nr, got)
		}
	}
	want := ""
	if runtime.GOARCH == "amd64" {
		want = "2 85 90 133" // open, creat, chmod, mknod
	}
	if got := strings.Join(extra, " "); got != want {
		t.Errorf("calls %q are allowed and not listed, or listed and not allowed; want %q", got, want)
	}
}

// hog uses more memory than it may.
func hog() {
	for n := range 512 {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
		if err != nil {
			fmt.Println(n, len(b), err)
			return
		}
	}
}
