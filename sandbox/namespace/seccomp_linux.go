package namespace

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// filter is a seccomp program. It is an allow list: what is not named is refused, and
// what came to the kernel after the list was written seems not to be there, so that
// libraries fall back to what they did before.
//
// Some calls are refused by their arguments:
//   - new namespaces, by clone; clone3 hides its flags behind a pointer and seems not
//     to be there, like openat2, fchmodat2 and io_uring, which would go around what is
//     below
//   - sockets other than Unix, IPv4, IPv6 and routing tables
//   - pushing characters into a terminal
//   - files that are set-uid or set-gid: on this machine they would give others the
//     rights of their owner
//   - personalities that turn protections off
type filter []unix.SockFilter

// The places of a call's number, architecture and arguments in what a filter reads.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

func (f *filter) load(offset uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

// loadArg loads the lower half of an argument, which is all that these calls look at.
func (f *filter) loadArg(n uint32) { f.load(dataArgs + 8*n) }

func (f *filter) jump(op uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k})
}

func (f *filter) ret(action uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) } //nolint:gosec // numbers of errors are small

// when adds what is done for one call. body ends with a return on every path.
func (f *filter) when(nr uint32, body filter) {
	f.jump(unix.BPF_JEQ, nr, 0, uint8(len(body))) //nolint:gosec // bodies have a handful of instructions
	*f = append(*f, body...)
}

// noneOf refuses a call whose argument has one of the bits.
func noneOf(arg, bits uint32) filter {
	var b filter
	b.loadArg(arg)
	b.jump(unix.BPF_JSET, bits, 0, 1)
	b.ret(errno(unix.EPERM))
	b.ret(unix.SECCOMP_RET_ALLOW)
	return b
}

// notBoth refuses a call that has one of the bits in one argument and one of others
// in another.
func notBoth(arg, bits, otherArg, otherBits uint32) filter {
	var b filter
	b.loadArg(arg)
	b.jump(unix.BPF_JSET, bits, 0, 3)
	b.loadArg(otherArg)
	b.jump(unix.BPF_JSET, otherBits, 0, 1)
	b.ret(errno(unix.EPERM))
	b.ret(unix.SECCOMP_RET_ALLOW)
	return b
}

// oneOf allows a call whose argument is one of the values, all others end with e.
func oneOf(arg uint32, e unix.Errno, values ...uint32) filter {
	var b filter
	b.loadArg(arg)
	for n, v := range values {
		b.jump(unix.BPF_JEQ, v, uint8(len(values)-n), 0) //nolint:gosec // a handful
	}
	b.ret(errno(e))
	b.ret(unix.SECCOMP_RET_ALLOW)
	return b
}

// isOneOf refuses a call whose argument is one of the values.
func isOneOf(arg uint32, values ...uint32) filter {
	var b filter
	b.loadArg(arg)
	for n, v := range values {
		b.jump(unix.BPF_JEQ, v, uint8(len(values)-n), 0) //nolint:gosec // a handful
	}
	b.ret(unix.SECCOMP_RET_ALLOW)
	b.ret(errno(unix.EPERM))
	return b
}

// sockets are the families that can be had, and of netlink only what lists addresses.
func sockets() filter {
	var b filter
	b.loadArg(0)
	b.jump(unix.BPF_JEQ, unix.AF_UNIX, 6, 0)
	b.jump(unix.BPF_JEQ, unix.AF_INET, 5, 0)
	b.jump(unix.BPF_JEQ, unix.AF_INET6, 4, 0)
	b.jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 2)
	b.loadArg(2)
	b.jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0)
	b.ret(errno(unix.EAFNOSUPPORT))
	b.ret(unix.SECCOMP_RET_ALLOW)
	return b
}

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	setID      = unix.S_ISUID | unix.S_ISGID
	makesFiles = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	tioclinux  = 0x541c
)

// seems not to be there, for libraries to fall back.
var absent = []uint32{
	unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_FCHMODAT2,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// newFilter is the filter of this architecture.
func newFilter() filter {
	var f filter
	f.load(dataArch)
	f.jump(unix.BPF_JEQ, auditArch, 1, 0)
	f.ret(unix.SECCOMP_RET_KILL_PROCESS) // of another architecture, where numbers mean other calls
	f.load(dataNr)
	if otherABI != 0 {
		f.jump(unix.BPF_JGE, otherABI, 0, 1)
		f.ret(errno(unix.ENOSYS))
	}
	f.when(unix.SYS_CLONE, noneOf(0, newNamespaces))
	f.when(unix.SYS_SOCKET, sockets())
	f.when(unix.SYS_SOCKETPAIR, oneOf(0, unix.EAFNOSUPPORT, unix.AF_UNIX))
	f.when(unix.SYS_IOCTL, isOneOf(1, unix.TIOCSTI, tioclinux))
	f.when(unix.SYS_FCHMOD, noneOf(1, setID))
	f.when(unix.SYS_FCHMODAT, noneOf(2, setID))
	f.when(unix.SYS_MKNODAT, noneOf(2, setID))
	f.when(unix.SYS_OPENAT, notBoth(2, makesFiles, 3, setID))
	f.when(unix.SYS_PERSONALITY, oneOf(0, unix.EPERM, 0, 0x8, 0x20000, 0x20008, 0xffffffff))
	f.older()
	for _, nr := range absent {
		f.jump(unix.BPF_JEQ, nr, 0, 1)
		f.ret(errno(unix.ENOSYS))
	}
	for _, r := range ranges(append(slices.Clone(allowed), allowedOlder...)) {
		f.jump(unix.BPF_JGE, r[0], 0, 2)
		f.jump(unix.BPF_JGT, r[1], 1, 0)
		f.ret(unix.SECCOMP_RET_ALLOW)
	}
	f.jump(unix.BPF_JGT, lastKnown, 0, 1)
	f.ret(errno(unix.ENOSYS))
	f.ret(errno(unix.EPERM))
	return f
}

// lastKnown is the newest call that was looked at.
const lastKnown = unix.SYS_MSEAL

// ranges are numbers as pairs of the first and the last of those that follow another.
func ranges(numbers []uint32) [][2]uint32 {
	slices.Sort(numbers)
	var rs [][2]uint32
	for _, n := range numbers {
		if last := len(rs) - 1; last >= 0 && n <= rs[last][1]+1 {
			rs[last][1] = n
			continue
		}
		rs = append(rs, [2]uint32{n, n})
	}
	return rs
}

// bytes are the program as bwrap reads it.
func (f filter) bytes() []byte {
	b := make([]byte, 0, 8*len(f))
	for _, i := range f {
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}
