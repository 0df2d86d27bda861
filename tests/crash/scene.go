package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
)

// Tools of the stage.
const (
	toolOnce           batch.ToolID = "effect__once"
	toolSafe           batch.ToolID = "effect__safe"
	toolSafeOnce       batch.ToolID = "effect__safe_once"
	toolIdempotent     batch.ToolID = "effect__idempotent"
	toolIdempotentOnce batch.ToolID = "effect__idempotent_once"
	toolDurable        batch.ToolID = "effect__durable"
	toolDurableOnce    batch.ToolID = "effect__durable_once"
	toolClient         batch.ToolID = "ask_client"
	toolDelegate       batch.ToolID = "delegate"
)

// replays are the tools whose pinned policy lets a call be repeated.
var replays = map[batch.ToolID]batch.RecoveryPolicy{
	toolSafe:       batch.RecoveryPolicy(batch.ReplaySafe),
	toolIdempotent: batch.RecoveryPolicy(batch.Idempotent),
	toolDurable:    batch.RecoveryPolicy(batch.DurableRequest),
	toolDelegate:   batch.RecoveryPolicy(batch.DurableRequest),
}

// call is a call of the scene and what must come of it.
type call struct {
	kind string // row of the report
	tool batch.ToolID
	args string
	want batch.Answer
	deny bool // the person asked says no
	run  []call
}

// run is a run of the scene, one batch for each step.
type run struct {
	id     batch.RunID
	steps  [][]call
	cancel bool // somebody cancels it while its first step is open
}

// Rows of the report that no policy names.
const (
	kindClient    = "client tool"
	kindScheduled = "scheduled"
	kindConfirmed = "confirmed"
	kindDenied    = "denied"
	kindBlocked   = "blocked"
	kindAnswered  = "answered by policy"
	kindInvalid   = "refused before the gate"
	kindDelegated = "delegation"
	kindParallel  = "delegation, side by side"
	kindCancelled = "in a cancelled run"
)

// effect is a call that leaves its effect, takes ms milliseconds and changes state.
func effect(tool batch.ToolID, ms, n int) call {
	capability := map[batch.ToolID]batch.RecoveryCapability{
		toolOnce: batch.NonRecoverable,
		toolSafe: batch.ReplaySafe, toolSafeOnce: batch.ReplaySafe,
		toolIdempotent: batch.Idempotent, toolIdempotentOnce: batch.Idempotent,
		toolDurable: batch.DurableRequest, toolDurableOnce: batch.DurableRequest,
	}[tool]
	policy, ok := replays[tool]
	if !ok {
		policy = batch.NeverReplay
	}
	return call{
		kind: fmt.Sprintf("%s, pinned %s", capability, policy), tool: tool,
		args: fmt.Sprintf(`{"ms":%d,"n":%d}`, ms, n), want: batch.AnswerTool,
	}
}

// asked is an effect for which policy wants something first.
func asked(kind string, tool batch.ToolID, n int, want string) call {
	return call{kind: kind, tool: tool, args: fmt.Sprintf(`{"ms":1,"n":%d,"want":%q}`, n, want), want: batch.AnswerTool}
}

func denied(tool batch.ToolID) call {
	c := asked(kindDenied, tool, 1, "confirm")
	c.want, c.deny = batch.AnswerDenied, true
	return c
}

func delegation(kind string, calls ...call) call {
	return call{kind: kind, tool: toolDelegate, args: message(calls), want: batch.AnswerTool, run: calls}
}

