package wasm

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// recursion calls itself twice, to a depth that nobody sees the end of, without a
// loop.
func recursion() *bomb {
	b := &bomb{types: [][2]int{{0, 0}}, globals: 1}
	b.op(opGlobalGet, 0, 0x41, 63, 0x4e, opIf, 0x40, opReturn, opEnd) // deep enough: return
	b.op(opGlobalGet, 0, 0x41, 1, 0x6a, opGlobalSet, 0)               // one deeper
	b.op(opCall, 0, opCall, 0)                                        // twice
	return b.op(opGlobalGet, 0, 0x41, 1, 0x6b, opGlobalSet, 0)        // and back
}

// fills overwrites half a memory of 32 MiB again and again, in a straight line.
func fills(n int) *bomb {
	b := (&bomb{}).op(0x41).op(appendSigned(nil, 255)...).op(0x40, 0, 0x1a) // memory.grow
	return b.times(n, func(int) {
		b.op(0x41, 0, 0x41, 7, 0x41).op(appendSigned(nil, 1<<24)...).op(opMisc, 11, 0)
	})
}

func copies(n int) *bomb {
	b := (&bomb{}).op(0x41).op(appendSigned(nil, 511)...).op(0x40, 0, 0x1a)
	return b.times(n, func(int) {
		b.op(0x41, 0, 0x41).op(appendSigned(nil, 1<<24)...).op(0x41).op(appendSigned(nil, 1<<24)...).op(opMisc, 10, 0, 0)
	})
}

// noise asks the host for random bytes again and again, in a straight line.
func noise(n int) []byte {
	b := &bomb{}
	b.times(n, func(int) { b.op(0x41, 0, 0x41).op(appendSigned(nil, 1<<22)...).op(opCall, 0, 0x1a) })
	return assemble(
		rawSection{typeSection, []byte{2, 0x60, 0, 0, 0x60, 2, 0x7f, 0x7f, 1, 0x7f}},
		rawSection{2, []byte("\x01\x16wasi_snapshot_preview1\x0arandom_get\x00\x01")},
		rawSection{functionSection, []byte{1, 0}},
		rawSection{5, []byte{1, 0, 128, 1}},
		rawSection{exportSection, []byte("\x01\x06_start\x00\x01")},
		rawSection{codeSection, append([]byte{1}, b.body()...)})
}

// roots calls, in a straight line and over and over, a small function that takes as
// long as its size allows.
func roots(n int) []byte {
	calls := &bomb{}
	calls.times(n, func(int) { calls.op(opCall, 1) })
	root := (&bomb{}).op(0x41, 0, 0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f) // 1.0
	root.times(490, func(int) { root.op(0x9f) }).op(0x39, 3, 0)       // f64.sqrt, f64.store
	again := (&bomb{}).op(opLoop, 0x40, opCall, 0, opBr, 0, opEnd)
	return assemble(
		rawSection{typeSection, []byte{1, 0x60, 0, 0}},
		rawSection{functionSection, []byte{3, 0, 0, 0}},
		rawSection{5, []byte{1, 0, 1}},
		rawSection{exportSection, []byte("\x01\x06_start\x00\x02")},
		rawSection{codeSection, slices.Concat([]byte{3}, calls.body(), root.body(), again.body())})
}

// Code that is never at the head of a loop ends with its timeout too, and does not
// keep the process from collecting garbage.
func TestGuestsWithoutLoopsAreStopped(t *testing.T) {
	r := newRuntime(t, Options{})
	for name, module := range map[string][]byte{
		"recursion": recursion().module(1), "fills": fills(900).module(1), "copies": copies(5_000).module(1), "host functions": noise(5_000), "small functions": roots(400_000),
	} {
		p := newPlugin(module, plugins.ABIWASI, tool("run"))
		if err := r.Load(t.Context(), p); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.Effective.Timeout = 100 * time.Millisecond
		g := newRig(t, r, p)
		collected := make(chan time.Duration)
		time.AfterFunc(50*time.Millisecond, func() {
			start := time.Now()
			runtime.GC()
			collected <- time.Since(start)
		})
		start := time.Now()
		bad(t, g.call("run", `{}`), "ran longer than its timeout of 100ms")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s was stopped after %v", name, took)
		}
		if took := <-collected; took > 3*time.Second {
			t.Errorf("%s kept the collector waiting for %v", name, took)
		}
	}
}

// callsOf has function 0 call itself n times in a straight line.
func callsOf(b *bomb, n int) *bomb { return b.times(n, func(int) { b.op(opCall, 0) }) }

