package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// fakeLog remembers what it was told, and fails where the test says so.
type fakeLog struct {
	w *world

	mu     sync.Mutex
	begun  map[string]bool
	lines  []string
	ready  error
	refuse func(*batch.DecisionRecord) error
}

func newFakeLog(w *world) *fakeLog {
	l := &fakeLog{w: w, begun: map[string]bool{}, refuse: func(*batch.DecisionRecord) error { return nil }}
	w.log = l
	return l
}

func (l *fakeLog) Ready(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

func (l *fakeLog) Begin(_ context.Context, r *batch.DecisionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun[fmt.Sprint(r.Operation, "/", r.Seq)] = true
}

func (l *fakeLog) Log(ctx context.Context, r *batch.DecisionRecord, c *batch.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := fmt.Sprint(r.Operation, "/", r.Seq)
	if !l.begun[id] {
		l.w.t.Errorf("%s was not announced", id)
	}
	if c.Operation() != r.Operation || c.ArgumentDigest() != r.ArgumentDigest {
		l.w.t.Errorf("record %s came with call %s", id, c.Operation())
	}
	run, _, _ := strings.Cut(id, "/")
	there, err := l.w.store.Decisions(ctx, batch.RunID(run))
	if err != nil || !slices.ContainsFunc(there, func(d *batch.DecisionRecord) bool { return d.Operation == r.Operation && d.Seq == r.Seq }) {
		l.w.t.Errorf("%s is logged and not committed: %v", id, err)
	}
	l.w.mu.Lock()
	if r.Outcome == batch.OutcomeAllow && len(l.w.effects[r.Operation]) > 0 {
		l.w.t.Errorf("%s ran before it was logged", r.Operation)
	}
	l.w.mu.Unlock()
	if err := l.refuse(r); err != nil {
		return err
	}
	code := ""
	if len(r.Reasons) > 0 {
		code = " " + r.Reasons[0].Code
	}
	l.lines = append(l.lines, id+" "+string(r.Outcome)+code)
	return nil
}

func (l *fakeLog) want(lines ...string) {
	l.w.t.Helper()
	if !slices.Equal(l.lines, lines) {
		l.w.t.Errorf("logged\n  %s\nwant\n  %s", strings.Join(l.lines, "\n  "), strings.Join(lines, "\n  "))
	}
}

var errDisk = errors.New("no space left on /var/log")

// Whatever becomes of a call, it leaves one record, and the log hears of each once.
func TestEveryCallLeavesOneRecord(t *testing.T) {
	decide := func(d batch.Decision) func(*batch.Query) (*batch.Decision, error) {
		return func(*batch.Query) (*batch.Decision, error) { return &d, nil }
	}
	reason := func(code string) []batch.Reason { return []batch.Reason{{Code: code}} }
	for name, c := range map[string]struct {
		call string
		gate func(*batch.Query) (*batch.Decision, error)
		want string
	}{
		"allowed":            {"once", decide(*allow()), "allow"},
		"blocked":            {"once", decide(batch.Decision{Outcome: batch.OutcomeBlock, Reasons: reason("no_rule")}), "block no_rule"},
		"timed out":          {"once", decide(batch.Decision{Outcome: batch.OutcomeBlock, Reasons: reason("timeout")}), "block timeout"},
		"the tool times out": {"slow", decide(*allow()), "allow"},
		"the tool breaks":    {"broken", decide(*allow()), "allow"},
		"answered":           {"once", decide(batch.Decision{Outcome: batch.OutcomeSetResult, Result: &batch.Result{Content: text("x")}}), "set_result"},
		"unknown tool":       {"missing", decide(*allow()), "block unknown_tool"},
		"invalid arguments":  {"bad x", decide(*allow()), "block invalid_arguments"},
		"large arguments":    {"once " + strings.Repeat("x", 1001), decide(*allow()), "block invalid_arguments"},
		"changed tool":       {"changing", decide(*allow()), "block tool_changed"},
		"gate failed":        {"once", func(*batch.Query) (*batch.Decision, error) { return nil, errDisk }, "block gate_failed"},
		"gate panicked":      {"once", func(*batch.Query) (*batch.Decision, error) { panic("x") }, "block gate_failed"},
		"odd decision":       {"once", decide(batch.Decision{Outcome: "perhaps"}), "block odd_shape"},
		"no decision":        {"once", func(*batch.Query) (*batch.Decision, error) { return nil, nil }, "block gate_failed"},
		"confirmation":       {"once", confirm(batch.Confirmation{}), "require_confirmation"},
		"schedule":           {"once", decide(batch.Decision{Outcome: batch.OutcomeSchedule, At: newWorld(t).clock.Add(1e9)}), "schedule"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := newFakeLog(w)
			w.gate = c.gate
			w.tool("bad", batch.NonRecoverable, batch.NeverReplay).badArgs = "x"
			w.tool("slow", batch.NonRecoverable, batch.NeverReplay).invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
				return nil, context.DeadlineExceeded
			}
			w.tool("broken", batch.NonRecoverable, batch.NeverReplay).invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
				panic("x")
			}
			changing := w.tool("changing", batch.NonRecoverable, batch.NeverReplay)
			e := w.engine()
			if c.call == "changing" { // between the request and the decision of the second call
				w.gate = func(*batch.Query) (*batch.Decision, error) {
					changing.d.Digest = "d2"
					return allow(), nil
				}
				w.submit(e, "r", "once", c.call)
				l.want("r/1/0/1 allow", "r/1/1/1 "+c.want)
				return
			}
			w.submit(e, "r", c.call)
			l.want("r/1/0/1 " + c.want)
			if ds, err := w.store.Decisions(t.Context(), "r"); err != nil || len(ds) != 1 {
				t.Errorf("%d records, %v", len(ds), err)
			}
		})
	}
}

