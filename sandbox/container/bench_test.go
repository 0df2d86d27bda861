package container

import (
	"slices"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

// BenchmarkColdStart measures, in turns, a Start until the Hand is ready, the bare
// "run --rm IMAGE true", and the same with all the options of a Start.
func BenchmarkColdStart(b *testing.B) {
	for _, engine := range []string{sandbox.TierDocker, sandbox.TierPodman} {
		b.Run(engine, func(b *testing.B) {
			var o Options
			var least []string
			if engine == sandbox.TierDocker {
				d := sandboxtest.NeedDocker(b)
				o = Options{Engine: engine, Command: []string{d.Binary}, Args: []string{"--host", d.Host}, Image: d.Image}
			} else {
				p := sandboxtest.NeedPodman(b)
				o = Options{Engine: engine, Command: []string{p.Binary}, Args: slices.Concat(p.Args, p.RunArgs), Image: p.Image}
				least = p.RunArgs
			}
			tier := newTier(b, o)
			f, err := tier.look(b.Context(), true)
			if err != nil {
				b.Fatal(err)
			}
			timed := func(args []string) time.Duration {
				begin := time.Now()
				if out, err := tier.client(b.Context(), args...).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				return time.Since(begin)
			}
			var starts, bares, sames []time.Duration
			b.ResetTimer()
			for b.Loop() {
				bares = append(bares, timed(slices.Concat([]string{"run", "--rm"}, least, []string{o.Image, "true"})))

				spec := newSpec(b)
				args, err := tier.run(f, spec, "bench")
				if err != nil {
					b.Fatal(err)
				}
				args = append(args[:len(args)-5], "--rm", "--entrypoint", "true", o.Image)
				sames = append(sames, timed(args))

				begin := time.Now()
				i, err := tier.Start(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				starts = append(starts, time.Since(begin))
				stop(b, i)
			}
			start, bare, same := median(starts), median(bares), median(sames)
			b.ReportMetric(0, "ns/op") // a round of all three says nothing
			b.ReportMetric(start.Seconds()*1e3, "start-ms")
			b.ReportMetric(bare.Seconds()*1e3, "bare-ms")
			b.ReportMetric(same.Seconds()*1e3, "same-options-ms")
			b.ReportMetric(start.Seconds()/bare.Seconds(), "start/bare")
			b.ReportMetric(start.Seconds()/same.Seconds(), "start/same-options")
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
