//go:build unix

package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const firstInherited = 3 // after standard input, output and error

// KeepDescriptors makes that no program this process starts gets a file, folder or
// socket of it, but for those it is handed. Go opens everything so; what whoever started
// this process left open for it, such as a lock or a log, is not, and no boundary takes
// away what is open already.
func KeepDescriptors() error {
	if keepAll() == nil {
		return nil
	}
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("what this process has open cannot be found, and programs that it starts would get it: %w", err)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd >= firstInherited {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
