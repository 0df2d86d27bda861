package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestAttacks runs every guest beside one that behaves.
func TestAttacks(t *testing.T) {
	for _, tier := range tiers {
		for _, p := range promises {
			for _, a := range p.attacks {
				t.Run(tier+"/"+a.title(), func(t *testing.T) {
					t.Parallel()
					attempt(t, tier, a)
				})
			}
		}
	}
}

func attempt(t *testing.T, tier string, a attack) {
	if _, err := exec.LookPath("bwrap"); tier == "namespace" && err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("bwrap is missing; to install it: apt-get install bubblewrap")
	}
	if tier != brain && a.later != "" {
		a.refused, a.fails = "", a.later
	}
	w := newWorld(t, tier, a)
	args := "{}"
	if a.args != "" {
		args = w.addresses.Replace(a.args)
	}
	calls := []string{fmt.Sprintf(`{"id":"attack","tool":"attack__run","arguments":%s}`, args)}
	if a.again {
		calls = append(calls, fmt.Sprintf(`{"id":"again","tool":"attack__run","arguments":%s}`, args))
	}
	calls = append(calls, `{"id":"neighbour","tool":"neighbour__run"}`)
	r, stderr := w.run(`{"calls":[` + strings.Join(calls, ",") + `]}`)
	if (r == nil) != (a.refused != "") {
		t.Fatalf("refused: %v, want %v\n%s", r == nil, a.refused != "", stderr)
	}
	if r == nil {
		if !regexp.MustCompile(a.refused).MatchString(stderr) {
			t.Errorf("refused with\n%s\nwant a match of %q", stderr, a.refused)
		}
		return
	}
	if r.Phase != "finalized" || len(r.Results) != len(calls) {
		t.Fatalf("phase %s with %d results", r.Phase, len(r.Results))
	}
	last := len(calls) - 1
	if r.Results[last].IsError || r.text(last) != `"unharmed"` {
		t.Errorf("the neighbour answered %s", r.text(last))
	}
	ran := ranIn{Target: brain}
	if tier != brain {
		ran = ranIn{Target: "sandbox", Tier: tier}
	}
	if got := r.Results[last].Executed; got == nil || *got != ran {
		t.Errorf("the neighbour ran in %+v, want %+v", got, ran)
	}
	i := last - 1
	want := a.answers
	if a.fails != "" {
		want = a.fails
	}
	if got := r.text(i); r.Results[i].IsError != (a.fails != "") || !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("is_error %v: %.600q\nwant is_error %v and a match of %q\n%.2000s", r.Results[i].IsError, got, a.fails != "", want, stderr)
	}
}
