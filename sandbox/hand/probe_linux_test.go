package hand

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func proc(entries ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for _, e := range entries {
		var pid, parent int
		var name string
		_, _ = fmt.Sscan(e, &pid, &name, &parent)
		root[fmt.Sprintf("proc/%d/stat", pid)] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d (%s) S %d 1 1", pid, name, parent)}
	}
	return root
}

func TestWhoseProcessesAreSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		root fstest.MapFS
		self int
		want sandbox.State
	}{
		{"process 1", proc("1 hand 0", "5 sh 1"), 1, sandbox.Enforced},
		{"below bubblewrap", proc("1 bwrap 0", "2 hand 1"), 2, sandbox.Enforced},
		{"started from outside", proc("1 hand 0", "9 hand 0"), 9, sandbox.Enforced},
		{"a machine's", proc("1 init 0", "2 kthreadd 0", "9 hand 1"), 9, sandbox.NotEnforced},
		{"a machine's engine", proc("1 hand 0", "7 dockerd 1"), 1, sandbox.NotEnforced},
		{"somebody's", proc("1 init 0", "9 hand 1"), 9, sandbox.Unknown},
		{"no /proc", fstest.MapFS{}, 1, sandbox.Unknown},
	} {
		if f := probeProcesses(c.root, c.self); f.State != c.want {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]procStat{
		"7 (a) b) c) Z 3 7 7": {name: "a) b) c", state: "Z", parent: 3},
		"7 (x) S":             {name: "x", parent: -1},
		"":                    {parent: -1},
		")(":                  {parent: -1},
	} {
		if got := parseStat([]byte(text)); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A filter counts for what it refuses, and not for being there.
func TestProbeSyscalls(t *testing.T) {
	ended := func(how string) error { return exec.Command("sh", "-c", how).Run() }
	for _, c := range []struct {
		name, seccomp string
		err           error
		want          sandbox.State
	}{
		{"refused", "2", nil, sandbox.Enforced},
		{"ended by the filter", "2", ended("kill -SYS $$"), sandbox.Enforced},
		{"let through", "2", ended(fmt.Sprint("exit ", letThrough)), sandbox.NotEnforced},
		{"not tried", "2", ended(fmt.Sprint("exit ", notTried)), sandbox.Unknown},
		{"not started", "2", os.ErrNotExist, sandbox.Unknown},
		{"no filter", "0", nil, sandbox.NotEnforced},
		{"nothing said", "", nil, sandbox.Unknown},
	} {
		f := probeSyscalls(map[string]string{"Seccomp": c.seccomp}, func() error { return c.err })
		if f.State != c.want {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	program, err := handProgram()
	if err != nil {
		t.Fatal(err)
	}
	if procFields(os.DirFS("/"), "proc/self/status")["Seccomp"] == "2" {
		return // who runs the tests is filtered
	}
	ending := (*exec.ExitError)(nil)
	if err := needless(program, (*exec.Cmd).Run); !errors.As(err, &ending) || ending.ExitCode() != letThrough {
		t.Errorf("without a filter: %v", err)
	}
}
