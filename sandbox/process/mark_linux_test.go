package process

import (
	"crypto/rand"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestMarkIsReadAsItWasWritten(t *testing.T) {
	l := sandbox.Labels{Host: "h-1", Owner: "o", Environment: "e", Session: "a:b/c%\n ü"}
	tier, got, ok := parseMark(Mark("local", &l))
	if !ok || tier != "local" || got != l {
		t.Errorf("read %q, %+v, %v", tier, got, ok)
	}
	for _, s := range []string{"", "bwrap", "awaken-sandbox:local:h:o:e", "other:local:h:o:e:s", "awaken-sandbox:local:h:o:e:%zz", "awaken-sandbox:local:h:o:e:%61"} {
		if _, l, ok := parseMark(s); ok {
			t.Errorf("%q is read as %+v", s, l)
		}
	}
}

func TestStatOfOddNames(t *testing.T) {
	s, err := parseStat(7, []byte("7 (a) b (Z) S 3 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"))
	if err != nil || s.Parent != 3 || s.Start != 4711 || s.Zombie {
		t.Errorf("%+v, %v", s, err)
	}
	for _, b := range []string{"", "7 (a", "7 (a) S 3"} {
		if _, err := parseStat(7, []byte(b)); err == nil {
			t.Errorf("%q is read", b)
		}
	}
}

func TestStatusUser(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n": 1000,
		"Uid:\t0\t0\t0\t0": 0,
		"":                 -1, "Uid:\n": -1, "Uid:\t1\t2\t3\n": -1, "Uid:\tx\t0\t0\t0\n": -1, "Uid:\t-1\t0\t0\t0\n": -1, "Gid:\t1\t1\t1\t1\n": -1,
	} {
		if got, ok := statusUser(status); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is read as %d, %v", status, got, ok)
		}
	}
}

// A mark is there for everybody to read, so whoever takes one is none of ours by it.
func TestMarkOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a process of another user needs root: run the tests as root")
	}
	const theirs, hands = 12345, 54321
	l := sandbox.Labels{Host: "h-" + rand.Text(), Owner: "o", Environment: "e"}
	mark := Mark("namespace", &l)
	started := func(user uint32) *exec.Cmd {
		cmd := exec.Command("/bin/sleep", "60")
		cmd.Args[0] = mark
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		for !slices.Contains(readMarks(cmd.Process.Pid), mark) {
			time.Sleep(time.Millisecond)
		}
		return cmd
	}
	foreign := started(theirs)
	if found, err := Marked("namespace", l.Host, hands); err != nil || len(found) != 0 {
		t.Errorf("a process of another user is taken for a sandbox: %v, %v", found, err)
	}
	own := []*exec.Cmd{started(0), started(hands)}
	if found, err := Marked("namespace", l.Host, hands); err != nil || len(found) != 1 {
		t.Errorf("ours are %v, %v", found, err)
	}
	if err := EndMarked(t.Context(), mark, hands); err != nil {
		t.Fatal(err)
	}
	for _, c := range own {
		if err := c.Wait(); err == nil {
			t.Error("one of ours was not ended")
		}
	}
	if err := foreign.Process.Signal(syscall.Signal(0)); err != nil || HasMark(foreign.Process.Pid, mark, hands) {
		t.Errorf("the process of another user: %v", err)
	}
	if s, err := ReadStat(foreign.Process.Pid); err != nil || s.Zombie {
		t.Errorf("the process of another user was ended: %+v, %v", s, err)
	}
}
