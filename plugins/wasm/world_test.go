package wasm

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// sight is what a guest sees of the world: milliseconds since 1970, nanoseconds
// since some time, and 8 random bytes.
type sight struct {
	Now, Mono int64
	Noise     string
}

func look(t *testing.T, g *rig) sight {
	t.Helper()
	var s sight
	if out := g.call("world", `{}`); out.IsError || json.Unmarshal([]byte(out.Text()), &s) != nil {
		t.Fatalf("%s", out.Text())
	}
	return s
}

func worldRig(t *testing.T, clock plugins.Clock, random plugins.Random) *rig {
	p := guestPlugin(t)
	p.Clock, p.Random = clock, random
	p.Effective.Timeout = 300 * time.Millisecond
	return newRig(t, newRuntime(t, Options{}), p)
}

func TestRealClockAndRandomness(t *testing.T) {
	g := worldRig(t, "", plugins.Random{})
	seen := map[string]bool{}
	var last int64
	for range 3 {
		s := look(t, g)
		if d := time.Since(time.UnixMilli(s.Now)); d < -time.Second || d > time.Minute {
			t.Errorf("the guest's clock is off by %v", d)
		}
		if s.Mono <= last {
			t.Errorf("the monotonic clock went from %d to %d", last, s.Mono)
		}
		last = s.Mono
		seen[s.Noise] = true
	}
	if len(seen) != 3 {
		t.Errorf("random bytes repeat: %v", seen)
	}
}

// Within a step a coarse clock stands still, and in a few looks apart it shows
// nothing between two steps.
func TestCoarseClock(t *testing.T) {
	g := worldRig(t, plugins.ClockCoarse, plugins.Random{})
	var first, s sight
	for i := range 40 {
		s = look(t, g)
		if s.Now%coarseStep.Milliseconds() != 0 || s.Mono%int64(coarseStep) != 0 {
			t.Fatalf("between two steps: %+v", s)
		}
		if d := time.Since(time.UnixMilli(s.Now)); d < 0 || d > time.Minute {
			t.Errorf("the clock is off by %v", d)
		}
		if i == 0 {
			first = s
		}
		time.Sleep(5 * time.Millisecond)
	}
	if s.Now <= first.Now || s.Mono <= first.Mono {
		t.Errorf("the clock stood still: %+v, %+v", first, s)
	}
	bad(t, g.call("sleep_long", `{}`), "timeout of 300ms")
}

func TestFixedClockAndSeed(t *testing.T) {
	g := worldRig(t, plugins.ClockFixed, plugins.Random{Seeded: true, Seed: 7})
	want := sight{Now: fixedDay.UnixMilli(), Noise: "3101936182105154424"}
	for range 3 {
		if s := look(t, g); s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	// An hour of sleep takes no time.
	good(t, g.call("sleep_long", `{}`), `"awake"`)
	other := worldRig(t, plugins.ClockFixed, plugins.Random{Seeded: true, Seed: 8})
	if s := look(t, other); s.Noise == want.Noise {
		t.Error("another seed gives the same bytes")
	}
	c := &fixedClock{}
	c.look()
	c.sleep(int64(time.Hour))
	c.sleep(-5)
	if now := c.look(); now != int64(time.Hour+fixedStep) {
		t.Errorf("after a look and an hour of sleep the clock shows %v", time.Duration(now))
	}
}
