package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestCallsRunInModelOrder(t *testing.T) {
	w := newWorld(t)
	b := w.submit(w.engine(), "r", `echo {"a":1}`, "once", "echo")
	if b.Phase != batch.BatchFinalized {
		t.Fatalf("phase %s", b.Phase)
	}
	wantCall(t, b, 0, `completed/tool: {"a":1}`)
	if want := []batch.OperationID{"r/1/0", "r/1/1", "r/1/2"}; !reflect.DeepEqual(w.order, want) {
		t.Errorf("order %v", w.order)
	}
	var kinds []string
	for i, ev := range w.events["r"] {
		if ev.Seq != uint64(i+1) {
			t.Errorf("event %d has seq %d", i, ev.Seq)
		}
		kinds = append(kinds, fmt.Sprintf("%s(%d)", ev.Kind, ev.Index))
	}
	want := "batch_requested(-1) call_executing(0) call_completed(0) call_executing(1) call_completed(1) call_executing(2) call_completed(2) batch_published(-1)"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events\n  %s, want\n  %s", got, want)
	}
}

// TestABatchOfOneCostsThreeCommits holds the price the design states.
func TestABatchOfOneCostsThreeCommits(t *testing.T) {
	w := newWorld(t)
	w.submit(w.engine(), "r", "echo")
	r, err := w.store.Run(t.Context(), "r")
	if err != nil || r.Version != 3 {
		t.Errorf("version %d, %v; want 3", r.Version, err)
	}
}

// TestCommittedBeforeItRuns looks at the store from inside the tool.
func TestCommittedBeforeItRuns(t *testing.T) {
	w := newWorld(t)
	w.tool("look", batch.NonRecoverable, batch.NeverReplay).invoke = func(ctx context.Context, c *batch.Call) (*batch.Output, error) {
		b, err := w.store.Batch(ctx, c.Run, c.Step)
		if err != nil {
			return nil, err
		}
		ds, err := w.store.Decisions(ctx, c.Run)
		if err != nil {
			return nil, err
		}
		st, err := w.store.State(ctx, c.Run)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("batch %s, %s, %s, %s; %d decisions; state %v", b.Phase, b.Calls[0].Phase, b.Calls[1].Phase, b.Calls[2].Phase, len(ds), st)
		return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock(text)}}, nil
	}
	w.tool("put", batch.NonRecoverable, batch.NeverReplay).invoke = stateful(batch.Command{Op: batch.OpSet, Key: "n", Value: json.RawMessage("1")})
	b := w.submit(w.engine(), "r", "put", "look", "echo")
	wantCall(t, b, 1, "completed/tool: batch open, completed, executing, requested; 2 decisions; state map[]")
}

func stateful(cmds ...batch.Command) func(context.Context, *batch.Call) (*batch.Output, error) {
	return func(context.Context, *batch.Call) (*batch.Output, error) {
		return &batch.Output{State: cmds}, nil
	}
}

