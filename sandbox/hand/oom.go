package hand

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// OOMKills is how many processes the kernel has killed for memory inside of this
// boundary. A tier whose engine tells that only of a whole container asks it.
func OOMKills() (uint64, error) { return oomKills(os.DirFS("/")) }

func oomKills(root fs.FS) (uint64, error) {
	files := []string{"sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control"} // of version 2, and of 1
	for _, name := range files {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if count, is := strings.CutPrefix(lines.Text(), "oom_kill "); is {
				return strconv.ParseUint(count, 10, 64)
			}
		}
		return 0, fmt.Errorf("/%s does not say how many processes were killed for memory", name)
	}
	return 0, fmt.Errorf("neither /%s nor /%s can be read", files[0], files[1])
}
