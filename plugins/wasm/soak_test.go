package wasm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// rss is the resident memory of the process in bytes.
func rss(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("resident memory is read from /proc, which only Linux has")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// soakCalls is how many calls TestSoak makes; "make soak" makes 10,000.
var soakCalls = flag.Int("soak", 1000, "calls of TestSoak")

// What may be added over all calls of a soak, as a line through the samples says.
// An instance has at least 1 MiB, and the death of one in ten calls would add that
// many if it leaked.
const (
	soakBytes      = 24 << 20
	soakGoroutines = 2
	soakFiles      = 1
)

// One call in twenty runs into its timeout and one in twenty traps, under every
// isolation; memory, goroutines and open files stay where they are.
func TestSoak(t *testing.T) {
	r := newRuntime(t, Options{MaxConcurrent: 4, ReplacementsPerSecond: 100_000})
	var rigs, impatient []*rig
	for _, i := range []plugins.Isolation{plugins.IsolationCall, plugins.IsolationRun, plugins.IsolationShared} {
		p := isolated(t, i)
		p.Warm = 1
		rigs = append(rigs, newRig(t, r, p))
		p = isolated(t, i)
		p.Effective.Timeout = 20 * time.Millisecond
		impatient = append(impatient, newRig(t, r, p))
	}
	one := func(n int) {
		g := rigs[n%len(rigs)]
		run := inRun(batch.RunID(fmt.Sprint("r", n/7%5)))
		switch {
		case n%20 == 3:
			bad(t, impatient[n/20%len(impatient)].call("spin", `{}`, run), "ran longer than its timeout")
		case n%20 == 11:
			bad(t, rigs[n/20%len(rigs)].call("trap", `{}`, run), "trapped")
		case n%2 == 0:
			good(t, g.call("echo", `{"w":"hello"}`, run), "hello")
		default:
			g.call("count_var", `{}`, run)
		}
	}
	const rounds = 50
	perRound := max(*soakCalls/rounds, 20)
	var samples [3][]float64
	for round := range rounds {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for n := next.Add(1); n <= int64(perRound); n = next.Add(1) {
					one(round*perRound + int(n))
				}
			})
		}
		wg.Wait()
		if round < rounds/4 { // to fill caches and pools
			continue
		}
		settle(r)
		debug.FreeOSMemory()
		for i, v := range []float64{float64(rss(t)), float64(runtime.NumGoroutine()), float64(openFiles())} {
			samples[i] = append(samples[i], v)
		}
	}
	for i, c := range []struct {
		what string
		most float64
	}{{"bytes of resident memory", soakBytes}, {"goroutines", soakGoroutines}, {"open files", soakFiles}} {
		grew := slope(samples[i]) * float64(len(samples[i]))
		t.Logf("%d calls: %+.1f %s, now %.0f", rounds*perRound, grew, c.what, samples[i][len(samples[i])-1])
		if grew > c.most {
			t.Errorf("%d calls added %.1f %s, at most %.0f are allowed: %.0f", rounds*perRound, grew, c.what, c.most, samples[i])
		}
	}
}

// settle waits until nothing is being made ahead.
func settle(r *Runtime) {
	for busy := true; busy; {
		busy = false
		r.mu.Lock()
		for _, l := range r.loaded {
			busy = busy || l.warming.Load()
		}
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

// slope is by how much a straight line through the values (least squares) rises from
// one to the next.
func slope(values []float64) float64 {
	n := float64(len(values))
	var x, y, xx, xy float64
	for i, v := range values {
		x += float64(i)
		y += v
		xx += float64(i) * float64(i)
		xy += float64(i) * v
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

func TestSlope(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{5, 5, 5}, 0}, {[]float64{1, 3, 5, 7}, 2}, {[]float64{0, 4, 0, 4, 0, 4, 0, 4}, 0.19}} {
		if got := slope(c.values); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("%v: %v, want about %v", c.values, got, c.want)
		}
	}
}

// 64 callers of 8 plugins, while the plugins are loaded anew all the time.
func TestHammer(t *testing.T) {
	r := newRuntime(t, Options{MaxConcurrent: 8, CallsPerInstance: 5, Idle: 50 * time.Millisecond, MaxRunInstances: 2, ReplacementsPerSecond: 10_000, TotalMemoryMiB: 300})
	isolations := []plugins.Isolation{plugins.IsolationCall, plugins.IsolationRun, plugins.IsolationShared}
	registry := &plugins.Registry{}
	reload := func() {
		var list []*plugins.Plugin
		for n := range 8 {
			p := isolated(t, isolations[n%len(isolations)])
			p.Manifest.ID = fmt.Sprint("p", n)
			p.Warm = n % 3
			list = append(list, p)
		}
		s, err := plugins.NewSnapshot(list)
		if err != nil {
			t.Error(err)
			return
		}
		registry.Swap(s)
	}
	reload()
	exec := r.Executor(registry.Load)
	stop := make(chan struct{})
	reloads := 0
	var reloader sync.WaitGroup
	reloader.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				reload()
				reloads++
			}
		}
	})
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(worker)))
			for n := range 6 {
				c := &batch.Call{
					Run: batch.RunID(fmt.Sprint("r", rnd.IntN(3))), Step: worker + 1, Index: n, ID: "c", Attempt: 1, Arguments: []byte(`{}`),
				}
				ctx, cancel := context.WithCancel(context.Background())
				tool, want := "", ""
				switch rnd.IntN(5) {
				case 0:
					tool, want = "trap", "trapped"
				case 1:
					tool = "count_static"
				case 2:
					tool, want = "spin", "timeout"
					c.Grant = &batch.Grant{Timeout: time.Duration(1+rnd.IntN(20)) * time.Millisecond}
				case 3:
					tool = "spin"
					time.AfterFunc(time.Duration(rnd.IntN(20))*time.Millisecond, cancel)
				default:
					tool, want = "echo", fmt.Sprintf("%d-%d", worker, rnd.IntN(1000))
					c.Arguments = []byte(`{"w":"` + want + `"}`)
				}
				c.Tool = batch.ToolID(fmt.Sprintf("p%d__%s", rnd.IntN(8), tool))
				out, err := exec.Invoke(ctx, c)
				cancel()
				var te *batch.ToolError
				switch {
				case err != nil && !errors.As(err, &te):
					t.Errorf("%s: %v", c.Tool, err)
				case err != nil && (tool != "spin" || !errors.Is(err, context.Canceled)):
					t.Errorf("%s: %v", c.Tool, err)
				case err == nil && !strings.Contains(out.Text(), want):
					t.Errorf("%s: got %q, want %q", c.Tool, out.Text(), want)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	reloader.Wait()
	if reloads == 0 {
		t.Error("nothing was loaded anew meanwhile")
	}
	// What is no longer in the catalog is let go.
	deadline := time.Now().Add(10 * time.Second)
	left := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.loaded) + len(r.programs)
	}
	for left() > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d plugins and programs are still there", left())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := r.used(); n != 0 {
		t.Errorf("%d bytes are taken by nobody", n)
	}
}