// scene is what every world plays: each way that a call can go.
func scene() []run {
	blocked := asked(kindBlocked, toolOnce, 1, "block")
	blocked.want = batch.AnswerBlocked
	answered := asked(kindAnswered, toolOnce, 1, "answer")
	answered.want = batch.AnswerPolicy
	client := call{kind: kindClient, tool: toolClient, args: `{"question":"how many?"}`, want: batch.AnswerExternal}
	stopped := func(c call) call {
		c.kind, c.want = kindCancelled, batch.AnswerCancelled
		return c
	}
	return []run{
		{id: "brain", steps: [][]call{{
			effect(toolOnce, 8, 1), effect(toolSafe, 8, 2), effect(toolSafeOnce, 8, 3), effect(toolIdempotent, 8, 4),
			effect(toolIdempotentOnce, 8, 5), effect(toolDurable, 8, 6), effect(toolDurableOnce, 8, 7),
		}}},
		{id: "policy", steps: [][]call{{
			blocked, answered, asked(kindConfirmed, toolOnce, 1, "confirm"), asked(kindScheduled, toolOnce, 2, "later"), denied(toolOnce),
			{kind: kindInvalid, tool: "no_such_tool", args: `{}`, want: batch.AnswerInvalid},
			{kind: kindInvalid, tool: toolOnce, args: `{"n":"many"}`, want: batch.AnswerInvalid},
			asked(kindConfirmed, toolSafe, 3, "confirm"), asked(kindScheduled, toolIdempotent, 4, "later"),
		}}},
		{id: "client", steps: [][]call{{client, effect(toolOnce, 2, 1), client}}},
		{id: "steps", steps: [][]call{{effect(toolDurable, 2, 10), effect(toolOnce, 2, -3)}, {effect(toolIdempotent, 2, 5)}, {client, effect(toolSafe, 2, 7)}}},
		{id: "delegates", steps: [][]call{{
			delegation(kindDelegated, effect(toolOnce, 2, 1), asked(kindConfirmed, toolSafe, 2, "confirm")),
			effect(toolOnce, 2, 3),
			delegation(kindDelegated, blocked, client),
		}}},
		{id: "side-by-side", steps: [][]call{{
			delegation(kindParallel, effect(toolOnce, 4, 1)),
			delegation(kindParallel, effect(toolSafe, 4, 1), asked(kindConfirmed, toolOnce, 2, "confirm")),
			delegation(kindParallel, asked(kindScheduled, toolSafe, 3, "later"), denied(toolDurable)),
		}}},
		{id: "cancelled", cancel: true, steps: [][]call{{stopped(effect(toolOnce, 5000, 1)), stopped(effect(toolSafe, 1, 2))}}},
		{id: "cancelled-parent", cancel: true, steps: [][]call{{stopped(delegation(kindDelegated, stopped(asked("", toolOnce, 1, "confirm"))))}}},
	}
}

// message is the calls as an assistant message in our own dialect.
func message(calls []call) string {
	type wire struct {
		ID        string          `json:"id"`
		Tool      batch.ToolID    `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var m struct {
		Calls []wire `json:"calls"`
	}
	for i := range calls {
		m.Calls = append(m.Calls, wire{string(callID(i, &calls[i])), calls[i].tool, json.RawMessage(calls[i].args)})
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // the scene is a constant
	}
	return string(text)
}

const denyPrefix = "deny-"

// callID tells the person who is asked what to answer.
func callID(i int, c *call) batch.CallID {
	if c.deny {
		return batch.CallID(fmt.Sprintf("%s%d", denyPrefix, i))
	}
	return batch.CallID(fmt.Sprintf("call-%d", i))
}

func approves(id batch.CallID) bool { return !strings.HasPrefix(string(id), denyPrefix) }

// calls are the calls of a run by operation, those of child runs included.
func calls(runs []run) map[batch.OperationID]*call {
	all := map[batch.OperationID]*call{}
	var add func(id batch.RunID, step int, cs []call)
	add = func(id batch.RunID, step int, cs []call) {
		for i := range cs {
			op := batch.NewOperationID(id, step, i)
			all[op] = &cs[i]
			if cs[i].run != nil {
				add(batch.ChildRunID(op), 1, cs[i].run)
			}
		}
	}
	for _, r := range runs {
		for s, cs := range r.steps {
			add(r.id, s+1, cs)
		}
	}
	return all
}
