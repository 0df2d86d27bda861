package wasm

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

func isolated(tb testing.TB, i plugins.Isolation) *plugins.Plugin {
	return newPlugin(guest(tb, "guest"), plugins.ABIExtism,
		tool("count_static", isolation(i)), tool("count_var", isolation(i), encoding("json", "text")),
		tool("count_then_fail", isolation(i)), tool("trap", isolation(i)), tool("exit_zero", isolation(i)),
		tool("spin", isolation(i)), tool("damage_extism", isolation(i)), tool("scavenge", isolation(i)),
		tool("echo", isolation(i), encoding("text:w", "text")), tool("talk", isolation(i)), tool("grow_gracefully", isolation(i)),
		tool("world", isolation(i)), tool("litter", isolation(i)), tool("find_litter", isolation(i)))
}

func inRun(id batch.RunID) func(*batch.Call) { return func(c *batch.Call) { c.Run = id } }

func TestCallIsolation(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{}), isolated(t, plugins.IsolationCall))
	for range 3 {
		good(t, g.call("count_static", `{}`), "1")
		good(t, g.call("count_var", `{}`), "1")
	}
	good(t, g.call("echo", `{"w":"secret-42"}`), "secret-42")
	good(t, g.call("scavenge", `{}`), `"clean"`)
}

// Memory is used again by the next instance: it must not show whose it was.
func TestRecycledMemoryIsClean(t *testing.T) {
	r := newRuntime(t, Options{})
	for _, i := range []plugins.Isolation{plugins.IsolationCall, plugins.IsolationRun} {
		g := newRig(t, r, isolated(t, i))
		for n := range 4 {
			good(t, g.call("litter", `{}`, inRun(batch.RunID(fmt.Sprint("a", n)))), `"done"`)
			good(t, g.call("find_litter", `{}`, inRun(batch.RunID(fmt.Sprint("b", n)))), `"clean"`)
		}
	}
	for range 50 {
		b := newBuffer(100_000, 150_000)
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of a new buffer is %d", i, b[i])
			}
			b[i] = 0xff
		}
		recycleBuffer(b)
	}
	for n := uint64(1); n < 1<<33; n = n*5/4 + 1 {
		class, size := sizeClass(n)
		if again, same := sizeClass(size); size < n || size > max(n*5/4+8, pageBytes) || same != size || again != class {
			t.Errorf("size %d: class %d of %d bytes; that size is class %d of %d", n, class, size, again, same)
		}
	}
}

func TestRunIsolation(t *testing.T) {
	var logged bytes.Buffer
	r := newRuntime(t, Options{CallsPerInstance: 8, Logger: logTo(&logged)})
	g := newRig(t, r, isolated(t, plugins.IsolationRun))
	good(t, g.call("count_static", `{}`, inRun("a")), "1")
	good(t, g.call("count_static", `{}`, inRun("a")), "2")
	good(t, g.call("count_static", `{}`, inRun("b")), "1")
	good(t, g.call("count_var", `{}`, inRun("a")), "1")
	good(t, g.call("count_var", `{}`, inRun("b")), "1")
	// Nor does Extism's memory, also where one run's instance became another's memory.
	good(t, g.call("echo", `{"w":"secret-42"}`, inRun("a")), "secret-42")
	good(t, g.call("scavenge", `{}`, inRun("b")), `"clean"`)
	good(t, g.call("scavenge", `{}`, inRun("a")), `"clean"`)
	// An ordinary failure keeps the instance, a trap or an exit does not.
	bad(t, g.call("count_then_fail", `{}`, inRun("a")), "an ordinary failure")
	good(t, g.call("count_static", `{}`, inRun("a")), "4")
	bad(t, g.call("trap", `{}`, inRun("a")), "trapped")
	good(t, g.call("count_static", `{}`, inRun("a")), "1")
	good(t, g.call("exit_zero", `{}`, inRun("a")), `"bye"`)
	good(t, g.call("count_static", `{}`, inRun("a")), "1")
	// A narrowed call gets an instance of its own.
	good(t, g.call("count_static", `{}`, inRun("a"), func(c *batch.Call) { c.Grant = &batch.Grant{Hosts: []string{}} }), "1")
	good(t, g.call("count_static", `{}`, inRun("a"), func(c *batch.Call) { c.Grant = &batch.Grant{} }), "2")
	// A guest that took most of its memory is replaced.
	if out := g.call("grow_gracefully", `{}`, inRun("a")); out.IsError {
		t.Error(out.Text())
	}
	good(t, g.call("count_static", `{}`, inRun("a")), "1")
	// Recycled after 8 calls.
	for i := range 8 {
		good(t, g.call("count_static", `{}`, inRun("c")), fmt.Sprint(i+1))
	}
	good(t, g.call("count_static", `{}`, inRun("c")), "1")
	// The log names the call that talks, not the one that made the instance.
	logged.Reset()
	good(t, g.call("talk", `{}`, inRun("c")), "true")
	if s := logged.String(); !strings.Contains(s, "operation=c/") || strings.Contains(s, "operation=a/") {
		t.Errorf("log of another call: %s", s)
	}
	// Idle runs are let go.
	r.sweep(time.Now().Add(-time.Hour))
	good(t, g.call("count_static", `{}`, inRun("b")), "2")
	r.sweep(time.Now().Add(time.Hour))
	good(t, g.call("count_static", `{}`, inRun("b")), "1")
}

