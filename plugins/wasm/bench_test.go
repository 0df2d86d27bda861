package wasm

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// plainExtism is the plugin as Extism's own SDK runs it: compiled once, a timeout,
// WASI, and either an instance for each call or one for all.
type plainExtism struct {
	compiled *extism.CompiledPlugin
	reused   *extism.Plugin
}

func newPlainExtism(tb testing.TB, module []byte, fresh bool) *plainExtism {
	tb.Helper()
	ctx := context.Background()
	c, err := extism.NewCompiledPlugin(ctx, extism.Manifest{
		Wasm: []extism.Wasm{extism.WasmData{Data: module}}, Timeout: 20_000, Memory: &extism.ManifestMemory{MaxPages: 512, MaxVarBytes: 1 << 20},
	}, extism.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfig()}, hostFunctions())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close(ctx) })
	p := &plainExtism{compiled: c}
	if !fresh {
		if p.reused, err = c.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: wazero.NewModuleConfig().WithSysWalltime()}); err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

func (p *plainExtism) call(tb testing.TB, input []byte) {
	ctx := context.Background()
	inst := p.reused
	if inst == nil {
		var err error
		if inst, err = p.compiled.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: wazero.NewModuleConfig().WithSysWalltime()}); err != nil {
			tb.Fatal(err)
		}
		defer inst.Close(ctx)
	}
	if status, _, err := inst.CallWithContext(ctx, "echo", input); status != 0 || err != nil {
		tb.Fatal(status, err)
	}
}

type benchCase struct {
	name  string
	guest string
	iso   plugins.Isolation
}

var benchCases = []benchCase{
	{"C/call", "guest", plugins.IsolationCall},
	{"C/shared", "guest", plugins.IsolationShared},
	{"Go/call", "goguest", plugins.IsolationCall},
	{"Go/shared", "goguest", plugins.IsolationShared},
}

// oneKiB is a JSON argument of about 1 KiB.
var oneKiB = []byte(`{"text":"` + strings.Repeat("abcdefg ", 126) + `"}`)

func (c benchCase) ours(tb testing.TB) func() {
	g := newRig(tb, newRuntime(tb, Options{}), newPlugin(guest(tb, c.guest), plugins.ABIExtism, tool("echo", isolation(c.iso))))
	call := &batch.Call{Run: "bench", Step: 1, ID: "c", Tool: "t__echo", Arguments: oneKiB, Attempt: 1}
	return func() {
		if out, err := g.exec.Invoke(context.Background(), call); err != nil || out.IsError {
			tb.Fatal(out, err)
		}
	}
}

func (c benchCase) plain(tb testing.TB) func() {
	p := newPlainExtism(tb, guest(tb, c.guest), c.iso == plugins.IsolationCall)
	return func() { p.call(tb, oneKiB) }
}

func bench(b *testing.B, setup func(benchCase, testing.TB) func()) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			call := setup(c, b)
			call()
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

func BenchmarkCall(b *testing.B)        { bench(b, benchCase.ours) }
func BenchmarkPlainExtism(b *testing.B) { bench(b, benchCase.plain) }

// BenchmarkRatio takes turns between both, so that a busy machine slows both
// alike, and reports the median time of a call through the Runtime over that of a
// call through plain Extism.
func BenchmarkRatio(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			ours, plain := c.ours(b), c.plain(b)
			ratio(b, ours, plain)
		})
	}
}

// ratio takes turns between two and reports the median time of the one over that of
// the other.
func ratio(b *testing.B, ours, plain func()) {
	var o, p []time.Duration
	turn := func(call func()) time.Duration {
		start := time.Now()
		for range 8 {
			call()
		}
		return time.Since(start)
	}
	turn(ours)
	turn(plain)
	for b.Loop() {
		o = append(o, turn(ours))
		p = append(p, turn(plain))
	}
	b.ReportMetric(float64(median(o))/float64(median(p)), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWarm reports the median time of a call with isolation "call" whose
// instance was made ahead over that of one whose was not. The making is not timed:
// it pays where calls leave time for it.
func BenchmarkWarm(b *testing.B) {
	for _, c := range []benchCase{benchCases[0], benchCases[2]} {
		b.Run(c.name, func(b *testing.B) {
			cold := c.ours(b)
			p := newPlugin(guest(b, c.guest), plugins.ABIExtism, tool("echo"))
			p.Warm = 1
			g := newRig(b, newRuntime(b, Options{}), p)
			call := &batch.Call{Run: "bench", Step: 1, ID: "c", Tool: "t__echo", Arguments: oneKiB, Attempt: 1}
			if err := g.r.Load(b.Context(), p); err != nil {
				b.Fatal(err)
			}
			var w, o []time.Duration
			for b.Loop() {
				for g.warm() == 0 {
					time.Sleep(time.Millisecond)
				}
				start := time.Now()
				if out, err := g.exec.Invoke(b.Context(), call); err != nil || out.IsError {
					b.Fatal(out, err)
				}
				w = append(w, time.Since(start))
				start = time.Now()
				cold()
				o = append(o, time.Since(start))
			}
			b.ReportMetric(float64(median(w))/float64(median(o)), "ratio")
			b.ReportMetric(float64(median(w)), "p50-ns")
			b.ReportMetric(float64(median(o)), "cold-p50-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
