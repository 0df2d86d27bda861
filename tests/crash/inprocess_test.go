package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/standard"
)

// troupe plays the scene in this process: the host and its tools as they are declared
// on the stage, with an executor and a gate in Go, over any store.
type troupe struct {
	t       *testing.T
	options host.Options
	scene   []run
	check   *checker
	told    atomic.Int32 // injected faults that a caller heard of

	mu      sync.Mutex
	effects []happened
	journal []entry

	gate   func(*batch.Query) (*batch.Decision, error)             // nil: as the stage's policy
	invoke func(*batch.Call, *batch.Output) (*batch.Output, error) // nil: what the tool says
}

// stageTools loads the tools that the stage declares, for any number of hosts.
func stageTools(t *testing.T, config string) func(*host.Options) {
	t.Helper()
	snapshot, _, err := standard.LoadTools(t.Context(), config, standard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *host.Options) {
		o.Registry = empty(o.Registry)
		o.Registry.Swap(snapshot)
	}
}

func newTroupe(t *testing.T, tools func(*host.Options), store batch.Store, scene []run) *troupe {
	t.Helper()
	p := &troupe{t: t, scene: scene, check: newChecker(scene)}
	p.options = host.Options{
		Store: store, Gate: p, Logger: slog.New(slog.DiscardHandler),
		Executors: map[batch.Target]batch.Executor{batch.TargetBrain: p},
		Observe:   p.observe,
	}
	tools(&p.options)
	return p
}

// empty is a new value of the type that p points to, whatever it is called.
func empty[T any](*T) *T { return new(T) }

func (p *troupe) host() *host.Host {
	p.t.Helper()
	h, err := host.New(p.options)
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

func (p *troupe) observe(run batch.RunID, events []batch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal = append(p.journal, entry{Commit: &commit{run, append([]batch.Event(nil), events...)}})
}

func (*troupe) Revision() string { return "stage" }

// Decide implements batch.Gate.
func (p *troupe) Decide(_ context.Context, q *batch.Query) (*batch.Decision, error) {
	if p.gate != nil {
		return p.gate(q)
	}
	var args struct{ Want string }
	_ = json.Unmarshal(q.Call.Arguments, &args)
	d := &batch.Decision{Outcome: batch.OutcomeAllow, PolicyRevision: p.Revision()}
	if q.Approval != nil {
		return d, nil
	}
	switch args.Want {
	case "block":
		d.Outcome = batch.OutcomeBlock
	case "answer":
		d.Outcome, d.Result = batch.OutcomeSetResult, &batch.Result{Content: []batch.ContentBlock{batch.TextBlock("answered by policy")}}
	case "confirm":
		d.Outcome, d.Confirmation = batch.OutcomeRequireConfirmation, &batch.Confirmation{Prompt: "Shall it run?"}
	case "later":
		d.Outcome, d.At = batch.OutcomeSchedule, q.Now.Add(40*time.Millisecond)
	}
	return d, nil
}

// RecoveryCapability implements batch.Executor.
func (p *troupe) RecoveryCapability(id batch.ToolID) batch.RecoveryCapability {
	switch id {
	case toolSafe, toolSafeOnce:
		return batch.ReplaySafe
	case toolIdempotent, toolIdempotentOnce:
		return batch.Idempotent
	case toolDurable, toolDurableOnce:
		return batch.DurableRequest
	}
	return batch.NonRecoverable
}

// Invoke implements batch.Executor.
func (p *troupe) Invoke(ctx context.Context, c *batch.Call) (*batch.Output, error) {
	h := happened{c.Run, c.Batch(), c.Operation(), c.Attempt, c.Tool}
	p.mu.Lock()
	p.effects = append(p.effects, h)
	p.mu.Unlock()
	var args struct{ MS, N int }
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, &batch.ToolError{Kind: batch.ToolErrorInvalidArguments, Msg: err.Error()}
	}
	select {
	case <-time.After(time.Duration(args.MS) * time.Millisecond):
	case <-ctx.Done():
		return nil, &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "stopped", Err: ctx.Err()}
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	out := &batch.Output{CallID: c.ID, Content: []batch.ContentBlock{batch.JSONBlock(text)}}
	if args.N != 0 {
		n := json.RawMessage(fmt.Sprint(args.N))
		out.State = []batch.Command{
			{Op: batch.OpIncrement, Key: "total", Value: n}, {Op: batch.OpAppend, Key: "entries", Value: n}, {Op: batch.OpSet, Key: "last", Value: n},
		}
	}
	if p.invoke != nil {
		return p.invoke(c, out)
	}
	return out, nil
}