// TestOutcomes: each answer of the gate, and each way it can be no answer.
func TestOutcomes(t *testing.T) {
	bad := batch.ContentBlock{Type: "video"}
	for name, c := range map[string]struct {
		gate func(*batch.Query) (*batch.Decision, error)
		want string
		code string // first reason in the decision record
		runs bool
	}{
		"allow": {func(*batch.Query) (*batch.Decision, error) { return allow(), nil }, "completed/tool: {}", "", true},
		"block": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeBlock, Reasons: []batch.Reason{{Code: "x", Message: "no writing", Detail: "policy.rego:3"}, {Code: "y"}}}, nil
		}, "completed/blocked!: blocked by policy: no writing; y", "x", false},
		"set_result": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeSetResult, Result: &batch.Result{Content: []batch.ContentBlock{batch.TextBlock("canned")}}}, nil
		}, "completed/policy: canned", "", false},
		"set_result as error": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeSetResult, Result: &batch.Result{IsError: true}}, nil
		}, "completed/policy!: ", "", false},
		"error": {func(*batch.Query) (*batch.Decision, error) { return allow(), errors.New("broken") },
			"completed/blocked!: blocked by policy: the policy gate failed: broken", batch.ReasonGateFailed, false},
		"nothing": {func(*batch.Query) (*batch.Decision, error) { return nil, nil }, "completed/blocked!", batch.ReasonGateFailed, false},
		"panic":   {func(*batch.Query) (*batch.Decision, error) { panic("boom") }, "completed/blocked!", batch.ReasonGateFailed, false},
		"unknown": {func(*batch.Query) (*batch.Decision, error) { return &batch.Decision{Outcome: "sure"}, nil },
			"completed/blocked!", batch.ReasonOddShape, false},
		"zero": {func(*batch.Query) (*batch.Decision, error) { return &batch.Decision{}, nil },
			"completed/blocked!", batch.ReasonOddShape, false},
		"set_result without result": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeSetResult}, nil
		}, "completed/blocked!", batch.ReasonOddShape, false},
		"set_result with bad block": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeSetResult, Result: &batch.Result{Content: []batch.ContentBlock{bad}}}, nil
		}, "completed/blocked!", batch.ReasonOddShape, false},
		"confirmation without one": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation}, nil
		}, "completed/blocked!", batch.ReasonOddShape, false},
		"quorum nobody can reach": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{Approvers: []string{"a"}, Quorum: 2}}, nil
		}, "completed/blocked!", batch.ReasonOddShape, false},
		"schedule without a time": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeSchedule}, nil
		}, "completed/blocked!", batch.ReasonOddShape, false},
		"negative grant": {func(*batch.Query) (*batch.Decision, error) {
			return &batch.Decision{Outcome: batch.OutcomeAllow, Grant: &batch.Grant{MemoryMiB: -1}}, nil
		}, "completed/blocked!", batch.ReasonOddShape, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gate = c.gate
			b := w.submit(w.engine(), "r", "echo")
			wantCall(t, b, 0, c.want)
			if strings.Contains(line(&b.Calls[0]), "policy.rego") {
				t.Errorf("the model is told what is for the operator: %s", line(&b.Calls[0]))
			}
			if ran := len(w.effects) > 0; ran != c.runs {
				t.Errorf("the tool ran: %v", ran)
			}
			ds, err := w.store.Decisions(t.Context(), "r")
			if err != nil || len(ds) != 1 {
				t.Fatalf("decision records: %v, %v; want one", ds, err)
			}
			code := ""
			if len(ds[0].Reasons) > 0 {
				code = ds[0].Reasons[0].Code
			}
			if code != c.code {
				t.Errorf("reason %q, want %q", code, c.code)
			}
		})
	}
}

// TestRefusedBeforeTheGate: such calls answer with an error, leave one decision
// record, and do not harm the others.
func TestRefusedBeforeTheGate(t *testing.T) {
	w := newWorld(t)
	w.tools["echo"].badArgs = "forbidden"
	b := w.submit(w.engine(), "r", "missing", `echo {"x":"forbidden"}`, `echo "`+strings.Repeat("x", 1000)+`"`, "echo")
	wantCall(t, b, 0, `completed/invalid!: there is no tool "missing"`)
	wantCall(t, b, 1, "completed/invalid!: invalid arguments for echo: /x: not allowed")
	wantCall(t, b, 2, "completed/invalid!: the arguments are 1002 bytes, at most 1000 are allowed")
	wantCall(t, b, 3, "completed/tool: {}")
	ds, _ := w.store.Decisions(t.Context(), "r")
	if len(ds) != 4 || ds[0].Reasons[0].Code != batch.ReasonUnknownTool || ds[1].Reasons[0].Code != batch.ReasonInvalidArguments {
		t.Errorf("decision records %v", ds)
	}
	if len(w.order) != 1 {
		t.Errorf("ran %v", w.order)
	}
}

