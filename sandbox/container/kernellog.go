package container

import (
	"bytes"
	"errors"
	"syscall"
)

// MaxRecords bounds how much of the kernel's log is read.
const maxRecords = 100_000

// KernelKilled looks in the kernel's log for a process that was killed because the
// container with this id was over its memory limit: podman does not notice it where
// its control groups are of version 1. A log that cannot be read says no.
func kernelKilled(id string) bool {
	fd, err := syscall.Open("/dev/kmsg", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd) //nolint:errcheck // it was only read
	return searchLog(func(b []byte) (int, error) { return syscall.Read(fd, b) }, id)
}

// SearchLog reads records, one by one, until none is left.
func searchLog(read func([]byte) (int, error), id string) bool {
	if len(id) < 64 {
		return false // not what names a control group
	}
	record := make([]byte, 16<<10)
	for range maxRecords {
		n, err := read(record)
		switch {
		case errors.Is(err, syscall.EPIPE): // this record was overwritten meanwhile
			continue
		case err != nil || n <= 0:
			return false
		}
		_, group, found := bytes.Cut(record[:n], []byte("oom_memcg="))
		if group, _, _ = bytes.Cut(group, []byte(",")); found && bytes.Contains(group, []byte(id)) {
			return true
		}
	}
	return false
}
