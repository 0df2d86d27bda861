package wasm

import (
	"fmt"
	"os"
	"strings"
)

// stillNamed reports whether the name that f was opened by was not removed since. The
// kernel says so of an open file, whoever has what name by now.
func stillNamed(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	named := false
	err = raw.Control(func(fd uintptr) {
		at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		// A file whose name ends like this itself is taken for a removed one.
		named = err == nil && !strings.HasSuffix(at, " (deleted)")
	})
	return err == nil && named
}