// A small function that calls nothing does not count itself, so whoever calls it
// does: no way through a function has many calls and no checkpoint, whatever stands
// in branches that are not taken.
func TestCallsOfSmallFunctionsAreCounted(t *testing.T) {
	long := callsOf(&bomb{}, 3*callsBetween)
	hidden := callsOf(&bomb{}, callsBetween-1).op(0x41, 0, opIf, 0x40) // the next checkpoint would be in here
	hidden = callsOf(callsOf(hidden, 2).op(opEnd), 2)
	hiddenElse := callsOf(callsOf(&bomb{}, callsBetween-1).op(0x41, 0, opIf, 0x40), 2)
	hiddenElse = callsOf(hiddenElse.op(opElse), 2).op(opEnd)
	skipped := callsOf((&bomb{}).op(opBlock, 0x40), callsBetween).op(0x41, 1, opBrIf, 0)
	skipped = callsOf(callsOf(skipped, 1).op(opEnd), 1)
	looped := callsOf(callsOf(&bomb{}, callsBetween).op(opLoop, 0x40), callsBetween).op(opEnd)
	n := 2 * callsBetween // bytes of so many calls
	for _, c := range []struct {
		name string
		bomb *bomb
		want []checkpoint
	}{
		{"few", callsOf(&bomb{}, 3), []checkpoint{{1, 1}}},
		{"some", callsOf(&bomb{}, callsBetween), []checkpoint{{1, 64}}},
		{"many", long, []checkpoint{{1, 64}, {1 + n, callsBetween}, {1 + 2*n, callsBetween}}},
		{"behind an if", hidden, []checkpoint{{1, 64}, {1 + n + 4, callsBetween}, {1 + n + 9, callsBetween}}},
		{"in an else", hiddenElse, []checkpoint{{1, 64}, {1 + n + 4, callsBetween}, {1 + n + 9, callsBetween}}},
		{"behind a branch", skipped, []checkpoint{{1, 64}, {1 + 2 + n + 4, callsBetween}, {1 + 2 + n + 7, callsBetween}}},
		{"in a loop", looped, []checkpoint{{1, 64}}},
	} {
		m, err := parseModule(c.bomb.module(1))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !slices.Equal(m.checks[0], c.want) {
			t.Errorf("%s: %v, want %v", c.name, m.checks[0], c.want)
		}
	}
}

// What counts is out of reach of the code that is counted.
func TestTheCounterIsHidden(t *testing.T) {
	for name, code := range map[string][]byte{"set": {0x41, 0, opGlobalSet, 1}, "get": {opGlobalGet, 1, 0x1a}} {
		b := &bomb{globals: 1}
		b.op(code...)
		if _, err := parseModule(b.module(1)); err == nil || !strings.Contains(err.Error(), "global 1, which does not exist") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckpoints(t *testing.T) {
	host := &bomb{}
	for _, c := range []struct {
		name string
		bomb *bomb
		want []checkpoint
	}{
		{"a small function", &bomb{}, nil},
		{"a large function", straightLine(100), []checkpoint{{3, 16}}},
		{"a call", host.op(opCall, 0), []checkpoint{{1, 1}}},
		{"a fill", (&bomb{}).op(0x41, 0, 0x41, 0, 0x41, 0, opMisc, 11, 0), []checkpoint{{1, 1}, {7, weightBulk}}},
		{"a copy in a block", (&bomb{}).op(opBlock, 0x40, 0x41, 0, 0x41, 0, 0x41, 0, opMisc, 10, 0, 0, opEnd), []checkpoint{{1, 1}, {9, weightBulk}}},
	} {
		m, err := parseModule(c.bomb.module(2))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, got := range m.checks {
			if len(got) != len(c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				continue
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%s: %v, want %v", c.name, got, c.want)
				}
			}
		}
	}
}

// With its checkpoints a module is valid when it was without them, and when it was
// not it stays so.
func FuzzInterruptible(f *testing.F) {
	for _, b := range []*bomb{recursion(), fills(2), copies(2), sequentialLoops(2, 3), brTables(2, 3), callsWithGlobals(2, 0), straightLine(200), operands(2, 2)} {
		f.Add(b.code, byte(b.locals), byte(b.globals))
	}
	f.Add([]byte{opUnreachable, opMisc, 11, 0}, byte(0), byte(0))
	f.Add([]byte{opGlobalGet, 0, 0x1a}, byte(0), byte(0))
	f.Fuzz(func(t *testing.T, code []byte, locals, globals byte) {
		b := (&bomb{locals: int(locals), globals: int(globals), code: code}).module(1)
		m, err := parseModule(b)
		if err != nil {
			return
		}
		changed, err := m.interruptible(b)
		if err != nil {
			t.Fatal(err)
		}
		if before, after := validates(b), validates(changed); before != after {
			t.Fatalf("valid before: %t, after: %t\n%x\n%x", before, after, b, changed)
		}
		if len(m.checks[0]) == 0 && !bytes.Equal(b, changed) {
			t.Fatal("changed without a reason")
		}
	})
}
