package wasm

import (
	"os"
	"syscall"
	"unsafe"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
)

// setTimes sets the times of an open file, in nanoseconds; UTIME_OMIT leaves one as
// it is. The kernel does it by descriptor when there is no path.
func setTimes(f *os.File, atim, mtim int64) error {
	const omit = 1<<30 - 2
	times := [2]syscall.Timespec{syscall.NsecToTimespec(atim), syscall.NsecToTimespec(mtim)}
	for i, t := range []int64{atim, mtim} {
		if t == experimentalsys.UTIME_OMIT {
			times[i] = syscall.Timespec{Nsec: omit}
		}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0) //nolint:gosec // there is no other way in
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}