// look checks what is committed, through a view that no fault reaches.
func (p *troupe) look(store batch.Store, settled bool) {
	p.t.Helper()
	h, err := readHistory(p.t.Context(), host.NewLedger(store))
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.check.look(h, p.journal, p.effects, settled) {
		p.t.Error(v)
	}
}

// play brings every run of the scene to its end, one after the other, on hosts that
// next returns, and asks again after every injected fault. Whatever a fault left is
// looked at before it goes on.
func (p *troupe) play(store batch.Store, next func() *host.Host) {
	p.t.Helper()
	var h atomic.Pointer[host.Host]
	h.Store(next())
	try := func(f func(*host.Host) error) bool {
		p.t.Helper()
		switch err := f(h.Load()); {
		case err == nil:
			return true
		case !errors.Is(err, storetest.ErrInjected):
			p.t.Fatal(err)
		}
		p.told.Add(1)
		p.look(store, false)
		h.Store(next())
		return false
	}
	for _, x := range p.scene {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if x.cancel {
				p.cancel(x.id, &h)
			}
		}()
		for step := 1; step <= len(x.steps); {
			var r *host.Result
			ok := try(func(h *host.Host) (err error) {
				r, err = p.submit(h, x, step)
				return err
			})
			switch {
			case ok && r != nil && r.Phase == batch.BatchFinalized:
				step++
				continue
			case ok && r != nil && !x.cancel:
				for _, t := range r.Tickets {
					try(func(h *host.Host) error { return p.answer(h, t) })
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		<-done
	}
}

// submit is nil without an error while the run is being cancelled.
func (p *troupe) submit(h *host.Host, x run, step int) (*host.Result, error) {
	m, err := host.ParseMessage([]byte(message(x.steps[step-1])))
	if err != nil {
		return nil, err
	}
	r, err := h.Run(p.t.Context(), host.Request{Run: x.id, Step: step, Principal: submitter, Message: m})
	if x.cancel && errors.Is(err, batch.ErrCancelled) {
		return nil, nil
	}
	return r, err
}

func (p *troupe) answer(h *host.Host, t host.TicketView) (err error) {
	switch t.Kind {
	case batch.TicketPermission:
		_, err = h.Decide(p.t.Context(), t.Ticket, batch.TicketAnswer{By: approver, Approve: approves(t.CallID)})
	case batch.TicketExternalResult:
		_, err = h.Supply(p.t.Context(), t.Ticket, batch.ExternalResult{By: "client", Content: []batch.ContentBlock{batch.TextBlock(suppliedText(t.Ticket))}})
	}
	if errors.Is(err, batch.ErrTicketClosed) {
		return nil // the try that met the fault had taken it
	}
	return err
}

// cancel ends a run once it is there, and asks until a cancel is taken.
func (p *troupe) cancel(id batch.RunID, h *atomic.Pointer[host.Host]) {
	for {
		time.Sleep(70 * time.Millisecond)
		_, err := h.Load().Cancel(p.t.Context(), id, "owner", "the scene asks for it")
		switch {
		case errors.Is(err, storetest.ErrInjected):
			p.told.Add(1)
		case errors.Is(err, batch.ErrNotFound):
		case err == nil, errors.Is(err, batch.ErrCancelled):
			return
		default:
			p.t.Error(err)
			return
		}
	}
}

// memoryRecorder collects the effects of real tools in this process.
type memoryRecorder struct {
	mu   sync.Mutex
	seen map[batch.OperationID]int
}

func (r *memoryRecorder) logger() *slog.Logger {
	return slog.New(guestLog{slog.DiscardHandler, func(text string) {
		var h happened
		_ = json.Unmarshal([]byte(text), &h)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.seen == nil {
			r.seen = map[batch.OperationID]int{}
		}
		r.seen[h.Operation]++
	}})
}

func (r *memoryRecorder) count(op batch.OperationID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[op]
}
