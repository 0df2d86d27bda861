package process

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Any program can call itself anything: what reads as a mark is exactly what Mark
// writes, so that two marks never name one sandbox.
func FuzzParseMark(f *testing.F) {
	f.Add(Mark("namespace", &sandbox.Labels{Host: "h", Owner: "o:/%", Environment: "e", Session: "s s"}))
	f.Add("awaken-sandbox:namespace:h:o:e:%73")
	f.Add("awaken-sandbox:::::")
	f.Add("awaken-sandbox:a:b:c:d:%zz")
	f.Fuzz(func(t *testing.T, mark string) {
		tier, l, ok := parseMark(mark)
		if ok && Mark(tier, &l) != mark {
			t.Errorf("%q reads as %s %+v, which is %q", mark, tier, l, Mark(tier, &l))
		}
		if !ok && (tier != "" || l != sandbox.Labels{}) && Mark(tier, &l) == mark {
			t.Errorf("%q is refused", mark)
		}
	})
}

// A name that looks like the rest of the line changes nothing.
func FuzzParseStat(f *testing.F) {
	const rest = " S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 10"
	f.Add("awaken-hand")
	f.Add(") Z 1 1 1")
	f.Add("a b) (c\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, name string) {
		s, err := parseStat(12, []byte("12 ("+name+")"+rest))
		if want := (Stat{PID: 12, Parent: 7, Start: 99}); err != nil || s != want {
			t.Errorf("name %q: got %+v, %v, want %+v", name, s, err, want)
		}
		_, _ = parseStat(12, []byte(name)) // must not panic
	})
}
