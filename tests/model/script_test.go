package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// script is one call of a batch. What the gate answers to it and what the tool does
// with it is written in its arguments, so that a history is nothing but calls.
type script struct {
	id   string
	tool string
	args string // the JSON of plan
	plan
}

type plan struct {
	Gate    string    `json:"gate"`              // the answer to the first question
	Then    string    `json:"then,omitempty"`    // the answer after the call was parked
	Do      []string  `json:"do,omitempty"`      // what the tool does, by attempt; the last one repeats
	Record  string    `json:"record,omitempty"`  // what is on record of the call after a stop, by the words of Do; empty: nothing
	Cmds    []command `json:"cmds,omitempty"`    // state commands of "ok" and "failstate"
	Child   []string  `json:"child,omitempty"`   // tool and arguments of the calls to delegate
	BadArgs bool      `json:"badargs,omitempty"` // the arguments break the tool's schema

	children []*script
}

type command struct {
	Op    string `json:"op"`
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// key is under what the world finds the script of a call.
func (s *script) key() string { return s.id + " " + s.tool + " " + s.args }

// GoString is how a history shows the call.
func (s *script) GoString() string { return s.id + ": " + s.tool + " " + s.args }

// does is what the tool does in an attempt.
func (s *script) does(attempt int) string { return s.Do[min(attempt, len(s.Do))-1] }

func (s *script) seal() *script {
	for _, c := range s.children {
		s.Child = append(s.Child, c.tool+" "+c.args)
	}
	raw, err := json.Marshal(s.plan)
	if err != nil {
		panic(err)
	}
	s.args = string(raw)
	return s
}

// toolKind is what is fixed about a tool; its digest and presence change.
type toolKind struct {
	plugin     string
	capability string
	policy     string
	max        int // attempts; 0: the default, which is 3
	target     string
	client     bool
	delegate   bool
	parallel   bool
}

const brain = "brain"

// kinds are the tools of every history: each capability with each legal policy, one
// with an illegal policy, and those that do not run here.
var kinds = map[string]toolKind{
	"once":      {plugin: "p", capability: "non_recoverable", policy: "never_replay", target: brain},
	"hasty":     {plugin: "p", capability: "non_recoverable", policy: "never_replay", target: brain, max: 1},
	"safe":      {plugin: "p", capability: "replay_safe", policy: "replay_safe", target: brain},
	"safe_once": {plugin: "p", capability: "replay_safe", policy: "never_replay", target: brain},
	"idem":      {plugin: "q", capability: "idempotent", policy: "idempotent", target: brain, max: 2},
	"idem_once": {plugin: "q", capability: "idempotent", policy: "never_replay", target: brain},
	"dur":       {plugin: "p", capability: "durable_request", policy: "durable_request", target: brain},
	"dur_once":  {plugin: "q", capability: "durable_request", policy: "never_replay", target: brain, max: 2},
	"wide":      {plugin: "p", capability: "non_recoverable", policy: "replay_safe", target: brain},
	"ask":       {plugin: "p", policy: "never_replay", target: "client", client: true},
	"nowhere":   {plugin: "p", policy: "never_replay", target: "sandbox"},
	"spawn":     {plugin: "d", capability: "durable_request", policy: "durable_request", target: brain, delegate: true},
	"fan":       {plugin: "d", capability: "durable_request", policy: "never_replay", target: brain, delegate: true, parallel: true},
}

// weighted repeats each word as often as its number says: "allow*8 block".
func weighted(s string) *rapid.Generator[string] {
	var out []string
	for w := range strings.FieldsSeq(s) {
		word, n := w, 1
		if before, after, ok := strings.Cut(w, "*"); ok {
			word = before
			_, _ = fmt.Sscan(after, &n)
		}
		for range n {
			out = append(out, word)
		}
	}
	return rapid.SampledFrom(out)
}

var (
	localTools = weighted("once*4 safe*4 idem*3 dur*2 safe_once idem_once*2 dur_once hasty ask*3 nowhere missing")
	treeTools  = weighted("once*4 safe*4 idem*3 dur*2 idem_once hasty ask*2 missing spawn*8")
	allTools   = weighted("once*4 safe*4 idem*3 dur*2 safe_once idem_once dur_once hasty ask*2 nowhere missing spawn*6 fan*2")
	gateFirst  = weighted("allow*16 narrow*3 confirm*4 quorum*2 later*3 past block set setfail error panic nothing odd oddset oddconfirm oddquorum oddlater oddgrant")
	gateThen   = weighted("allow*7 narrow block set confirm error")
	firstDeed  = weighted("ok*12 unavailable*4 execution*3 error panic nothing another fail failstate invalid placement badblock huge badschema")
	laterDeed  = weighted("ok*6 unavailable*3 execution*2 error fail")
	recorded   = weighted("none*6 ok*6 fail failstate another invalid execution unavailable badblock error panic nothing")
	commands   = rapid.SampledFrom([]command{
		{"increment", "n", "1"}, {"increment", "n", "1"}, {"increment", "n", "-2"}, {"append", "list", "1"}, {"append", "list", "2"},
		{"set", "n", "5"}, {"set", "list", "[7]"}, {"set", "list", "7"}, {"delete", "n", ""}, {"delete", "list", ""},
		{"set", "n", `"x"`}, {"append", "n", "1"}, {"increment", "list", "1"}, {"set", "undeclared", "1"}, {"multiply", "n", "2"},
	})
	coin  = rapid.Bool()
	oneIn = func(n int) *rapid.Generator[bool] {
		return rapid.Map(rapid.IntRange(0, n-1), func(i int) bool { return i == n-1 })
	}
	oneInTen = oneIn(10)
)

// calls draws the calls of a batch. Delegating calls have calls of their own, down to
// one level more than the engine allows.
func calls(tools *rapid.Generator[string], depth int) *rapid.Generator[[]*script] {
	return rapid.Custom(func(t *rapid.T) []*script {
		most := 5 - depth
		if depth > 0 {
			most = 2
		}
		n := upTo(most).Draw(t, "n")
		fan := tools == allTools && depth < 2 && oneIn(4).Draw(t, "fan")
		if fan {
			n = rapid.IntRange(2, 3).Draw(t, "n")
		}
		out := make([]*script, n)
		for i := range out {
			tool := "fan"
			if !fan {
				tool = tools.Draw(t, "tool")
			}
			s := &script{id: fmt.Sprint("c", i), tool: tool}
			s.Gate = gateFirst.Draw(t, "gate")
			if fan && !oneIn(5).Draw(t, "gated") {
				s.Gate = "allow"
			}
			if parks(s.Gate) {
				s.Then = gateThen.Draw(t, "then")
			}
			s.BadArgs = oneIn(20).Draw(t, "badargs")
			switch k := kinds[tool]; {
			case k.delegate && depth > maxDepth:
				s.children = []*script{(&script{id: "c0", tool: "safe", plan: plan{Gate: "allow", Do: []string{"ok"}}}).seal()}
			case k.delegate:
				s.children = calls(tools, depth+1).Draw(t, "child")
				if oneIn(12).Draw(t, "empty child") {
					s.children = nil
				}
			case k.capability != "":
				s.Do = []string{firstDeed.Draw(t, "do")}
				for s.Do[len(s.Do)-1] != "ok" && len(s.Do) < 3 && coin.Draw(t, "more") {
					s.Do = append(s.Do, laterDeed.Draw(t, "do"))
				}
				if s.Record = recorded.Draw(t, "record"); s.Record == "none" {
					s.Record = ""
				}
				for len(s.Cmds) < 3 && coin.Draw(t, "state") {
					s.Cmds = append(s.Cmds, commands.Draw(t, "command"))
				}
			}
			out[i] = s.seal()
		}
		return out
	})
}

func parks(gate string) bool {
	switch gate {
	case "confirm", "quorum", "later", "past":
		return true
	}
	return false
}
