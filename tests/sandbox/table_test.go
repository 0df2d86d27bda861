package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// tiers are all there are, in the order in which tables show them.
var tiers = []string{"local", "namespace", "docker", "podman", "k8s"}

// The three kinds of tools, with what they must answer wherever they run. The first
// call of a batch starts the sandbox.
var sameEverywhere = []struct {
	kind string
	call call
	want string
}{
	{"file", call{"write", "workspace__write", map[string]string{"path": "notes/garden.txt", "text": "water the plants\nplant the beans – späť\n"}},
		`[{"type":"text","text":"Wrote 44 bytes to notes/garden.txt"}]`},
	{"file", call{"list", "workspace__list", map[string]string{}},
		`[{"type":"json","json":{"files":[{"path":"notes/garden.txt","bytes":44}]}}]`},
	{"file", call{"outside", "workspace__read", map[string]string{"path": "../etc/passwd"}},
		`[{"type":"text","text":"cannot read ../etc/passwd: Operation not permitted"}]`},
	{"command", call{"grep", "search__grep", map[string]string{"pattern": "bea+ns"}},
		`[{"type":"json","json":{"matches":[{"file":"notes/garden.txt","line":2,"text":"plant the beans – späť"}],"more":false}}]`},
	{"pure Wasm", call{"replace", "pattern__replace", map[string]string{"pattern": `(\d{4})-(\d\d)-(\d\d)`, "text": "due 2026-03-01", "replacement": "${3}.${2}.${1}"}},
		`[{"type":"text","text":"due 01.03.2026"}]`},
	{"pure Wasm", call{"find", "pattern__find", map[string]string{"pattern": "b(c)?", "text": "abab"}},
		`[{"type":"json","json":{"matches":[{"text":"b","start":1,"end":2,"groups":[null]},{"text":"b","start":3,"end":4,"groups":[null]}],"more":false}}]`},
}

// TestSameInEveryTier runs the same tools in all tiers, and prints one table of what
// they answer and how long each call took.
func TestSameInEveryTier(t *testing.T) {
	answers, took := map[string][]string{}, map[string][]time.Duration{}
	for _, tier := range tiers {
		t.Run(tier, func(t *testing.T) {
			w := newWorld(t, tier, "", "plugins/pattern", "plugins/workspace", "plugins/search")
			var calls []call
			for _, s := range sameEverywhere {
				calls = append(calls, s.call)
			}
			for i, got := range w.batch("same", calls...).Results {
				want := &sameEverywhere[i]
				if compact(t, got.Content) != compact(t, []byte(want.want)) || got.IsError != (want.call.ID == "outside") {
					t.Errorf("%s: error %t\ngot  %s\nwant %s", want.call.ID, got.IsError, got.Content, want.want)
				}
				if got.tier() != tier {
					t.Errorf("%s: the result says tier %q", want.call.ID, got.tier())
				}
				answers[tier] = append(answers[tier], compact(t, got.Content))
			}
			took[tier] = w.took("same")
			// What is in the workspace is seen from outside.
			if got := w.must("", "runs", "files", "get", "same", "notes/garden.txt"); string(got) != "water the plants\nplant the beans – späť\n" {
				t.Errorf("runs files get gives %q", got)
			}
		})
	}
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "kind\ttool\t%s\tresult\n", strings.Join(tiers, "\t"))
	for i, s := range sameEverywhere {
		fmt.Fprintf(table, "%s\t%s", s.kind, s.call.Tool)
		same, text := true, ""
		for _, tier := range tiers {
			if i >= len(answers[tier]) || i >= len(took[tier]) {
				fmt.Fprint(table, "\t-")
				continue
			}
			same = same && (text == "" || text == answers[tier][i])
			text = answers[tier][i]
			fmt.Fprintf(table, "\t%.1f ms", float64(took[tier][i].Microseconds())/1000)
		}
		if !same {
			text = "differs"
			t.Errorf("%s does not answer the same everywhere", s.call.ID)
		}
		fmt.Fprintf(table, "\t%s\n", text)
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the first call starts the sandbox, the first of a plugin compiles its module:\n%s", b.String())
}

func compact(t testing.TB, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
