package namespace

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/cgroup"
)

// needBwrap skips a test where bubblewrap is not installed.
func needBwrap(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bwrap is not installed")
		}
		t.Skip("bwrap is not installed: apt-get install bubblewrap")
	}
}

// script writes a program that stands in for the Hand.
func script(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hand")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func specOf(t testing.TB, tier *Tier, hand string) *sandbox.Spec {
	t.Helper()
	dir := t.TempDir()
	spec := &sandbox.Spec{
		ID: "env-1", Hand: hand, Workspace: filepath.Join(dir, "workspace"), State: filepath.Join(dir, "state"),
		Labels:  sandbox.Labels{Host: "test-host", Owner: "owner-1", Environment: "env-1", Session: "s1"},
		Network: sandbox.NetworkNone,
	}
	uid, gid, ok := tier.HandUser()
	for _, d := range []string{spec.Workspace, spec.State} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if ok {
			if err := os.Chown(d, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	return spec
}

func start(t testing.TB, tier *Tier, spec *sandbox.Spec) sandbox.Instance {
	t.Helper()
	i, err := tier.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, i) })
	return i
}

func stop(t testing.TB, i sandbox.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	if err := i.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// program is a Spec whose Hand is this test, as one of insidePrograms.
func program(t testing.TB, tier *Tier, name string) *sandbox.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf(t, tier, self)
	spec.Env = []string{"NAMESPACE_TEST_INSIDE=" + name}
	return spec
}

// inside runs a script in a sandbox and returns what it wrote.
func inside(t testing.TB, spec func(*sandbox.Spec), text string) string {
	t.Helper()
	tier := New(Options{})
	s := specOf(t, tier, script(t, "exec 2>&1\n"+text))
	if spec != nil {
		spec(s)
	}
	i := start(t, tier, s)
	b, err := io.ReadAll(i.Channel())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestChannel(t *testing.T) {
	needBwrap(t)
	tier := New(Options{})
	if err := tier.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec := specOf(t, tier, script(t, `echo "$1 $PWD $$ $(id -u) $SET $HOME"; exec cat`))
	spec.Env = []string{"SET=a b"}
	i := start(t, tier, spec)
	out := bufio.NewReader(i.Channel())
	line, err := out.ReadString('\n')
	if err != nil || line != "serve /workspace 1 65534 a b /tmp\n" {
		t.Fatalf("the Hand saw %q, %v", line, err)
	}
	if _, err := io.WriteString(i.Channel(), "ping\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("answer %q, %v", line, err)
	}
	e, err := i.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sandbox.PropertyNames {
		if f := e.Properties[name]; f.State != sandbox.Enforced {
			t.Errorf("%s: %+v", name, f)
		}
	}
	_ = i.Channel().Close()
	select {
	case <-i.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on without input")
	}
	if err := i.Ended(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonExited {
		t.Errorf("Ended = %v", err)
	}
}

func TestFilesystem(t *testing.T) {
	needBwrap(t)
	got := inside(t, nil, `
for f in / /usr /etc /dev /awaken /proc/sys/kernel/hostname; do ( : > $f/x ) 2>/dev/null || ( echo > $f ) 2>/dev/null && echo "wrote $f"; done
for f in /workspace /tmp /awaken/state; do echo ok > $f/x && cat $f/x; done
ls -d /home /root /var /run /sys /etc/shadow 2>/dev/null
echo end`)
	if got != "ok\nok\nok\nend\n" {
		t.Errorf("got %q", strings.TrimSpace(got))
	}
}

// The kernel ends what needs too much memory; a Hand that it ends says so.
func TestMemory(t *testing.T) {
	needBwrap(t)
	needCgroups(t)
	small := func(s *sandbox.Spec) { s.Limits.MemoryMiB = 24 }
	hog := `head -c 100M /dev/zero | tail -c 100M > /dev/null`
	t.Run("command", func(t *testing.T) {
		got := inside(t, small, "( "+hog+" ); echo status $?")
		if !strings.HasSuffix(got, "status 137\n") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("hand", func(t *testing.T) {
		tier := New(Options{})
		spec := program(t, tier, "hog")
		small(spec)
		i := start(t, tier, spec)
		if _, err := io.ReadAll(i.Channel()); err != nil {
			t.Fatal(err)
		}
		<-i.Done()
		if err := i.Ended(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonMemory {
			t.Errorf("Ended = %v", err)
		}
	})
}

// needCgroups ends a test where this process may make none. A build machine may.
func needCgroups(t *testing.T) {
	t.Helper()
	place := cgroup.Find("")
	for _, c := range []string{cgroup.Memory, cgroup.PIDs} {
		if why := place.Why(c); why != "" {
			if os.Getenv("CI") == "true" {
				t.Fatal(why)
			}
			t.Skip("cgroups cannot be made here, run the test as root: " + why)
		}
	}
}

func TestForkBomb(t *testing.T) {
	needBwrap(t)
	const bomb = `sh -c 'i=0; while [ $i -lt 100 ]; do sleep 100 </dev/null >/dev/null 2>&1 & echo x; i=$((i+1)); done' 2>/dev/null | wc -l`
	for name, host := range map[string]string{"cgroup": "test-host", "rlimit": ""} {
		t.Run(name, func(t *testing.T) {
			if host != "" {
				needCgroups(t)
			}
			got := strings.TrimSpace(inside(t, func(s *sandbox.Spec) { s.Labels.Host, s.Limits.PIDs = host, 30 }, bomb))
			if n, err := strconv.Atoi(got); err != nil || n < 20 || n >= 30 {
				t.Errorf("%q processes more, with a limit of 30", got)
			}
		})
	}
}
