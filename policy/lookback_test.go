package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// The principal's history is asked for where a decision can depend on it, and only
// there.
func TestLooksBack(t *testing.T) {
	for rule, want := range map[string]bool{
		`allow if input.history.principal["1h"].notes__save < 3`:                                            true,
		`allow if { h := input.history; h.principal["1h"].notes__save < 3 }`:                                true,
		`allow if { some k; input.history[k]["1h"].notes__save < 3 }`:                                       true,
		`allow if { some k; input[k].principal }`:                                                           true,
		`allow if { i := input; i.history.principal["1h"].notes__save < 3 }`:                                true,
		`allow if object.get(input, ["history", "principal"], {}) == {}`:                                    true,
		"few if input.history.principal[\"1h\"].notes__save < 3\nallow if few":                              true,
		"few(w) if input.history.principal[w].notes__save < 3\nallow if few(\"1h\")":                        true,
		`allow if input.call.arguments[input.history.principal["1h"].notes__save]`:                          true,
		`grant contains {"memory_mib": 64 - n} if { n := input.history.principal["1h"].notes__save }`:       true,
		`allow if { some n in [m | m := input.history.principal["1h"].notes__save]; n < 3 }`:                true,
		`allow if input.call.arguments[[1, input.history.principal]]`:                                       true,
		`allow if object.keys(input.history)[_] == "x"`:                                                     true,
		`allow if input.history.run.notes__save < 3`:                                                        false,
		`allow if input.run.principal == "alice"`:                                                           false,
		"unused if input.history.principal[\"1h\"].notes__save < 3\nallow if input.tool.id == \"x\"":        false,
		`allow if { some k; input.call.arguments[k] == "principal" }`:                                       false,
		`allow if input.call.arguments[input.tool.id] == "principal"`:                                       false,
		"import data.other\nallow if other[input.tool.id]":                                                  false,
		"block if { count([1 | some k; input.history.principal[k]]) > 9 }\nallow if input.tool.id == \"x\"": true,
	} {
		t.Run(rule, func(t *testing.T) {
			if got := open(t, options(t, rule)).current.Load().looksBack; got != want {
				t.Errorf("looks back: %v, want %v", got, want)
			}
		})
	}
}

func TestHistoryOfThePrincipal(t *testing.T) {
	g := open(t, options(t, `allow if input.history.principal["1h"].notes__save < 3
block contains "too many today" if input.history.principal["24h"].notes__save > 10`))
	q := query("save", `{}`)
	var asked []time.Duration
	counts := func(hour, day int) {
		q.Recent = func(_ context.Context, ws ...time.Duration) ([]map[batch.ToolID]int, error) {
			asked = ws
			return []map[batch.ToolID]int{nil, {}, {"notes__save": hour}, {"notes__save": day, "other": 1}}, nil
		}
	}
	counts(2, 9)
	d := decide(t, g, q)
	if d.Outcome != batch.OutcomeAllow {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}
	if fmt.Sprint(asked) != "[1m0s 10m0s 1h0m0s 24h0m0s]" {
		t.Errorf("asked for %v", asked)
	}
	var in Input
	if err := json.Unmarshal(d.Input, &in); err != nil || in.History.Principal == nil || in.History.Principal.Day["other"] != 1 {
		t.Errorf("recorded: %s, %v", d.Input, err)
	}
	if !strings.Contains(string(d.Input), `"principal":{"1m":{},"10m":{},"1h":{"notes__save":2}`) {
		t.Errorf("recorded: %s", d.Input)
	}
	counts(3, 9)
	if d := decide(t, g, q); codes(d) != "no_rule" {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}
	counts(1, 11)
	if d := decide(t, g, q); codes(d) != "block" {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}

	// What cannot be known blocks, and says why to the operator alone.
	q.Recent = nil
	if d := decide(t, g, q); codes(d) != ReasonNoHistory || d.Outcome != batch.OutcomeBlock {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}
	q.Recent = func(context.Context, ...time.Duration) ([]map[batch.ToolID]int, error) {
		return nil, errors.New("no disk")
	}
	d = decide(t, g, q)
	if codes(d) != ReasonNoHistory || d.Reasons[0].Detail != "no disk" || strings.Contains(d.Reasons[0].Message, "disk") || d.Input == nil {
		t.Errorf("got %s with %+v", d.Outcome, d.Reasons)
	}
}
