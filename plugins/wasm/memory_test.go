package wasm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

func TestQuota(t *testing.T) {
	q := &quota{total: 10}
	if !q.try(6) || q.try(5) || !q.try(4) {
		t.Fatal("10 bytes were not shared out as 6 and 4")
	}
	large, small, last := q.ask(8), q.ask(1), q.ask(1)
	q.give(4)
	if large.isMet() || small.isMet() {
		t.Error("a small demand overtook a large one")
	}
	if q.try(1) {
		t.Error("somebody who came later was served at once")
	}
	q.withdraw(large)
	if !small.isMet() || !last.isMet() || q.used != 8 {
		t.Errorf("who came second was not served when the first left; %d are used", q.used)
	}
	q.withdraw(last) // met already: it goes back
	d := q.ask(3)
	if !d.isMet() || q.raise(d, 1) {
		t.Error("a demand that is met was raised")
	}
	d = q.ask(1)
	if !q.raise(d, 4) {
		t.Error("a demand that waits could not be raised")
	}
	q.give(3)
	if d.isMet() {
		t.Error("a raised demand was met too early")
	}
	q.give(1)
	q.give(5)
	if !d.isMet() || q.used != 6-5+5 {
		t.Errorf("met %t, %d used", d.isMet(), q.used)
	}
}

// roomFor is a runtime whose instances may together have so many MiB.
func roomFor(t *testing.T, mib int) *Runtime {
	return newRuntime(t, Options{MaxConcurrent: 16, TotalMemoryMiB: mib, ReplacementsPerSecond: 10_000})
}

// used is what is taken of the quota, once nothing runs any more.
func (r *Runtime) used() uint64 {
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	return r.quota.used
}

func TestCallsWaitForMemory(t *testing.T) {
	r := roomFor(t, 80) // for two calls of 32 MiB and what goes with them
	g := newRig(t, r, guestPlugin(t))
	running, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 2)
	for range 2 {
		c := g.newCall("spin", `{}`)
		go func() {
			_, err := g.exec.Invoke(running, c)
			ended <- err
		}()
	}
	for len(r.slots) < 2 || r.used() < 64<<20 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var te *batch.ToolError
	if _, err := g.exec.Invoke(ctx, g.newCall("echo", `{}`)); !errors.As(err, &te) || te.Kind != batch.ToolErrorUnavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third call beside two: %v", err)
	}
	// A narrower call fits beside them.
	good(t, g.call("echo", `{}`, func(c *batch.Call) { c.Grant = &batch.Grant{MemoryMiB: 2} }), `{}`)
	third := make(chan *batch.Output)
	go func() { third <- g.call("echo", `{}`) }()
	time.Sleep(20 * time.Millisecond)
	stop()
	good(t, <-third, `{}`)
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if n := r.used(); n != 0 {
		t.Errorf("%d bytes are taken with nothing running", n)
	}
}

func TestIdleInstancesMakeRoom(t *testing.T) {
	// 32 MiB and what goes with them take 34; an idle instance a bit more than 1.
	for _, c := range []struct {
		mib  int
		want string
	}{{40, "2"}, {35, "1"}} {
		r := roomFor(t, c.mib)
		g := newRig(t, r, isolated(t, plugins.IsolationRun))
		good(t, g.call("count_static", `{}`, inRun("a")), "1")
		good(t, g.call("count_static", `{}`, inRun("b")), "1")
		good(t, g.call("count_static", `{}`, inRun("a")), c.want)
		s := newRig(t, r, isolated(t, plugins.IsolationShared))
		good(t, s.call("count_static", `{}`), "1")
		good(t, g.call("count_static", `{}`, inRun("c")), "1")
		good(t, s.call("count_static", `{}`), c.want)
	}
}

// With room for one call at a time, runs that each have an instance neither wait for
// each other for ever nor lose count of the memory.
func TestMemoryIsNeitherLostNorOvercommitted(t *testing.T) {
	for _, mib := range []int{34, 75} {
		r := roomFor(t, mib)
		rigs := []*rig{newRig(t, r, isolated(t, plugins.IsolationRun)), newRig(t, r, isolated(t, plugins.IsolationShared)), newRig(t, r, isolated(t, plugins.IsolationCall))}
		rigs[2].p.Warm = 2
		var wg sync.WaitGroup
		for worker := range 16 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(2, uint64(worker)))
				for range 12 {
					g := rigs[rnd.IntN(len(rigs))]
					id := []string{"count_static", "count_var", "trap", "exit_zero"}[rnd.IntN(4)]
					c := g.newCall(id, `{}`)
					c.Run = batch.RunID(fmt.Sprint("r", rnd.IntN(4)))
					ctx, cancel := context.WithCancel(context.Background())
					if rnd.IntN(4) == 0 {
						time.AfterFunc(time.Duration(rnd.IntN(5))*time.Millisecond, cancel)
					}
					_, _ = g.exec.Invoke(ctx, c)
					cancel()
					if n := r.used(); n > r.quota.total {
						t.Errorf("%d of %d bytes are taken", n, r.quota.total)
					}
				}
			})
		}
		wg.Wait()
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := r.used(); n != 0 || len(r.quota.waiting) != 0 {
			t.Errorf("%d bytes are taken by a runtime that is closed, %d wait", n, len(r.quota.waiting))
		}
	}
}