func TestExecutorFailures(t *testing.T) {
	fail := func(kind batch.ToolErrorKind, times int) func(*world, *fakeTool) {
		return func(_ *world, f *fakeTool) {
			n := 0
			f.invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
				if n++; n <= times {
					return nil, &batch.ToolError{Kind: kind, Msg: "because"}
				}
				return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock("at last")}}, nil
			}
		}
	}
	for name, c := range map[string]struct {
		policy batch.RecoveryPolicy
		script func(*world, *fakeTool)
		want   string
		tries  int
	}{
		"unavailable, then there": {batch.NeverReplay, fail(batch.ToolErrorUnavailable, 2), "completed/tool: at last", 3},
		"unavailable for good":    {batch.NeverReplay, fail(batch.ToolErrorUnavailable, 9), "completed/failed!: tool x was unavailable in 3 attempts, nothing ran: because", 3},
		"execution, never replay": {batch.NeverReplay, fail(batch.ToolErrorExecution, 1), "indeterminate!: outcome unknown: the host failed after the call was dispatched (attempt 1)", 1},
		"execution, idempotent":   {"idempotent", fail(batch.ToolErrorExecution, 2), "completed/tool: at last", 3},
		"execution for good":      {"idempotent", fail(batch.ToolErrorExecution, 9), "indeterminate!: outcome unknown: the host failed after the call was dispatched (attempt 3)", 3},
		"invalid arguments":       {"idempotent", fail(batch.ToolErrorInvalidArguments, 9), "completed/invalid!: invalid arguments: because", 1},
		"placement":               {"idempotent", fail(batch.ToolErrorPlacement, 9), "completed/placement!: placement: because; nothing ran", 1},
		"a kind nobody knows":     {batch.NeverReplay, fail("odd", 1), "indeterminate!", 1},
		"plain error": {batch.NeverReplay, func(_ *world, f *fakeTool) {
			f.invoke = func(context.Context, *batch.Call) (*batch.Output, error) { return nil, errors.New("plain") }
		}, "indeterminate!: outcome unknown: the host failed after the call was dispatched (attempt 1): plain", 1},
		"panic": {batch.NeverReplay, func(_ *world, f *fakeTool) {
			f.invoke = func(context.Context, *batch.Call) (*batch.Output, error) { panic("boom") }
		}, "indeterminate!", 1},
		"nothing": {batch.NeverReplay, func(_ *world, f *fakeTool) {
			f.invoke = func(context.Context, *batch.Call) (*batch.Output, error) { return nil, nil }
		}, "indeterminate!", 1},
		"no executor": {batch.NeverReplay, func(_ *world, f *fakeTool) { f.d.Target = batch.TargetSandbox },
			`completed/placement!: placement: tool x must run in target "sandbox", and this host has none configured; nothing ran`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := w.tool("x", batch.Idempotent, c.policy)
			c.script(w, f)
			b := w.submit(w.engine(), "r", "x", "echo")
			wantCall(t, b, 0, c.want)
			wantCall(t, b, 1, "completed/tool")
			if got := len(w.effects["r/1/0"]); got != c.tries {
				t.Errorf("%d attempts, want %d", got, c.tries)
			}
		})
	}
}