func TestEveryResumeLeavesOneRecord(t *testing.T) {
	w := newWorld(t)
	l := newFakeLog(w)
	w.gate = confirm(batch.Confirmation{})
	e := w.engine()
	w.submit(e, "r", "once", "once")
	if _, err := e.Decide(t.Context(), w.ticket().ID, yes("bob")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Decide(t.Context(), w.ticket().ID, batch.TicketAnswer{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	l.want("r/1/0/1 require_confirmation", "r/1/0/2 allow", "r/1/1/1 require_confirmation")
}

// While the log is known to be gone an allow becomes a block, and that is the record.
func TestNothingRunsWithoutALog(t *testing.T) {
	w := newWorld(t)
	l := newFakeLog(w)
	l.ready = errDisk
	e := w.engine()
	b := w.submit(e, "r", "once")
	wantCall(t, b, 0, "completed/blocked!: blocked by policy: the decision cannot be logged")
	if strings.Contains(b.Calls[0].Output.Text(), "/var/log") {
		t.Error("the model learns about the host")
	}
	l.want("r/1/0/1 block log_unavailable")
	ds, _ := w.store.Decisions(t.Context(), "r")
	if len(ds) != 1 || !strings.Contains(ds[0].Reasons[0].Detail, errDisk.Error()) || len(w.order) != 0 {
		t.Errorf("%d records, ran %v", len(ds), w.order)
	}
	l.ready = nil
	wantCall(t, w.submit(e, "r", "once"), 0, "completed/tool")
}

// When the log fails as the allow is committed, the call ends all the same, with a
// second record, and the calls after it go on.
func TestAnAllowThatCannotBeLogged(t *testing.T) {
	refuse := func(l *fakeLog, op batch.OperationID) {
		l.refuse = func(r *batch.DecisionRecord) error {
			if r.Operation == op && r.Outcome == batch.OutcomeAllow {
				return errDisk
			}
			return nil
		}
	}
	t.Run("tool", func(t *testing.T) {
		w := newWorld(t)
		l := newFakeLog(w)
		refuse(l, "r/1/0")
		b := w.submit(w.engine(), "r", "once", "once")
		wantCall(t, b, 0, "completed/blocked!: blocked by policy: the decision cannot be logged")
		wantCall(t, b, 1, "completed/tool")
		l.want("r/1/0/2 block log_unavailable", "r/1/1/1 allow")
		r, _ := w.store.Run(t.Context(), "r")
		if len(w.order) != 1 || r.Counts["once"] != 1 {
			t.Errorf("ran %v, counted %v", w.order, r.Counts)
		}
	})
	t.Run("after an approval", func(t *testing.T) {
		w := newWorld(t)
		l := newFakeLog(w)
		refuse(l, "r/1/0")
		w.gate = confirm(batch.Confirmation{})
		e := w.engine()
		w.submit(e, "r", "once")
		b, err := e.Decide(t.Context(), w.ticket().ID, yes("bob"))
		if err != nil {
			t.Fatal(err)
		}
		wantCall(t, b, 0, "completed/blocked!")
		l.want("r/1/0/1 require_confirmation", "r/1/0/3 block log_unavailable")
	})
	t.Run("tool of the client", func(t *testing.T) {
		w := newWorld(t)
		l := newFakeLog(w)
		refuse(l, "r/1/0")
		f := w.tool("ask", batch.NonRecoverable, batch.NeverReplay)
		f.d.Client, f.d.Target = true, batch.TargetClient
		b := w.submit(w.engine(), "r", "ask")
		wantCall(t, b, 0, "completed/blocked!")
		l.want("r/1/0/2 block log_unavailable")
		if ts, _ := w.store.Tickets(t.Context(), batch.TicketFilter{}); len(ts) != 1 || ts[0].Status != batch.TicketCancelled {
			t.Errorf("tickets %+v", ts)
		}
	})
	t.Run("delegations", func(t *testing.T) {
		w := newWorld(t)
		l := newFakeLog(w)
		refuse(l, "r/1/1")
		e, s := w.delegating(true)
		b := w.submit(e, "r", `spawn bad`, `spawn bad`, `spawn bad`)
		wantCall(t, b, 0, "completed/tool!: no such child")
		wantCall(t, b, 1, "completed/blocked!")
		wantCall(t, b, 2, "completed/tool!: no such child")
		if s.invocations["r/1/1"] != 0 || b.Phase != batch.BatchFinalized {
			t.Errorf("invoked %v, %s", s.invocations, b.Phase)
		}
	})
	t.Run("delegations without a log", func(t *testing.T) {
		w := newWorld(t)
		l := newFakeLog(w)
		l.ready = errDisk
		e, s := w.delegating(true)
		b := w.submit(e, "r", `spawn bad`, `spawn bad`)
		wantCall(t, b, 0, "completed/blocked!")
		wantCall(t, b, 1, "completed/blocked!")
		l.want("r/1/0/1 block log_unavailable", "r/1/1/1 block log_unavailable")
		if len(s.invocations) != 0 {
			t.Errorf("invoked %v", s.invocations)
		}
	})
}

// A call is not repeated after a crash before its decision is logged.
func TestRecoveryWaitsForTheLog(t *testing.T) {
	w := newWorld(t)
	l := newFakeLog(w)
	ctx, stop := context.WithCancel(t.Context())
	w.tools["echo"].invoke = func(context.Context, *batch.Call) (*batch.Output, error) {
		stop()
		return nil, errDisk
	}
	if _, err := w.engine().Submit(ctx, request("r", 1, "echo")); err == nil {
		t.Fatal("the stop was not seen")
	}
	w.tools["echo"].invoke = func(context.Context, *batch.Call) (*batch.Output, error) { return &batch.Output{}, nil }
	l.ready = errDisk
	e := w.engine()
	if _, err := e.Recover(t.Context()); !errors.Is(err, batch.ErrLogUnavailable) {
		t.Errorf("recovered: %v", err)
	}
	b, _ := w.store.Batch(t.Context(), "r", 1)
	wantCall(t, b, 0, "executing")
	l.ready = nil
	if _, err := e.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, _ = w.store.Batch(t.Context(), "r", 1)
	wantCall(t, b, 0, "completed/tool")
	if n := len(w.effects["r/1/0"]); n != 2 {
		t.Errorf("%d attempts", n)
	}
}
