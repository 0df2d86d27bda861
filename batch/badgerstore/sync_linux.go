package badgerstore

import (
	"os"
	"syscall"
)

// ownSync says that the store syncs the write-ahead log itself. On Linux
// msync(MS_SYNC) of a mapped file is fsync without the times of the inode (mm/msync.c,
// vfs_fsync_range with datasync), which is what fdatasync is.
const ownSync = true

func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
