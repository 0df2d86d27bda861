package plugins

import (
	"strings"
	"testing"
)

func TestParseRandom(t *testing.T) {
	for in, want := range map[string]string{
		"": "real", "real": "real", "seed:0": "seed:0", "seed:18446744073709551615": "seed:18446744073709551615", "seed:007": "seed:7",
	} {
		r, err := ParseRandom(in)
		if err != nil || r.String() != want {
			t.Errorf("%q: %v, %v", in, r, err)
		}
	}
	for _, in := range []string{"Real", "seed", "seed:", "seed:-1", "seed:1.5", "seed:18446744073709551616", "seed: 1", "1"} {
		if r, err := ParseRandom(in); err == nil || !strings.Contains(err.Error(), "seed:") {
			t.Errorf("%q: %v, %v", in, r, err)
		}
	}
}

// A plugin with another clock or other randomness is not the one that was pinned,
// and one with the real ones is what it was before there were others.
func TestFingerprintCoversTheWorld(t *testing.T) {
	print := func(p Plugin) string {
		s, err := NewSnapshot([]*Plugin{&p})
		if err != nil {
			t.Fatal(err)
		}
		return s.Fingerprint()
	}
	base := Plugin{Manifest: &Manifest{ID: "t", Tools: []ToolSpec{{ID: "a"}}}}
	seen := map[string]string{print(base): "base"}
	for name, edit := range map[string]func(*Plugin){
		"coarse": func(p *Plugin) { p.Clock = ClockCoarse }, "fixed": func(p *Plugin) { p.Clock = ClockFixed },
		"seed 0": func(p *Plugin) { p.Random = Random{Seeded: true} }, "seed 1": func(p *Plugin) { p.Random = Random{true, 1} },
	} {
		p := base
		edit(&p)
		f := print(p)
		if other, taken := seen[f]; taken {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[f] = name
	}
	real := base
	real.Clock = ClockReal
	if seen[print(real)] != "base" {
		t.Error(`clock = "real" changes the fingerprint`)
	}
}