func TestLoadRefusesMoreThanThereIs(t *testing.T) {
	r := roomFor(t, 16)
	err := r.Load(t.Context(), guestPlugin(t))
	if err == nil || !strings.Contains(err.Error(), "its memory limit is 32 MiB, and all plugins together may have 16 MiB ([limits].total_memory_mib)") {
		t.Error(err)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	r := newRuntime(t, Options{MaxConcurrent: 1, MaxQueued: 2})
	g := newRig(t, r, guestPlugin(t))
	good(t, g.call("echo", `{}`), `{}`)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	for range 3 {
		c := g.newCall("spin", `{}`)
		wg.Go(func() { _, _ = g.exec.Invoke(ctx, c) })
	}
	inside := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.calls
	}
	for inside() < 3 {
		time.Sleep(time.Millisecond)
	}
	var te *batch.ToolError
	if _, err := g.exec.Invoke(ctx, g.newCall("echo", `{}`)); !errors.As(err, &te) || te.Kind != batch.ToolErrorUnavailable || !strings.Contains(err.Error(), "1 calls run and 2 wait already") {
		t.Errorf("a call beyond the queue: %v", err)
	}
	stop()
	wg.Wait()
	good(t, g.call("echo", `{}`), `{}`)
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newThrottle(10, 3)
		slow := 0
		wait := func() time.Duration {
			start := time.Now()
			if err := h.wait(t.Context(), func() { slow++ }); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		for range 3 {
			if d := wait(); d != 0 {
				t.Errorf("one of the first three waited %v", d)
			}
		}
		for range 3 {
			if d := wait(); d != 100*time.Millisecond {
				t.Errorf("a replacement waited %v at 10 a second", d)
			}
		}
		h.back() // that one's call ended in order
		if d := wait(); d != 0 {
			t.Errorf("waited %v after one came back", d)
		}
		h.charge() // one died later
		if d := wait(); d != 200*time.Millisecond {
			t.Errorf("waited %v with a debt of one", d)
		}
		if slow != 1 {
			t.Errorf("it was said %d times within a minute", slow)
		}
		time.Sleep(time.Hour)
		for range 3 {
			if d := wait(); d != 0 {
				t.Errorf("waited %v after an hour", d)
			}
		}
		wait()
		if slow != 2 {
			t.Errorf("it was said %d times in an hour", slow)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := h.wait(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait beyond its context: %v", err)
		}
	})
}

// A plugin that dies in every call is slowed down, another one beside it is not, and
// neither is one that works.
func TestDeadInstancesAreReplacedSlowly(t *testing.T) {
	var logged strings.Builder
	r := newRuntime(t, Options{ReplacementsPerSecond: 2, MaxConcurrent: 4, Logger: logTo(&logged)})
	for _, i := range []plugins.Isolation{plugins.IsolationCall, plugins.IsolationRun, plugins.IsolationShared} {
		g, other := newRig(t, r, isolated(t, i)), newRig(t, r, isolated(t, i))
		good(t, other.call("count_static", `{}`), "1")
		start := time.Now()
		for range 16 + 3 { // at a rate that a slow machine reaches, too
			bad(t, g.call("trap", `{}`), "trapped")
		}
		if took := time.Since(start); took < time.Second {
			t.Errorf("%s: 19 dead instances were replaced in %v", i, took)
		}
		start = time.Now()
		for range 100 {
			other.call("count_static", `{}`)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s: a plugin that works was slowed down: %v for 100 calls", i, took)
		}
	}
	if n := strings.Count(logged.String(), "keep dying"); n != 3 {
		t.Errorf("three plugins were slowed down, the log says so %d times", n)
	}
}

func TestMachineMemory(t *testing.T) {
	if n := machineMemory(); n < 64<<20 {
		t.Errorf("this machine has %d bytes", n)
	}
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	meminfo := file("MemFree: 1 kB\nMemTotal:       1048576 kB\n")
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  uint64
	}{
		"nothing known": {fstest.MapFS{}, unknownMemory},
		"no groups":     {fstest.MapFS{"proc/meminfo": meminfo}, 1 << 30},
		"version 2": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("536870912\n")}, 512 << 20},
		"version 2 in a container": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/../x\n"),
			"sys/fs/cgroup/memory.max": file("268435456\n")}, 256 << 20},
		"version 1": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("9:memory:/docker/1\n1:cpu:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("134217728\n")}, 128 << 20},
		"no limit in version 1": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("9:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 1 << 30},
		"damaged": {fstest.MapFS{"proc/meminfo": file("MemTotal: many kB\nMemTotal:"), "proc/self/cgroup": file("0\n0::/\n"),
			"sys/fs/cgroup/memory.max": file("-1")}, unknownMemory},
	} {
		if got := linuxMemory(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