func TestRunInstancesAreBounded(t *testing.T) {
	r := newRuntime(t, Options{MaxRunInstances: 3})
	g := newRig(t, r, isolated(t, plugins.IsolationRun))
	for i := range 6 {
		good(t, g.call("count_static", `{}`, inRun(batch.RunID(fmt.Sprint("r", i)))), "1")
	}
	if n, _ := r.loaded[g.p].pool.idleRuns(); n != 3 {
		t.Errorf("%d instances wait for their runs, the limit is 3", n)
	}
	good(t, g.call("count_static", `{}`, inRun("r5")), "2") // the newest stayed
	good(t, g.call("count_static", `{}`, inRun("r0")), "1") // the oldest went
}

func TestRunCallsTakeTurns(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{MaxConcurrent: 8}), isolated(t, plugins.IsolationRun))
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range 40 {
		wg.Go(func() {
			out := g.call("count_static", `{}`, inRun("a"))
			mu.Lock()
			defer mu.Unlock()
			seen[out.Text()] = true
		})
	}
	wg.Wait()
	if len(seen) != 40 {
		t.Errorf("40 calls of a run counted to %d", len(seen))
	}
	// Waiting for a turn honours the caller's context.
	spin, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	c := g.newCall("spin", `{}`)
	go func() {
		defer close(done)
		_, _ = g.exec.Invoke(spin, c)
	}()
	for len(g.r.slots) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if out, err := g.exec.Invoke(ctx, g.newCall("count_static", `{}`)); err == nil {
		t.Errorf("a second call of the run ran: %s", out.Text())
	}
	stop()
	<-done
}

func TestSharedIsolation(t *testing.T) {
	g := newRig(t, newRuntime(t, Options{}), isolated(t, plugins.IsolationShared))
	good(t, g.call("count_static", `{}`, inRun("a")), "1")
	good(t, g.call("count_static", `{}`, inRun("b")), "2")
	bad(t, g.call("trap", `{}`), "trapped")
	good(t, g.call("count_static", `{}`), "1")
	good(t, g.call("exit_zero", `{}`), `"bye"`)
	good(t, g.call("count_static", `{}`), "1")
	// Extism's own memory never carries anything over, and a guest that damaged it
	// does not hang the next call.
	good(t, g.call("echo", `{"w":"secret-42"}`), "secret-42")
	good(t, g.call("scavenge", `{}`), `"clean"`)
	good(t, g.call("damage_extism", `{}`), `"damaged"`)
	good(t, g.call("count_static", `{}`), "2")
	// Inputs beyond Extism's first page, again and again in one instance.
	for i := range 20 {
		w := strings.Repeat(fmt.Sprint(i), 150_000/len(fmt.Sprint(i)))
		good(t, g.call("echo", `{"w":"`+w+`"}`), w)
	}
	// The clock is not frozen in a reused instance.
	a := g.call("world", `{}`).Text()
	time.Sleep(2 * time.Millisecond)
	if b := g.call("world", `{}`).Text(); a == b {
		t.Errorf("the world stood still: %s", b)
	}
}

// An instance that is given back may be another call's at once, so nothing of a
// result is read from it after that: what the next call is refused is not said in
// this one. The race detector sees it.
func TestResultsAreNotOfTheNextCall(t *testing.T) {
	p := isolated(t, plugins.IsolationShared)
	g := newRig(t, newRuntime(t, Options{MaxConcurrent: 4}), p)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				good(t, g.call("echo", `{"w":"hello"}`), "hello")
			}
		})
	}
	wg.Wait()
}
