package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// script writes a program that stands in for the Hand.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hand")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func specOf(t *testing.T, hand string) *sandbox.Spec {
	t.Helper()
	dir := t.TempDir()
	spec := &sandbox.Spec{
		ID: "env-1", Hand: hand, Workspace: filepath.Join(dir, "workspace"), State: filepath.Join(dir, "state"),
		Labels: sandbox.Labels{Host: "h" + strconv.Itoa(os.Getpid()) + strings.ToLower(t.Name()), Owner: "owner-1", Environment: "env-1", Session: "s1"},
	}
	for _, d := range []string{spec.Workspace, spec.State} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return spec
}

func start(t *testing.T, spec *sandbox.Spec) sandbox.Instance {
	t.Helper()
	i, err := New(Options{}).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, i) })
	return i
}

func stop(t *testing.T, i sandbox.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	if err := i.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func TestChannel(t *testing.T) {
	spec := specOf(t, script(t, `echo "$1 $PWD $TMPDIR $SECRET"; exec cat`))
	spec.Env = []string{"SECRET=none"}
	i := start(t, spec)
	out := bufio.NewReader(i.Channel())
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	places := i.(sandbox.Placer).Places()
	if want := fmt.Sprintf("serve %s %s none\n", spec.Workspace, places[sandbox.TempDir]); line != want {
		t.Errorf("the Hand saw %q, want %q", line, want)
	}
	if _, err := io.WriteString(i.Channel(), "ping\n"); err != nil {
		t.Fatal(err)
	}
	if line, err = out.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("answer %q, %v", line, err)
	}
	if err := i.Ended(t.Context()); err != nil {
		t.Errorf("Ended of a running instance: %v", err)
	}
	// Closing the input is how a Hand learns that it may go.
	if err := i.Channel().Close(); err != nil {
		t.Fatal(err)
	}
	waitDone(t, i)
	if err := i.Ended(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonExited {
		t.Errorf("Ended = %v", err)
	}
	stop(t, i)
	if _, err := os.Stat(places[sandbox.TempDir]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary folder after Stop: %v", err)
	}
}

func waitDone(t *testing.T, i sandbox.Instance) {
	t.Helper()
	select {
	case <-i.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the instance has not ended")
	}
}

func TestEndedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		reason sandbox.Reason
		what   string
	}{
		"status": {"echo oh dear >&2; exit 3", sandbox.ReasonExited, "the Hand ended with status 3; its last words: oh dear"},
		"signal": {"kill -9 $$", sandbox.ReasonKilled, "the Hand got signal killed"},
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, specOf(t, script(t, c.script)))
			waitDone(t, i)
			var e *sandbox.EndedError
			if err := i.Ended(t.Context()); !errors.As(err, &e) || e.Reason != c.reason || e.What != c.what {
				t.Errorf("Ended = %v", err)
			}
		})
	}
}

func TestHandIsMissing(t *testing.T) {
	spec := specOf(t, filepath.Join(t.TempDir(), "nothing"))
	_, err := New(Options{}).Start(t.Context(), spec)
	if sandbox.ReasonOf(err) != sandbox.ReasonTool {
		t.Errorf("Start = %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(spec.State))
	if err != nil || len(left) != 2 {
		t.Errorf("Start left something behind: %v, %v", left, err)
	}
}

func TestNothingIsEnforced(t *testing.T) {
	i := start(t, specOf(t, script(t, "exec cat")))
	e, err := i.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sandbox.PropertyNames {
		if f := e.Properties[p]; f.State != sandbox.NotEnforced || f.Detail == "" || f.Remedy == "" {
			t.Errorf("%s: %+v", p, f)
		}
	}
}

// What a tool started in a session of its own, and what has lost its parent, ends too.
func TestStopEndsEverything(t *testing.T) {
	i := start(t, specOf(t, script(t, `
setsid sleep 1000 & echo $!
setsid sh -c 'sleep 1000 & echo $!; sleep 1000 & echo $!'
env -i setsid sleep 1000 & echo $!
exec cat`)))
	out := bufio.NewReader(i.Channel())
	var pids []int
	for range 4 {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	stop(t, i)
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d survives", pid)
		}
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// A host that is killed leaves no Hand, and what the Hand started in a session of its
// own is found by its labels, and removed by them alone.
func TestKilledHost(t *testing.T) {
	if dir := os.Getenv("LOCAL_TEST_HOST"); dir != "" {
		hostToBeKilled(t, dir)
	}
	dir := t.TempDir()
	host := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledHost$")
	host.Env = append(os.Environ(), "LOCAL_TEST_HOST="+dir)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var hand, orphan int
	if _, err := fmt.Fscan(out, &hand, &orphan); err != nil {
		t.Fatal(err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	for deadline := time.Now().Add(30 * time.Second); alive(hand); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the Hand survives its host")
		}
	}
	if !alive(orphan) {
		t.Fatal("the orphan is gone, so there is nothing to find")
	}
	tier := New(Options{})
	found, err := tier.Leftovers(t.Context(), filepath.Base(dir))
	if err != nil || len(found) != 1 {
		t.Fatalf("Leftovers = %v, %v", found, err)
	}
	if want := (sandbox.Labels{Host: filepath.Base(dir), Owner: "dead", Environment: "env-1", Session: "s1"}); found[0].Labels != want {
		t.Errorf("labels %+v", found[0].Labels)
	}
	// With labels of somebody else it is not ours to end.
	other := found[0]
	other.Labels.Owner = "other"
	if err := tier.Remove(t.Context(), other); err != nil || !alive(orphan) {
		t.Fatalf("Remove(%+v) = %v, alive: %v", other, err, alive(orphan))
	}
	if err := tier.Remove(t.Context(), found[0]); err != nil || alive(orphan) {
		t.Errorf("Remove = %v, alive: %v", err, alive(orphan))
	}
	if err := tier.Remove(t.Context(), found[0]); err != nil {
		t.Errorf("Remove of what is gone: %v", err)
	}
}

// hostToBeKilled starts a Hand from many goroutines' threads and waits for its end.
func hostToBeKilled(t *testing.T, dir string) {
	spec := specOf(t, script(t, "echo $$; setsid sh -c 'echo $$; exec sleep 1000'"))
	spec.Labels.Host, spec.Labels.Owner = filepath.Base(dir), "dead"
	i := make(chan sandbox.Instance)
	go func() {
		// The thread of this goroutine ends with it, and the Hand must not.
		runtime.LockOSThread()
		started, err := New(Options{}).Start(t.Context(), spec)
		if err != nil {
			panic(err)
		}
		i <- started
	}()
	_, _ = io.Copy(os.Stdout, (<-i).Channel())
}