func TestOutputsThatBreakTheContract(t *testing.T) {
	text := func(s string) *batch.Output {
		return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock(s)}}
	}
	for name, c := range map[string]struct {
		out  *batch.Output
		want string
	}{
		"too large":        {text(strings.Repeat("x", 2001)), "completed/tool!: the output of x is 2001 bytes, at most 2000 are allowed"},
		"not UTF-8":        {text("\xff"), "completed/tool!: x returned an invalid output: content block 0"},
		"bad JSON":         {&batch.Output{Content: []batch.ContentBlock{batch.JSONBlock([]byte("NaN"))}}, "completed/tool!: x returned an invalid output"},
		"two in one block": {&batch.Output{Content: []batch.ContentBlock{{Type: batch.BlockText, Text: "a", URI: "b"}}}, "completed/tool!: x returned an invalid output"},
		"another call's":   {&batch.Output{CallID: "c9", Content: text("mine").Content}, `indeterminate!: outcome unknown: the host failed after the call was dispatched (attempt 1): execution: the executor returned the output of call "c9"`},
		"error with state": {&batch.Output{IsError: true, State: []batch.Command{{Op: batch.OpSet, Key: "n", Value: []byte("1")}}}, "completed/tool!: "},
		"undeclared key":   {&batch.Output{State: []batch.Command{{Op: batch.OpSet, Key: "z", Value: []byte("1")}}}, `completed/tool!: x: state command 0 (set "z"): the key is not declared; none`},
		"half valid state": {&batch.Output{State: []batch.Command{
			{Op: batch.OpSet, Key: "n", Value: []byte("1")}, {Op: batch.OpSet, Key: "n", Value: []byte(`"s"`)},
		}}, `completed/tool!: x: state command 1 (set "n")`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tool("x", batch.NonRecoverable, batch.NeverReplay).invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
				return c.out, nil
			}
			b := w.submit(w.engine(), "r", "x")
			wantCall(t, b, 0, c.want)
			if b.Calls[0].Output.CallID != "c0" || b.Phase != batch.BatchFinalized {
				t.Errorf("output names %q, batch is %s", b.Calls[0].Output.CallID, b.Phase)
			}
			if st, _ := w.store.State(t.Context(), "r"); len(st) != 0 {
				t.Errorf("state %v", st)
			}
		})
	}
	t.Run("schema", func(t *testing.T) {
		w := newWorld(t)
		w.tools["echo"].badOut = errors.New("/y is missing")
		wantCall(t, w.submit(w.engine(), "r", "echo"), 0, "completed/tool!: echo returned an output that breaks its schema: /y is missing")
	})
}

