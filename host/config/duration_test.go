package config

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	good := map[string]time.Duration{
		"100ms": 100 * time.Millisecond, "60s": time.Minute, "30d": 30 * day, "1d12h": 36 * time.Hour, "0d": 0, "0s": 0, "-5s": -5 * time.Second,
	}
	for s, want := range good {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "5", "d", "1.5d", "-1d", "+1d", "1d-5h", "1d+5h", "1d5", "1dd", "12h1d", "100000d", "65535d2562047h", "1 d"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("%q is accepted as %v", s, got)
		}
	}
	shown := map[time.Duration]string{0: "0s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", day: "1d", 36 * time.Hour: "36h", 100 * time.Millisecond: "100ms"}
	for d, want := range shown {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
}
