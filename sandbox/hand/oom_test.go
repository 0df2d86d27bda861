package hand

import (
	"testing"
	"testing/fstest"
)

func TestOOMKills(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const one, two = "sys/fs/cgroup/memory/memory.oom_control", "sys/fs/cgroup/memory.events"
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want uint64
		ok   bool
	}{
		{"version 2", fstest.MapFS{two: file("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n")}, 2, true},
		{"version 1", fstest.MapFS{one: file("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")}, 4, true},
		{"none yet", fstest.MapFS{two: file("oom_kill 0\n")}, 0, true},
		{"a kernel that does not count", fstest.MapFS{one: file("oom_kill_disable 0\nunder_oom 0\n")}, 0, false},
		{"no number", fstest.MapFS{two: file("oom_kill many\n")}, 0, false},
		{"not mounted", fstest.MapFS{}, 0, false},
	} {
		got, err := oomKills(c.root)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
	}
}
