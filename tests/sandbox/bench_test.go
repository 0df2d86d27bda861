package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/standard"
)

// bench is a host in this process, with one tool twice: beside the model, and in a
// sandbox.
type bench struct {
	b *testing.B
	*world
	h *host.Host
}

func newBench(b *testing.B, tier, more string) *bench {
	b.Helper()
	hand := fmt.Sprintf("hand_bin = %q\n%s", filepath.Join(filepath.Dir(binary), "awaken-hand"), more)
	w := newWorld(b, tier, hand, "guests/slow", "guests/exec")
	// The same module once more, as a tool of a sandbox.
	source, err := os.ReadFile(filepath.Join(root, "bin", "guests", "slow", "plugin.toml"))
	if err != nil {
		b.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(w.dir, "plugins", "boxed"), os.DirFS(filepath.Join(root, "bin", "guests", "slow"))); err != nil {
		b.Fatal(err)
	}
	boxed := strings.Replace(string(source), `id = "slow"`, `id = "boxed"`, 1)
	boxed = strings.ReplaceAll(boxed, "[[tool]]\n", "[[tool]]\ntarget = \"sandbox\"\n")
	w.write("plugins/boxed/plugin.toml", boxed)
	w.must("", "plugin", "sign", "plugins/boxed", "--key", "keys/test.key")
	config, err := os.ReadFile(filepath.Join(w.dir, "host.toml"))
	if err != nil {
		b.Fatal(err)
	}
	w.write("host.toml", strings.Replace(string(config), "data_dir = \"data\"", fmt.Sprintf("data_dir = %q", filepath.Join(w.dir, "data")), 1)+"[[plugin]]\npath = \"plugins/boxed\"\n")
	h, err := standard.Open(b.Context(), filepath.Join(w.dir, "host.toml"), standard.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = h.Close() })
	if err := h.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	return &bench{b: b, world: w, h: h}
}

// call makes one call in a run, and returns how long it took, whole.
func (x *bench) call(run, tool, arguments string) time.Duration {
	x.b.Helper()
	msg, err := standard.ParseMessage([]byte(fmt.Sprintf(`{"calls":[{"id":"c","tool":%q,"arguments":%s}]}`, tool, arguments)))
	if err != nil {
		x.b.Fatal(err)
	}
	begun := time.Now()
	r, err := x.h.Run(context.Background(), standard.Request{Run: batch.RunID(run), Message: msg})
	took := time.Since(begun)
	if err != nil || len(r.Results) != 1 || r.Results[0].IsError || r.Results[0].Executed == nil {
		x.b.Fatalf("%s: %+v, %v", tool, r, err)
	}
	return took
}

// handMiB is what the Hand of a run takes of memory, resident.
func (x *bench) handMiB(run string) float64 {
	x.b.Helper()
	mark := newMark()
	script, err := json.Marshal(map[string]any{"argv": []string{"sh", "-c", "sleep 1; : " + mark}})
	if err != nil {
		x.b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.call(run, "exec__run", string(script))
	}()
	eventually(x.b, "a command runs", func() bool { return len(marked(mark)) > 0 })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", handOf(x.b, marked(mark)[0])))
	<-done
	if err != nil {
		x.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		x.b.Fatal(err)
	}
	return float64(kib) / 1024
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Microseconds()) / 1000
}

// BenchmarkWarmCall makes the same call beside the model and in a sandbox that runs,
// in turns, through the whole host with a synced store.
func BenchmarkWarmCall(b *testing.B) {
	for _, tier := range tiers {
		b.Run(tier, func(b *testing.B) {
			x := newBench(b, tier, "")
			x.call("warm", "slow__echo", "{}")
			cold := x.call("warm", "boxed__echo", "{}")
			var brain, sandbox []time.Duration
			for b.Loop() {
				brain = append(brain, x.call("warm", "slow__echo", "{}"))
				sandbox = append(sandbox, x.call("warm", "boxed__echo", "{}"))
			}
			there, here := median(sandbox), median(brain)
			b.ReportMetric(0, "ns/op") // a pair says nothing
			b.ReportMetric(here, "brain-ms")
			b.ReportMetric(there, "sandbox-ms")
			b.ReportMetric(there-here, "more-ms")
			b.ReportMetric(float64(cold.Milliseconds()), "first-ms")
			b.ReportMetric(x.handMiB("warm"), "hand-MiB")
		})
	}
}

