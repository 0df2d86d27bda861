package wasm

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/awaken-agents/awaken-host/plugins"
)

// distinct is the module with a custom section that makes it another one.
func distinct(module []byte, n int) []byte {
	content := "\x01n" + fmt.Sprintf("%04d", n) // a name of one byte, and what is in it
	return append(append(append([]byte{}, module...), customSection, byte(len(content))), content...)
}

// plainLoad compiles a module as wazero's own documentation does, with its cache.
func plainLoad(tb testing.TB, dir string, module []byte) func() {
	ctx := context.Background()
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(cache))
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	if _, err := rt.CompileModule(ctx, module); err != nil {
		tb.Fatal(err)
	}
	return func() {
		_ = rt.Close(ctx)
		_ = cache.Close(ctx)
	}
}

// BenchmarkLoad reports what loading plugins from a warm cache takes, and that over
// what plain wazero takes for the same modules from its own warm cache, as many at
// once: one Go plugin, and 50 of which 5 are in Go. Both start with nothing in
// memory each time.
func BenchmarkLoad(b *testing.B) {
	var mixed [][]byte
	for n := range 50 {
		name := "guest"
		if n%10 == 0 {
			name = "goguest"
		}
		mixed = append(mixed, distinct(guest(b, name), n))
	}
	for _, c := range []struct {
		name    string
		modules [][]byte
	}{{"Go", [][]byte{guest(b, "goguest")}}, {"50", mixed}} {
		b.Run(c.name, func(b *testing.B) {
			ourDir, plainDir := b.TempDir()+"/cache", b.TempDir()
			atOnce := func(load func(module []byte)) time.Duration {
				runtime.GC()
				start := time.Now()
				var wg sync.WaitGroup
				turn := make(chan struct{}, runtime.GOMAXPROCS(0))
				for _, m := range c.modules {
					wg.Go(func() {
						turn <- struct{}{}
						defer func() { <-turn }()
						load(m)
					})
				}
				wg.Wait()
				return time.Since(start)
			}
			ours := func() time.Duration {
				r, err := New(b.Context(), Options{CacheDir: ourDir})
				if err != nil {
					b.Fatal(err)
				}
				took := atOnce(func(m []byte) {
					if err := r.Load(b.Context(), newPlugin(m, plugins.ABIExtism, tool("echo"))); err != nil {
						b.Error(err)
					}
				})
				if err := r.Close(context.Background()); err != nil {
					b.Error(err)
				}
				return took
			}
			plain := func() time.Duration {
				var mu sync.Mutex
				var closers []func()
				took := atOnce(func(m []byte) {
					close := plainLoad(b, plainDir, m)
					mu.Lock()
					defer mu.Unlock()
					closers = append(closers, close)
				})
				for _, close := range closers {
					close()
				}
				return took
			}
			ours() // fills the caches
			plain()
			if b.Failed() {
				b.FailNow()
			}
			var o, p []time.Duration
			for b.Loop() {
				o, p = append(o, ours()), append(p, plain())
			}
			b.ReportMetric(float64(median(o))/float64(median(p)), "ratio")
			b.ReportMetric(float64(median(o))/1e6, "p50-ms")
			b.ReportMetric(float64(median(p))/1e6, "plain-p50-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
