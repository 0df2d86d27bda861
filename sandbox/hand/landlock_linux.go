package hand

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock confines a process, and what it starts, to files and folders, without any
// privilege. See landlock(7).

const landlockNeeds = 2 // the version from which a file can be moved between folders

// landlockVersion is what the kernel has, 0 where it has none.
func landlockVersion() int {
	v, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// canConfine reports whether confine works here.
func canConfine() bool { return landlockVersion() >= landlockNeeds }

const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// What a rule about something that is no folder may hold.
	landlockFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockAll is every right over files that a version knows.
func landlockAll(version int) uint64 {
	all := uint64(unix.LANDLOCK_ACCESS_FS_REFER)<<1 - 1
	if version >= 3 {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// ruleset is struct landlock_ruleset_attr.
type ruleset struct{ fs, net, scoped uint64 }

const (
	landlockScopeAbstract = 1 << 0 // abstract Unix sockets of processes outside
	landlockScopeSignal   = 1 << 1 // signals to processes outside
)

// confine holds this thread, and what it starts, to the given files and folders. What
// is not there is left out.
func confine(read, write []string) error {
	version := landlockVersion()
	if version < landlockNeeds {
		return errors.New("the kernel cannot confine it (Landlock)")
	}
	all := landlockAll(version)
	attr, size := ruleset{fs: all}, unsafe.Sizeof(uint64(0))
	if version >= 6 {
		attr.scoped, size = landlockScopeAbstract|landlockScopeSignal, unsafe.Sizeof(attr)
	}
	fd, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0) //nolint:gosec // a system call with a struct
	if errno != 0 {
		return fmt.Errorf("it cannot be confined: %w", errno)
	}
	defer func() { _ = syscall.Close(int(fd)) }()
	for _, rules := range []struct {
		names  []string
		access uint64
	}{{read, landlockRead}, {write, all}} {
		for _, name := range rules.names {
			if err := landlockAllow(int(fd), name, rules.access&all); err != nil {
				return fmt.Errorf("it cannot be confined to %s: %w", name, err)
			}
		}
	}
	if _, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("it cannot be confined: %w", errno)
	}
	return nil
}

func landlockAllow(ruleset int, name string, access uint64) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile
	}
	// struct landlock_path_beneath_attr is packed.
	var rule [12]byte
	binary.NativeEndian.PutUint64(rule[:], access)
	binary.NativeEndian.PutUint32(rule[8:], uint32(fd)) //nolint:gosec // an open file
	const pathBeneath = 1
	_, _, errno := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), pathBeneath, uintptr(unsafe.Pointer(&rule[0])), 0, 0, 0) //nolint:gosec // a system call with a struct
	if errno != 0 {
		return errno
	}
	return nil
}
