package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// world is everything outside the engine, scripted: tools, a gate, an executor
// that remembers its effects over restarts, and a clock.
type world struct {
	t     *testing.T
	store batch.Store
	mem   *storetest.Memory
	log   batch.DecisionLog

	mu      sync.Mutex
	tools   map[batch.ToolID]*fakeTool
	gate    func(*batch.Query) (*batch.Decision, error)
	effects map[batch.OperationID][]int // attempts that reached the tool
	order   []batch.OperationID
	clock   time.Time
	events  map[batch.RunID][]batch.Event
}

type fakeTool struct {
	d       batch.Descriptor
	cap     batch.RecoveryCapability
	invoke  func(context.Context, *batch.Call) (*batch.Output, error)
	badArgs string
	badOut  error
}

func (f *fakeTool) Descriptor() batch.Descriptor { return f.d }
func (f *fakeTool) CheckArguments(a []byte) error {
	if f.badArgs != "" && strings.Contains(string(a), f.badArgs) {
		return errors.New("/x: not allowed")
	}
	return nil
}
func (f *fakeTool) CheckOutput(*batch.Output) error { return f.badOut }
func (f *fakeTool) CheckState(key string, v json.RawMessage) error {
	switch key {
	case "n":
		var n *int
		if v != nil && (json.Unmarshal(v, &n) != nil || n == nil) {
			return fmt.Errorf("value %s is not an integer", v)
		}
		return nil
	case "list":
		return nil
	}
	return errors.New("the key is not declared")
}

func newWorld(t *testing.T) *world {
	mem := storetest.NewMemory()
	w := &world{
		t: t, store: mem, mem: mem,
		tools:   map[batch.ToolID]*fakeTool{},
		effects: map[batch.OperationID][]int{},
		clock:   time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC),
		events:  map[batch.RunID][]batch.Event{},
	}
	w.gate = func(*batch.Query) (*batch.Decision, error) { return allow(), nil }
	w.tool("echo", batch.ReplaySafe, "replay_safe")
	w.tool("once", batch.NonRecoverable, batch.NeverReplay)
	return w
}

func allow() *batch.Decision {
	return &batch.Decision{Outcome: batch.OutcomeAllow, PolicyRevision: "rev"}
}

// tool adds a tool that answers with its arguments as text.
func (w *world) tool(id batch.ToolID, c batch.RecoveryCapability, p batch.RecoveryPolicy) *fakeTool {
	f := &fakeTool{
		d:   batch.Descriptor{ID: id, Plugin: "p", Digest: "d1", Target: batch.TargetBrain, Recovery: p},
		cap: c,
		invoke: func(_ context.Context, c *batch.Call) (*batch.Output, error) {
			return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock(string(c.Arguments))}}, nil
		},
	}
	w.tools[id] = f
	return f
}

func (w *world) Lookup(id batch.ToolID) (batch.Tool, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.tools[id]
	return f, ok
}
func (w *world) Fingerprint() string { return "catalog" }
func (w *world) Revision() string    { return "rev" }
func (w *world) Decide(_ context.Context, q *batch.Query) (*batch.Decision, error) {
	w.mu.Lock()
	g := w.gate
	w.mu.Unlock()
	return g(q)
}

func (w *world) RecoveryCapability(id batch.ToolID) batch.RecoveryCapability { return w.tools[id].cap }
func (w *world) Invoke(ctx context.Context, c *batch.Call) (*batch.Output, error) {
	w.mu.Lock()
	f := w.tools[c.Tool]
	w.effects[c.Operation()] = append(w.effects[c.Operation()], c.Attempt)
	w.order = append(w.order, c.Operation())
	w.mu.Unlock()
	return f.invoke(ctx, c)
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// engine is a fresh process over the same store.
func (w *world) engine() *batch.Engine { return w.engineWith(w) }

// engineWith is one with another executor.
func (w *world) engineWith(x batch.Executor) *batch.Engine {
	w.t.Helper()
	e, err := batch.NewEngine(batch.Options{
		Store: w.store, Gate: w, Catalog: func() batch.Catalog { return w },
		Executors: map[batch.Target]batch.Executor{batch.TargetBrain: x},
		Now:       w.now, RetryDelay: 1, MaxArgumentBytes: 1000, MaxOutputBytes: 2000, DecisionLog: w.log,
		Observe: func(r batch.RunID, ev []batch.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events[r] = append(w.events[r], ev...)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// request asks for the given calls, each "tool" or "tool args".
func request(run batch.RunID, step int, calls ...string) *batch.Request {
	r := &batch.Request{Run: run, Step: step}
	for i, c := range calls {
		tool, args, ok := strings.Cut(c, " ")
		if !ok {
			args = "{}"
		}
		r.Calls = append(r.Calls, batch.RequestedCall{
			ID: batch.CallID(fmt.Sprintf("c%d", i)), Tool: batch.ToolID(tool), Arguments: []byte(args),
		})
	}
	return r
}

func (w *world) submit(e *batch.Engine, run batch.RunID, calls ...string) *batch.Batch {
	w.t.Helper()
	b, err := e.Submit(w.t.Context(), request(run, 0, calls...))
	if err != nil {
		w.t.Fatalf("Submit: %v", err)
	}
	return b
}

// line is a call as "phase/answer: text".
func line(c *batch.CallState) string {
	s := string(c.Phase)
	if c.Answer != "" {
		s += "/" + string(c.Answer)
	}
	if c.Output != nil {
		if c.Output.IsError {
			s += "!"
		}
		s += ": " + c.Output.Text()
	}
	return s
}

func wantCall(t *testing.T, b *batch.Batch, i int, want string) {
	t.Helper()
	if got := line(&b.Calls[i]); !strings.HasPrefix(got, want) {
		t.Errorf("call %d is\n  %q, want\n  %q…", i, got, want)
	}
}

func (w *world) ticket() *batch.Ticket {
	w.t.Helper()
	ts, err := w.store.Tickets(w.t.Context(), batch.TicketFilter{Open: true})
	if err != nil || len(ts) != 1 {
		w.t.Fatalf("open tickets: %v, %v; want one", ts, err)
	}
	return ts[0]
}

func confirm(c batch.Confirmation) func(*batch.Query) (*batch.Decision, error) {
	return func(q *batch.Query) (*batch.Decision, error) {
		if q.Approval != nil {
			return allow(), nil
		}
		return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &c, PolicyRevision: "rev"}, nil
	}
}
