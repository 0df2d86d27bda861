package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func testEngines(t *testing.T) *engines {
	t.Helper()
	e := &engines{dir: t.TempDir()}
	t.Cleanup(func() {
		all, err := e.processes()
		if err != nil {
			t.Error(err)
		}
		for _, p := range all {
			if err := p.stop(time.Second); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

func readyAtOnce(context.Context) error { return nil }

func TestStartOnceAndAgainAfterKill(t *testing.T) {
	e := testEngines(t)
	start := func() process {
		t.Helper()
		if err := e.start(t.Context(), "sleeper", []string{"/bin/sleep", "60"}, readyAtOnce); err != nil {
			t.Fatal(err)
		}
		p, err := e.process("sleeper")
		if err != nil || !p.alive() {
			t.Fatalf("%+v does not run: %v", p, err)
		}
		return p
	}
	first := start()
	if again := start(); again != first {
		t.Errorf("started a second time: %+v after %+v", again, first)
	}
	if err := e.kill("sleeper"); err != nil {
		t.Fatal(err)
	}
	if first.alive() {
		t.Error("alive after kill")
	}
	if err := e.kill("sleeper"); err == nil {
		t.Error("a dead process was killed")
	}
	if err := e.kill("other"); err == nil || !strings.Contains(err.Error(), "not started") {
		t.Errorf("kill of what was not started: %v", err)
	}
	if second := start(); second.PID == first.PID {
		t.Errorf("not started again: %+v", second)
	}
}

func TestAnotherProcessWithTheNumberIsNotOurs(t *testing.T) {
	_, start, err := stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if p := (process{PID: os.Getpid(), Start: start}); !p.alive() {
		t.Error("this process is not alive")
	}
	p := process{PID: os.Getpid(), Start: start + "0"}
	if p.alive() {
		t.Error("a process that started at another time is taken for ours")
	}
	if err := p.stop(time.Second); err != nil { // and would have ended this test
		t.Error(err)
	}
}

func TestStartSaysWhatTheLogSays(t *testing.T) {
	e := testEngines(t)
	never := func(context.Context) error { return errors.New("it does not answer") }
	err := e.start(t.Context(), "broken", []string{"/bin/sh", "-c", "echo no such flag >&2; sleep 0.2; exit 3"}, never)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = e.start(ctx, "silent", []string{"/bin/sh", "-c", "echo waiting for a disk; exec sleep 60"}, never)
	if err == nil || !strings.Contains(err.Error(), "it does not answer") || !strings.Contains(err.Error(), "waiting for a disk") {
		t.Errorf("error %v", err)
	}
}

func TestSweepEndsEnginesOfTheFolderOnly(t *testing.T) {
	e, other := testEngines(t), testEngines(t)
	run := func(name, dir string) (*exec.Cmd, <-chan error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read line", dir+"/x")
		cmd.Args[0] = name
		stdin, err := cmd.StdinPipe() // held open, so that read waits
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait(); close(done) }()
		t.Cleanup(func() { closeAndWait(t, stdin, done) })
		return cmd, done
	}
	ours, done := run("/usr/bin/conmon", e.dir)
	editor, _ := run("vim", e.dir)
	foreign, _ := run("/usr/bin/conmon", other.dir)

	found, err := e.ours()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, []int{ours.Process.Pid}) {
		t.Errorf("found %v, want %d alone", found, ours.Process.Pid)
	}
	if err := e.sweep(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-done; !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the engine ended with %v", err)
	}
	for _, cmd := range []*exec.Cmd{editor, foreign} {
		if state, _, err := stat(cmd.Process.Pid); err != nil || state == "Z" {
			t.Errorf("%v was ended too", cmd.Args)
		}
	}
}

func closeAndWait(t *testing.T, stdin io.Closer, done <-chan error) {
	t.Helper()
	_ = stdin.Close() // it may have been closed when the process ended
	select {
	case <-done: //nolint:errcheck // how it ended is the business of the test
	case <-time.After(5 * time.Second):
		t.Error("a process does not end with its input")
	}
}
