package hand

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// OOMKills is how many processes the kernel has killed for memory inside of this
// boundary. A tier whose engine tells that only of a whole container asks it.
func OOMKills() (uint64, error) { return oomKills(os.DirFS("/")) }

// kernelKills is what OOMKills says during an operation, or the host does where that
// cannot be seen from here. False: it is not known.
func (c *commands) kernelKills(ctx context.Context, op batch.OperationID) (uint64, bool) {
	if len(c.h.hello.Places) > 0 || c.uncounted.Load() {
		return 0, false // without a boundary they would be those of the machine
	}
	if n, err := OOMKills(); err == nil {
		return n, true
	}
	var count sandbox.OOMCount
	s, err := c.h.channel.Open(ctx, sandbox.MethodOOMKills, sandbox.OOMParams{Operation: op})
	if err == nil {
		err = s.Result(&count)
	}
	if err != nil {
		c.uncounted.Store(ctx.Err() == nil)
		return 0, false
	}
	return count.Kills, true
}

// outOfMemory says in words that the kernel ended the command, or a process that it
// needed; empty where it did not, or nobody knows.
func (c *commands) outOfMemory(ctx context.Context, op batch.OperationID, before uint64) string {
	if n, known := c.kernelKills(ctx, op); !known || n <= before {
		return ""
	}
	return fmt.Sprintf("the sandbox ran out of memory, and the kernel killed a process of it: all of them together may have %d MiB ([sandbox.limits].memory_mib)", c.h.limits.MemoryMiB)
}

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
