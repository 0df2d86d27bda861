package cgroup

import (
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the kernel's files say, a group lies in the tree that it is of.
func FuzzHierarchies(f *testing.F) {
	f.Add("30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/user.slice\n")
	f.Add("30 24 0:27 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "5:memory:/a/../../..\n")
	f.Add("30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/../../outside\n")
	f.Add("x - y\n", "::\n")
	f.Fuzz(func(t *testing.T, mountinfo, own string) {
		for _, h := range hierarchies(mountinfo, own) {
			root := filepath.Clean(h.root)
			if h.dir != root && !strings.HasPrefix(h.dir, strings.TrimSuffix(root, "/")+"/") {
				t.Errorf("group %q is not in its tree %q", h.dir, root)
			}
		}
	})
}
