//go:build unix && !linux

package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUp gives the owner of a folder below f all rights on it, and never on what a link
// of this name leads to.
func openUp(f *os.File, name string) error {
	return unix.Fchmodat(int(f.Fd()), name, 0o700, unix.AT_SYMLINK_NOFOLLOW) //nolint:gosec // a descriptor
}