// BenchmarkFirstCall makes the first call of a run: with a sandbox that was started
// ahead, and with one that has to be started.
func BenchmarkFirstCall(b *testing.B) {
	for _, tier := range []string{"namespace", "docker"} {
		b.Run(tier, func(b *testing.B) {
			ahead, cold := newBench(b, tier, "warm = 1"), newBench(b, tier, "")
			ahead.call("warm", "boxed__echo", "{}")
			var pool, started, second []time.Duration
			n := 0
			for b.Loop() {
				n++
				time.Sleep(2 * time.Second) // until there is one ahead again
				run := fmt.Sprintf("run%d", n)
				pool = append(pool, ahead.call(run, "boxed__echo", "{}"))
				second = append(second, ahead.call(run, "boxed__echo", "{}"))
				started = append(started, cold.call(run, "boxed__echo", "{}"))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(pool), "ahead-ms")
			b.ReportMetric(median(second), "second-ms")
			b.ReportMetric(median(started), "started-ms")
		})
	}
}

// BenchmarkFirstCallOfGo makes the first call of a run to a Go plugin of 4 MB: where
// its code was made ahead, and where the Hand compiles it.
func BenchmarkFirstCallOfGo(b *testing.B) {
	for _, tier := range []string{"namespace", "docker"} {
		b.Run(tier, func(b *testing.B) {
			hand := fmt.Sprintf("hand_bin = %q\n", filepath.Join(filepath.Dir(binary), "awaken-hand"))
			w := newWorld(b, tier, hand, "plugins/pattern", "guests/exec")
			config, err := os.ReadFile(filepath.Join(w.dir, "host.toml"))
			if err != nil {
				b.Fatal(err)
			}
			w.write("host.toml", strings.Replace(string(config), "data_dir = \"data\"", fmt.Sprintf("data_dir = %q", filepath.Join(w.dir, "data")), 1))
			h, err := standard.Open(b.Context(), filepath.Join(w.dir, "host.toml"), standard.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = h.Close() })
			if err := h.Start(context.Background()); err != nil {
				b.Fatal(err)
			}
			x := &bench{b: b, world: w, h: h}
			const arguments = `{"pattern":"a+","text":"caat"}`
			x.call("made", "pattern__find", arguments)
			made, err := filepath.Glob(filepath.Join(w.dir, "data", "cache", "hand", "*", "made"))
			if err != nil || len(made) != 1 {
				b.Fatalf("%v, %v", made, err)
			}
			var ahead, alone, second []time.Duration
			n := 0
			for b.Loop() {
				n++
				ahead = append(ahead, x.call(fmt.Sprintf("ahead%d", n), "pattern__find", arguments))
				second = append(second, x.call(fmt.Sprintf("ahead%d", n), "pattern__find", arguments))
				aside := made[0] + "-aside"
				if err := os.Rename(made[0], aside); err != nil {
					b.Fatal(err)
				}
				alone = append(alone, x.call(fmt.Sprintf("alone%d", n), "pattern__find", arguments))
				if err := os.Rename(aside, made[0]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ahead), "ahead-ms")
			b.ReportMetric(median(second), "second-ms")
			b.ReportMetric(median(alone), "compiles-ms")
			b.ReportMetric(x.handMiB("ahead1"), "hand-MiB")
			b.ReportMetric(x.handMiB("alone1"), "hand-compiled-MiB")
		})
	}
}