func TestStateIsAppliedAtPublicationInModelOrder(t *testing.T) {
	w := newWorld(t)
	cmd := func(op batch.Op, key, v string) batch.Command {
		c := batch.Command{Op: op, Key: key}
		if v != "" {
			c.Value = json.RawMessage(v)
		}
		return c
	}
	w.tool("a", batch.NonRecoverable, batch.NeverReplay).invoke = stateful(cmd(batch.OpIncrement, "n", "2"), cmd(batch.OpAppend, "list", `{"k": 1}`))
	w.tool("b", batch.NonRecoverable, batch.NeverReplay).invoke = stateful(cmd(batch.OpIncrement, "n", "40"), cmd(batch.OpAppend, "list", "2"))
	w.tool("del", batch.NonRecoverable, batch.NeverReplay).invoke = stateful(cmd(batch.OpDelete, "list", ""), cmd(batch.OpSet, "n", " 7 "))
	other := w.tool("other", batch.NonRecoverable, batch.NeverReplay)
	other.d.Plugin, other.invoke = "q", stateful(cmd(batch.OpSet, "n", "1"))
	var seen map[string]json.RawMessage
	w.tool("see", batch.NonRecoverable, batch.NeverReplay).invoke = func(_ context.Context, c *batch.Call) (*batch.Output, error) {
		seen = c.State
		return &batch.Output{}, nil
	}
	e := w.engine()
	state := func() string {
		st, err := w.store.State(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		j, _ := json.Marshal(st)
		return string(j)
	}
	w.submit(e, "r", "a", "b", "see", "other")
	if got := state(); got != `{"p/list":[{"k":1},2],"p/n":42,"q/n":1}` {
		t.Errorf("state %s", got)
	}
	if len(seen) != 0 {
		t.Errorf("a tool saw staged state %s", seen)
	}
	w.submit(e, "r", "see", "del")
	if j, _ := json.Marshal(seen); string(j) != `{"list":[{"k":1},2],"n":42}` {
		t.Errorf("the next step's tool saw %s", j)
	}
	if got := state(); got != `{"p/n":7,"q/n":1}` {
		t.Errorf("state %s", got)
	}
}

func TestSubmissionIsIdempotent(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	first := w.submit(e, "r", `echo {"a":1}`)
	again, err := e.Submit(t.Context(), request("r", 1, `echo {"a":1}`))
	if err != nil || !reflect.DeepEqual(first.Calls[0].Output, again.Calls[0].Output) || len(w.order) != 1 {
		t.Errorf("again: %v, %v, ran %v", again, err, w.order)
	}
	for name, r := range map[string]*batch.Request{
		"other arguments": request("r", 1, `echo {"a":2}`),
		"other spelling":  request("r", 1, `echo {"a": 1}`),
		"other tool":      request("r", 1, `once {"a":1}`),
		"more calls":      request("r", 1, `echo {"a":1}`, "echo"),
	} {
		if _, err := e.Submit(t.Context(), r); !errors.Is(err, batch.ErrContent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b := w.submit(e, "r", `echo {"a":1}`); b.Step != 2 || len(w.order) != 2 {
		t.Errorf("without a step: step %d, ran %v", b.Step, w.order)
	}
	for step, want := range map[int]error{4: batch.ErrStep, -1: batch.ErrStep} {
		if _, err := e.Submit(t.Context(), request("r", step, "echo")); !errors.Is(err, want) {
			t.Errorf("step %d: %v", step, err)
		}
	}
}

func TestARunHasOneOpenStepAndOneOwner(t *testing.T) {
	w := newWorld(t)
	w.gate = confirm(batch.Confirmation{})
	e := w.engine()
	r := request("r", 0, "echo")
	r.Principal, r.Agent, r.Labels = "alice", "bot", map[string]string{"k": "v"}
	if _, err := e.Submit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if b, err := e.Submit(t.Context(), request("r", 0, "echo")); err != nil || b.Step != 1 {
		t.Errorf("the open step again, without its number: %v, %v", b, err)
	}
	for _, step := range []int{0, 2} {
		if _, err := e.Submit(t.Context(), request("r", step, `echo {"n":1}`)); !errors.Is(err, batch.ErrOpen) {
			t.Errorf("step %d beside an open one: %v", step, err)
		}
	}
	for name, change := range map[string]func(*batch.Request){
		"principal": func(r *batch.Request) { r.Principal = "mallory" },
		"agent":     func(r *batch.Request) { r.Agent = "other" },
		"labels":    func(r *batch.Request) { r.Labels = map[string]string{} },
	} {
		r := request("r", 0, "echo")
		change(r)
		if _, err := e.Submit(t.Context(), r); !errors.Is(err, batch.ErrOwner) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestInvalidBatchesLeaveNothing(t *testing.T) {
	w := newWorld(t)
	dup := request("r", 0, "echo", "echo")
	dup.Calls[1].ID = dup.Calls[0].ID
	wide := request("r", 0, "wide")
	w.tool("wide", batch.NonRecoverable, "replay_safe")
	for name, c := range map[string]struct {
		r    *batch.Request
		want error
	}{
		"empty":       {request("r", 0), batch.ErrInvalid},
		"duplicate":   {dup, batch.ErrInvalid},
		"bad run":     {request("a/b", 0, "echo"), batch.ErrBadID},
		"wide policy": {wide, batch.ErrRecoveryPolicy},
	} {
		if _, err := w.engine().Submit(t.Context(), c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if rs, _ := w.store.Runs(t.Context(), "", 0); len(rs) != 0 {
		t.Errorf("runs left: %v", rs)
	}
}

// TestStoppedWhileExecuting: a host that is told to stop leaves the call to
// recovery, which follows the pinned policy.
func TestStoppedWhileExecuting(t *testing.T) {
	for tool, want := range map[batch.ToolID]string{
		"safe": "completed/tool: {}",
		"once": "indeterminate!: outcome unknown: the host stopped while the call was running (attempt 1, started 2026-03-29T00:30:00Z); it is not repeated: the pinned recovery policy is never_replay",
	} {
		t.Run(string(tool), func(t *testing.T) {
			w := newWorld(t)
			w.tool("safe", batch.ReplaySafe, "replay_safe")
			answer := w.tools[tool].invoke
			ctx, cancel := context.WithCancel(t.Context())
			w.tools[tool].invoke = func(ctx context.Context, _ *batch.Call) (*batch.Output, error) {
				cancel()
				return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "stopped", Err: ctx.Err()}
			}
			if _, err := w.engine().Submit(ctx, request("r", 0, "echo", string(tool), "echo")); !errors.Is(err, context.Canceled) {
				t.Fatalf("Submit: %v", err)
			}
			w.tools[tool].invoke = answer
			if n, err := w.engine().Recover(t.Context()); n != 1 || err != nil {
				t.Fatalf("Recover: %d, %v", n, err)
			}
			b, err := w.store.Batch(t.Context(), "r", 1)
			if err != nil {
				t.Fatal(err)
			}
			wantCall(t, b, 0, "completed/tool")
			wantCall(t, b, 1, want)
			wantCall(t, b, 2, "completed/tool")
			if len(w.effects["r/1/0"]) != 1 || len(w.effects["r/1/2"]) != 1 {
				t.Errorf("effects %v", w.effects)
			}
		})
	}
}

// TestToolChangedMeanwhile: what was requested under one digest does not run
// under another.
func TestToolChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(*world){
		"changed": func(w *world) { w.tools["safe"].d.Digest = "d2" },
		"removed": func(w *world) { delete(w.tools, "safe") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tool("safe", batch.ReplaySafe, "replay_safe")
			ctx, cancel := context.WithCancel(t.Context())
			w.tools["safe"].invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
				cancel()
				return nil, ctx.Err()
			}
			_, _ = w.engine().Submit(ctx, request("r", 0, "safe", "safe"))
			change(w)
			if _, err := w.engine().Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			b, err := w.store.Batch(t.Context(), "r", 1)
			if err != nil {
				t.Fatal(err)
			}
			wantCall(t, b, 0, "indeterminate!")
			wantCall(t, b, 1, "completed/changed!: tool safe was changed or removed after the call was requested")
			if len(w.order) != 1 {
				t.Errorf("ran %v", w.order)
			}
		})
	}
}

func TestRetriesWaitLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now()
		var at []time.Duration
		w.tools["echo"].invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
			at = append(at, time.Since(began))
			return nil, &batch.ToolError{Kind: batch.ToolErrorUnavailable, Msg: "no room"}
		}
		e, err := batch.NewEngine(batch.Options{
			Store: w.store, Gate: w, Catalog: func() batch.Catalog { return w },
			Executors: map[batch.Target]batch.Executor{batch.TargetBrain: w},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Submit(t.Context(), request("r", 0, "echo")); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond}; !reflect.DeepEqual(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
	})
}

// TestARefusalIsNotTriedAgain: only a fault that may pass is worth a second try.
func TestARefusalIsNotTriedAgain(t *testing.T) {
	w := newWorld(t)
	full := &refusing{Store: w.mem, err: fmt.Errorf("2 MiB are free: %w", batch.ErrDiskFull)}
	w.store = full
	if _, err := w.engine().Submit(t.Context(), request("r", 0, "echo")); !errors.Is(err, batch.ErrDiskFull) || full.n != 1 {
		t.Errorf("%v after %d tries", err, full.n)
	}
}

type refusing struct {
	batch.Store
	err error
	n   int
}

func (r *refusing) Commit(context.Context, *batch.Commit) error { r.n++; return r.err }

// TestManyRunsAtOnce drives many runs, and one run from many sides, under -race.
func TestManyRunsAtOnce(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 5 {
				if _, err := e.Submit(t.Context(), request(batch.RunID(fmt.Sprintf("r%d", g)), i+1, "echo", "once")); err != nil {
					t.Errorf("run %d step %d: %v", g, i+1, err)
				}
				if _, err := e.Submit(t.Context(), request("shared", 1, "once")); err != nil {
					t.Errorf("shared: %v", err)
				}
				if _, err := e.Recover(t.Context()); err != nil {
					t.Errorf("Recover: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(w.effects["shared/1/0"]); n != 1 {
		t.Errorf("the shared call ran %d times", n)
	}
	if len(w.order) != 16*5*2+1 {
		t.Errorf("%d calls ran", len(w.order))
	}
}
