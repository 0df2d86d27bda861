package wasm

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unknownMemory is assumed where the system does not say what it has.
const unknownMemory = 2 << 30

// linuxMemory is what this process may have in bytes: the machine's memory or the
// least of its control groups' limits, whichever is less. root is "/".
func linuxMemory(root fs.FS) uint64 {
	least := uint64(math.MaxUint64)
	consider := func(name string) {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return
		}
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	if b, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Scan() {
			if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == "MemTotal:" {
				if kib, err := strconv.ParseUint(f[1], 10, 54); err == nil && kib > 0 {
					least = min(least, kib<<10)
				}
			}
		}
	}
	// A limit holds for all groups below it. In a container the path is often that of
	// the host and does not exist; the limit is then in the root that is mounted.
	b, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[0] != "0" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			consider(path.Join(base, group, file))
			if group == "/" {
				break
			}
		}
	}
	if least == math.MaxUint64 {
		return unknownMemory
	}
	return least
}
