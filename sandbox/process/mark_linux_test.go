package process

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestMarkIsReadAsItWasWritten(t *testing.T) {
	l := sandbox.Labels{Host: "h-1", Owner: "o", Environment: "e", Session: "a:b/c%\n ü"}
	tier, got, ok := parseMark(Mark("local", &l))
	if !ok || tier != "local" || got != l {
		t.Errorf("read %q, %+v, %v", tier, got, ok)
	}
	for _, s := range []string{"", "bwrap", "awaken-sandbox:local:h:o:e", "other:local:h:o:e:s", "awaken-sandbox:local:h:o:e:%zz", "awaken-sandbox:local:h:o:e:%61"} {
		if _, l, ok := parseMark(s); ok {
			t.Errorf("%q is read as %+v", s, l)
		}
	}
}

func TestStatOfOddNames(t *testing.T) {
	s, err := parseStat(7, []byte("7 (a) b (Z) S 3 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"))
	if err != nil || s.Parent != 3 || s.Start != 4711 || s.Zombie {
		t.Errorf("%+v, %v", s, err)
	}
	for _, b := range []string{"", "7 (a", "7 (a) S 3"} {
		if _, err := parseStat(7, []byte(b)); err == nil {
			t.Errorf("%q is read", b)
		}
	}
}
