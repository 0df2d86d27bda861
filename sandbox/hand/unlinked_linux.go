package hand

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// unlinked is how many bytes on the disk of folder what descends from this process
// holds open in files without a name: no walk finds those. What a process keeps from
// being looked at (PR_SET_DUMPABLE), or has mapped and closed, is not in it.
func unlinked(folder string) (bytes int64) {
	var at, st syscall.Stat_t
	if syscall.Stat(folder, &at) != nil {
		return 0
	}
	seen := map[uint64]bool{}
	for _, pid := range descendants(os.Getpid()) {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		open, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, fd := range open {
			if syscall.Stat(filepath.Join(dir, fd.Name()), &st) != nil || st.Nlink > 0 || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Dev != at.Dev || seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
			bytes += st.Blocks * 512
		}
	}
	return bytes
}
