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
	slices.Sort(o)
	slices.Sort(p)
	b.ReportMetric(float64(o[len(o)/2])/float64(p[len(p)/2]), "ratio")
	b.ReportMetric(0, "ns/op")
}
