package wasm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
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

func TestNothingLeaks(t *testing.T) {
	r := newRuntime(t, Options{})
	p := guestPlugin(t)
	p.Effective.Timeout = 30 * time.Millisecond
	g := newRig(t, r, p)
	s := newRig(t, r, isolated(t, plugins.IsolationShared))
	round := func() {
		for range 12 {
			for range 8 {
				g.call("echo", `{"a":1}`)
				s.call("count_static", `{}`)
			}
			g.call("trap", `{}`)
			s.call("trap", `{}`)
			g.call("exit_three", `{}`)
			g.call("grow_trap", `{}`)
		}
		g.call("spin", `{}`)
		g.call("sleep_long", `{}`)
	}
	measure := func() (goroutines int, resident int64, files int) {
		time.Sleep(20 * time.Millisecond)
		debug.FreeOSMemory()
		return runtime.NumGoroutine(), rss(t), openFiles()
	}
	round()
	round()
	g0, r0, f0 := measure()
	for range 3 {
		round()
	}
	g1, r1, f1 := measure()
	if g1 > g0+2 {
		t.Errorf("goroutines went from %d to %d", g0, g1)
	}
	if f1 > f0 {
		t.Errorf("open files went from %d to %d", f0, f1)
	}
	// An instance has at least 1 MiB: 700 calls that leaked one each would show.
	if r1 > r0+64<<20 {
		t.Errorf("resident memory went from %d to %d MiB", r0>>20, r1>>20)
	}
}

func TestHammer(t *testing.T) {
	r := newRuntime(t, Options{MaxConcurrent: 8, CallsPerInstance: 5, Idle: 50 * time.Millisecond, MaxRunInstances: 2})
	rigs := []*rig{newRig(t, r, guestPlugin(t))}
	for _, i := range []plugins.Isolation{plugins.IsolationCall, plugins.IsolationRun, plugins.IsolationShared} {
		rigs = append(rigs, newRig(t, r, isolated(t, i)))
	}
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 6 {
				g := rigs[rnd.IntN(len(rigs))]
				var c *batch.Call
				want := ""
				switch rnd.IntN(5) {
				case 0:
					c = g.newCall("trap", `{}`)
					want = "trapped"
				case 1:
					c = g.newCall("count_static", `{}`)
				case 2:
					c = g.newCall("spin", `{}`)
					c.Grant = &batch.Grant{Timeout: time.Duration(1+rnd.IntN(20)) * time.Millisecond}
					want = "timeout"
				case 3:
					c = g.newCall("spin", `{}`)
				default:
					want = fmt.Sprintf("%d-%d", worker, rnd.IntN(1000))
					id, args := "words", `{"w":"`+want+`"}`
					if g != rigs[0] {
						id = "echo"
					}
					c = g.newCall(id, args)
				}
				c.Run = batch.RunID(fmt.Sprint("r", rnd.IntN(3)))
				ctx, cancel := context.WithCancel(context.Background())
				if c.Tool == "t__spin" && c.Grant == nil {
					time.AfterFunc(time.Duration(rnd.IntN(20))*time.Millisecond, cancel)
				}
				out, err := g.exec.Invoke(ctx, c)
				cancel()
				var te *batch.ToolError
				switch {
				case err != nil && !errors.As(err, &te):
					t.Errorf("%s: %v", c.Tool, err)
				case err != nil && (c.Tool != "t__spin" || !errors.Is(err, context.Canceled)):
					t.Errorf("%s: %v", c.Tool, err)
				case err == nil && !strings.Contains(out.Text(), want):
					t.Errorf("%s: got %q, want %q", c.Tool, out.Text(), want)
				}
			}
		})
	}
	wg.Wait()
}
