package batch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// recaller is the world's executor with a record of what it ran.
type recaller struct {
	*world
	recall func(context.Context, *batch.Call) (*batch.Output, bool, error)
	asked  []batch.OperationID
}

func (r *recaller) Recall(ctx context.Context, c *batch.Call) (*batch.Output, bool, error) {
	r.asked = append(r.asked, c.Operation())
	return r.recall(ctx, c)
}

// stopped is a run whose process was stopped while its call ran: the commit of the
// outcome never came.
func stopped(t *testing.T, tool string) *world {
	t.Helper()
	w := newWorld(t)
	w.store = storetest.NewFaulty(w.mem, storetest.FailWhen(func(c *batch.Commit) bool {
		return c.Batch != nil && c.Batch.Calls[0].Phase == batch.PhaseCompleted
	}, storetest.FaultCrashBefore))
	if _, err := w.engine().Submit(t.Context(), request("r", 0, tool+` {"v":1}`)); !errors.Is(err, storetest.ErrInjected) {
		t.Fatalf("Submit: %v", err)
	}
	w.store = w.mem
	return w
}

// TestRecordDecidesBeforePolicy: what an executor has on record of a call is its
// outcome, whatever the recovery policy says; without a record the policy decides.
func TestRecordDecidesBeforePolicy(t *testing.T) {
	recorded := &batch.Output{Content: []batch.ContentBlock{batch.TextBlock("from the record")}}
	for name, c := range map[string]struct {
		tool   string
		out    *batch.Output
		known  bool
		err    error
		change func(*fakeTool)
		want   string
		runs   int // in all
		asked  int
	}{
		"never replayed, recorded":    {tool: "once", out: recorded, known: true, want: "completed/tool: from the record", runs: 1, asked: 1},
		"never replayed, no record":   {tool: "once", want: "indeterminate!", runs: 1, asked: 1},
		"never replayed, unreadable":  {tool: "once", err: errors.New("damaged"), want: "indeterminate!", runs: 1, asked: 1},
		"replayed, recorded":          {tool: "echo", out: recorded, known: true, want: "completed/tool: from the record", runs: 1, asked: 1},
		"replayed, no record":         {tool: "echo", want: `completed/tool: {"v":1}`, runs: 2, asked: 1},
		"replayed, recorded failure":  {tool: "echo", known: true, err: &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "it broke"}, want: `completed/tool: {"v":1}`, runs: 2, asked: 1},
		"a failure that is final":     {tool: "once", known: true, err: &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "it broke"}, want: "indeterminate!: outcome unknown: the host failed after the call was dispatched (attempt 1): execution: it broke", runs: 1, asked: 1},
		"recorded as refused":         {tool: "once", known: true, err: &batch.ToolError{Kind: batch.ToolErrorInvalidArguments, Msg: "no such thing"}, want: "completed/invalid!: invalid arguments: no such thing", runs: 1, asked: 1},
		"a record without an output":  {tool: "once", known: true, want: "indeterminate!", runs: 1, asked: 1},
		"another call's":              {tool: "once", known: true, out: &batch.Output{CallID: "c9"}, want: "indeterminate!", runs: 1, asked: 1},
		"a tool that changed":         {tool: "once", known: true, out: recorded, change: func(f *fakeTool) { f.d.Digest = "d2" }, want: "indeterminate!", runs: 1},
		"state that it may not write": {tool: "once", known: true, out: &batch.Output{State: []batch.Command{{Op: batch.OpSet, Key: "x", Value: []byte("1")}}}, want: "completed/tool!: once: state command 0", runs: 1, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := stopped(t, c.tool)
			if c.change != nil {
				c.change(w.tools[batch.ToolID(c.tool)])
			}
			r := &recaller{world: w, recall: func(_ context.Context, call *batch.Call) (*batch.Output, bool, error) {
				if call.Attempt != 1 || string(call.Arguments) != `{"v":1}` {
					t.Errorf("it was asked about %+v", call)
				}
				return c.out, c.known, c.err
			}}
			b, err := w.engineWith(r).Resume(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			wantCall(t, b, 0, c.want)
			if len(w.order) != c.runs || len(r.asked) != c.asked {
				t.Errorf("it ran %d times and was asked about %d times, want %d and %d", len(w.order), len(r.asked), c.runs, c.asked)
			}
		})
	}
}

// TestPanicOfARecallIsNoRecord: nor does it take the host with it.
func TestPanicOfARecallIsNoRecord(t *testing.T) {
	w := stopped(t, "once")
	b, err := w.engineWith(&recaller{world: w, recall: func(context.Context, *batch.Call) (*batch.Output, bool, error) { panic("no") }}).Resume(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "indeterminate!")
}

// TestStopDuringARecallDecidesNothing: whoever stops while the record is looked for
// leaves the call as it was.
func TestStopDuringARecallDecidesNothing(t *testing.T) {
	w := stopped(t, "once")
	ctx, cancel := context.WithCancel(t.Context())
	r := &recaller{world: w, recall: func(context.Context, *batch.Call) (*batch.Output, bool, error) {
		cancel()
		return nil, false, context.Canceled
	}}
	if _, err := w.engineWith(r).Resume(ctx, "r"); !errors.Is(err, context.Canceled) {
		t.Fatalf("Resume: %v", err)
	}
	r.recall = func(context.Context, *batch.Call) (*batch.Output, bool, error) {
		return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock("in time")}}, true, nil
	}
	b, err := w.engineWith(r).Resume(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	wantCall(t, b, 0, "completed/tool: in time")
}
