package host_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/plugins"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
)

const manifest = `
manifest = 1
id = "p"
version = "1.0.0"
description = "a plugin"
[module]
path = "p.wasm"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
abi = "extism"
[[tool]]
id = "t"
export = "t"
description = "a tool"
`

// parts are the scripted parts of a host.
type parts struct {
	mu    sync.Mutex
	ran   []batch.OperationID
	at    []time.Time
	delay func(batch.RunID) time.Duration
	gate  func(*batch.Query) *batch.Decision
	fail  error
}

func (*parts) Revision() string { return "rev" }
func (p *parts) Decide(_ context.Context, q *batch.Query) (*batch.Decision, error) {
	return p.gate(q), nil
}
func (*parts) RecoveryCapability(batch.ToolID) batch.RecoveryCapability { return batch.NonRecoverable }
func (p *parts) Invoke(ctx context.Context, c *batch.Call) (*batch.Output, error) {
	p.mu.Lock()
	p.ran, p.at = append(p.ran, c.Operation()), append(p.at, time.Now())
	p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	if p.delay != nil {
		select {
		case <-time.After(p.delay(c.Run)):
		case <-ctx.Done():
			return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "stopped", Err: ctx.Err()}
		}
	}
	return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock("done")}}, nil
}

func newHost(t *testing.T, p *parts, store batch.Store, options ...func(*host.Options)) *host.Host {
	t.Helper()
	m, err := plugins.ParseManifest("plugin.toml", []byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := plugins.NewClientPlugin([]plugins.HostTool{{ID: "ask", Description: "asks"}})
	if err != nil {
		t.Fatal(err)
	}
	delegates, err := plugins.NewDelegatePlugin([]plugins.HostTool{{ID: "delegate", Description: "delegates", Parallel: true}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plugins.NewSnapshot([]*plugins.Plugin{{Manifest: m, Digest: "d", OutputMiB: 1}, clients, delegates})
	if err != nil {
		t.Fatal(err)
	}
	r := &plugins.Registry{}
	r.Swap(s)
	o := host.Options{
		Store: store, Gate: p, Registry: r,
		Executors: map[batch.Target]batch.Executor{batch.TargetBrain: p},
	}
	for _, f := range options {
		f(&o)
	}
	h, err := host.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func submit(t *testing.T, h *host.Host, run batch.RunID) *host.Result {
	t.Helper()
	m, err := host.ParseMessage([]byte(`{"calls":[{"id":"c","tool":"p__t"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), host.Request{Run: run, Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func later(d time.Duration) func(*batch.Query) *batch.Decision {
	return func(q *batch.Query) *batch.Decision {
		if q.Approval != nil {
			return &batch.Decision{Outcome: batch.OutcomeAllow}
		}
		return &batch.Decision{Outcome: batch.OutcomeSchedule, At: q.Now.Add(d)}
	}
}

// TestTicketsFireWhenTheirTimeComes: with the host up, once each, and a slow run
// does not hold up another.
func TestTicketsFireWhenTheirTimeComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parts{delay: func(r batch.RunID) time.Duration {
			if r == "slow" {
				return time.Hour
			}
			return 0
		}}
		h := newHost(t, p, storetest.NewMemory())
		began := time.Now()
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.gate = later(10 * time.Minute)
		if r := submit(t, h, "slow"); !r.Parked() || r.Tickets[0].Kind != batch.TicketSchedule {
			t.Errorf("%+v", r)
		}
		p.gate = later(20 * time.Minute)
		submit(t, h, "quick")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		if len(p.ran) != 2 || p.ran[0] != "slow/1/0" || p.ran[1] != "quick/1/0" {
			t.Errorf("ran %v", p.ran)
		}
		for i, want := range []time.Duration{10 * time.Minute, 20 * time.Minute} {
			if got := p.at[i].Sub(began); got < want || got > want+2*time.Second {
				t.Errorf("call %d at %v, want %v", i, got, want)
			}
		}
		p.mu.Unlock()
		if r, err := h.Batch(t.Context(), "quick", 1); err != nil || r.Phase != batch.BatchFinalized {
			t.Errorf("quick: %+v, %v", r, err)
		}
		time.Sleep(2 * time.Hour)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if len(p.ran) != 2 {
			t.Errorf("ran %v", p.ran)
		}
	})
}

// TestStartContinues: a ticket that came due while the host was down fires at
// Start, once; one that waits goes on waiting.
func TestStartContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parts{}
		store := storetest.NewMemory()
		h := newHost(t, p, store)
		p.gate = later(time.Hour)
		submit(t, h, "due")
		p.gate = later(100 * time.Hour)
		submit(t, h, "waits")
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for range 2 {
			h = newHost(t, p, store)
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(p.ran) != 1 || p.ran[0] != "due/1/0" {
			t.Errorf("ran %v", p.ran)
		}
		runs, err := h.Runs(t.Context())
		if err != nil || len(runs) != 2 {
			t.Fatalf("runs %v, %v", runs, err)
		}
		for _, r := range runs {
			if want := map[batch.RunID]host.RunStatus{"due": host.RunIdle, "waits": host.RunParked}[r.Run]; r.Status != want {
				t.Errorf("run %s is %s", r.Run, r.Status)
			}
		}
	})
}

// TestOpenStep: the same message is recognised while its step is open, whatever
// recovery then does to it.
func TestOpenStep(t *testing.T) {
	p := &parts{gate: later(time.Hour)}
	h := newHost(t, p, storetest.NewMemory())
	submit(t, h, "r")
	same, _ := host.ParseMessage([]byte(`{"content":[{"type":"tool_use","id":"c","name":"p__t"}]}`))
	other, _ := host.ParseMessage([]byte(`{"calls":[{"id":"c2","tool":"p__t"}]}`))
	for _, c := range []struct {
		run  batch.RunID
		m    *host.Message
		want int
	}{{"r", same, 1}, {"r", other, 0}, {"none", same, 0}} {
		if got, err := h.OpenStep(t.Context(), c.run, c.m); got != c.want || err != nil {
			t.Errorf("run %s: %d, %v; want %d", c.run, got, err, c.want)
		}
	}
	p.gate = func(*batch.Query) *batch.Decision { return &batch.Decision{Outcome: batch.OutcomeAllow} }
	submit(t, h, "published")
	if got, err := h.OpenStep(t.Context(), "published", same); got != 0 || err != nil {
		t.Errorf("a published step: %d, %v", got, err)
	}
}

// TestCloseStopsWhatTheSchedulerStarted and leaves it to the next process.
func TestCloseStopsWhatTheSchedulerStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parts{delay: func(batch.RunID) time.Duration { return 1000 * time.Hour }, gate: later(time.Minute)}
		h := newHost(t, p, storetest.NewMemory())
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		submit(t, h, "r")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		v, err := h.Show(t.Context(), "r")
		if err != nil || v.Batches[0].Calls[0].Phase != batch.PhaseExecuting || v.Status != host.RunInterrupted {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

func TestParkedResultsShowNothingPartial(t *testing.T) {
	p := &parts{gate: func(q *batch.Query) *batch.Decision {
		if q.Call.Index == 0 || q.Approval != nil {
			return &batch.Decision{Outcome: batch.OutcomeAllow}
		}
		return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{Prompt: "ok?"}}
	}}
	h := newHost(t, p, storetest.NewMemory())
	m, _ := host.ParseMessage([]byte(`{"calls":[{"id":"a","tool":"p__t"},{"id":"b","tool":"p__t"}]}`))
	r, err := h.Run(t.Context(), host.Request{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Parked() || len(r.Results[0].Content) != 0 || r.Results[0].Disposition != batch.DispositionExecuted ||
		r.Results[1].Disposition != batch.DispositionPendingBuiltin || r.Results[1].Executed != nil || r.Tickets[0].Prompt != "ok?" {
		t.Errorf("%+v", r)
	}
	if r, err = h.Decide(t.Context(), r.Tickets[0].Ticket, batch.TicketAnswer{By: "bob", Approve: true}); err != nil {
		t.Fatal(err)
	}
	if r.Parked() || len(r.Results[0].Content) != 1 || len(r.Tickets) != 0 || r.Results[1].Executed.Target != batch.TargetBrain {
		t.Errorf("%+v", r)
	}
}
