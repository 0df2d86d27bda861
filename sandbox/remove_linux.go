package sandbox

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openUp gives the owner of a folder below f all rights on it, and never on what a link
// of this name leads to.
func openUp(f *os.File, name string) error {
	fd, err := unix.Openat(int(f.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// Older kernels change the rights of what is open without reading only by this name.
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
