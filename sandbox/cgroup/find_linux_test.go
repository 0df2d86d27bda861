package cgroup

import (
	"reflect"
	"testing"
)

func TestHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		mounts, own string
		want        []hierarchy
	}{
		"version 2": {
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", "0::/system.slice/awaken.service\n",
			[]hierarchy{{dir: "/sys/fs/cgroup/system.slice/awaken.service", root: "/sys/fs/cgroup", v2: true}},
		},
		"both": {
			"33 30 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n34 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"35 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n36 30 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
			"4:memory:/a/b\n2:cpu,cpuacct:/\n0::/c\n",
			[]hierarchy{
				{dir: "/sys/fs/cgroup/memory/a/b", root: "/sys/fs/cgroup/memory", controllers: []string{"memory"}},
				{dir: "/sys/fs/cgroup/cpu,cpuacct", root: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{"cpu"}},
				{dir: "/sys/fs/cgroup/unified/c", root: "/sys/fs/cgroup/unified", v2: true},
			},
		},
		"a part is mounted": {
			"33 30 0:28 /docker/x /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n", "4:pids:/docker/x/y\n",
			[]hierarchy{{dir: "/sys/fs/cgroup/pids/y", root: "/sys/fs/cgroup/pids", controllers: []string{"pids"}}},
		},
		"nonsense": {"a b c\n - \n", ":\n1\n", nil},
	} {
		if got := hierarchies(c.mounts, c.own); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
