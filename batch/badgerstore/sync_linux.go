package badgerstore

import (
	"errors"
	"math"
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

const (
	// smallWrite is up to which size a transaction is worth setting aside for: a
	// large one waits for its bytes more than for the file system.
	smallWrite = 16 << 10
	// asideBytes is set aside at a time.
	asideBytes = 128 << 10
	// asidePage is written at a time. It must be one page: the kernel keeps what is
	// written at once in one large folio, and then writes all of it again with every
	// byte that changes in it.
	asidePage = 4 << 10
)

var zeroes [asidePage]byte

// setAside writes zeroes where the log will go on, up to at least to. A log file
// is made as one hole, and a sync that fills a hole waits for the file system's
// journal as well, which costs a quarter of a small commit.
//
// What Badger wrote is in no danger: it is not writing now, and only what is still
// a hole is set aside. Where that fails, commits are merely slower.
func setAside(w *wal, to int64) {
	from := (w.ready + asidePage - 1) &^ (asidePage - 1)
	to = (max(to, from+asideBytes) + asidePage - 1) &^ (asidePage - 1)
	fd := int(w.f.Fd())
	const seekData = 3
	data, err := syscall.Seek(fd, from, seekData)
	if err == nil && data < to || err != nil && !errors.Is(err, syscall.ENXIO) {
		w.ready = math.MaxInt64 // not for this file
		return
	}
	for at := from; at < to; at += asidePage {
		if _, err := syscall.Pwrite(fd, zeroes[:], at); err != nil {
			w.ready = math.MaxInt64
			return
		}
	}
	w.ready = to
}
