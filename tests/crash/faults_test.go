package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/standard"
)

// submitCalls runs calls as the next step of a run.
func submitCalls(ctx context.Context, h *host.Host, id batch.RunID, calls ...call) (*host.Result, error) {
	m, err := host.ParseMessage([]byte(message(calls)))
	if err != nil {
		return nil, err
	}
	return h.Run(ctx, host.Request{Run: id, Principal: submitter, Message: m})
}

func text(c host.CallResult) string { return (&batch.Output{Content: c.Content}).Text() }

// TestGatePanics: the call is blocked and says why to the operator; the calls after it
// and other runs go on.
func TestGatePanics(t *testing.T) {
	config, _ := newStage(t, "")
	p := newTroupe(t, stageTools(t, config), storetest.NewMemory(), nil)
	p.gate = func(q *batch.Query) (*batch.Decision, error) {
		if q.Run.ID == "r" && q.Call.Index == 1 {
			panic("a rule divides by zero")
		}
		return &batch.Decision{Outcome: batch.OutcomeAllow}, nil
	}
	h := p.host()
	r, err := submitCalls(t.Context(), h, "r", effect(toolOnce, 0, 1), effect(toolOnce, 0, 2), effect(toolOnce, 0, 3))
	if err != nil || r.Phase != batch.BatchFinalized {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.Results[0].IsError || !r.Results[1].IsError || r.Results[2].IsError || !strings.Contains(text(r.Results[1]), "blocked by policy") {
		t.Errorf("%+v", r.Results)
	}
	v, err := h.Show(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	c := v.Batches[0].Calls[1]
	if c.Answer != batch.AnswerBlocked || len(c.Decisions) != 1 || c.Decisions[0].Reasons[0].Code != batch.ReasonGateFailed {
		t.Errorf("%+v", c)
	}
	if r, err := submitCalls(t.Context(), h, "other", effect(toolOnce, 0, 1)); err != nil || r.Results[0].IsError {
		t.Errorf("another run: %+v, %v", r, err)
	}
	if len(p.effects) != 3 {
		t.Errorf("effects %v", p.effects)
	}
}

// TestOutputOfAnotherCall: an output that names another call is nobody's result. The
// call is repeated where policy lets it, and is indeterminate where not.
func TestOutputOfAnotherCall(t *testing.T) {
	config, _ := newStage(t, "")
	p := newTroupe(t, stageTools(t, config), storetest.NewMemory(), nil)
	p.invoke = func(c *batch.Call, out *batch.Output) (*batch.Output, error) {
		if c.Attempt == 1 {
			out.CallID = "call-9"
		}
		return out, nil
	}
	h := p.host()
	r, err := submitCalls(t.Context(), h, "r", effect(toolOnce, 0, 1), effect(toolSafe, 0, 2))
	if err != nil || r.Phase != batch.BatchFinalized {
		t.Fatalf("%+v, %v", r, err)
	}
	if c := r.Results[0]; c.Phase != batch.PhaseIndeterminate || !strings.Contains(text(c), "the output of call") {
		t.Errorf("not to be repeated: %+v", c)
	}
	if c := r.Results[1]; c.Phase != batch.PhaseCompleted || c.IsError || !strings.Contains(text(c), `"attempt":2`) {
		t.Errorf("may be repeated: %+v", c)
	}
	v, err := h.Show(t.Context(), "r")
	if err != nil || string(v.State["effect/total"]) != "2" {
		t.Errorf("state %s, %v", v.State, err)
	}
}

// TestHangingToolHoldsItsRunOnly: a tool that hangs, and does not listen, holds its
// own run until it is cancelled, and no other.
func TestHangingToolHoldsItsRunOnly(t *testing.T) {
	config, _ := newStage(t, "")
	tools := stageTools(t, config)
	synctest.Test(t, func(t *testing.T) {
		p := newTroupe(t, tools, storetest.NewMemory(), nil)
		release := make(chan struct{})
		p.invoke = func(c *batch.Call, out *batch.Output) (*batch.Output, error) {
			if c.Run == "hangs" {
				<-release
			}
			return out, nil
		}
		h := p.host()
		done := make(chan error)
		go func() {
			_, err := submitCalls(t.Context(), h, "hangs", effect(toolOnce, 0, 1), effect(toolOnce, 0, 2))
			done <- err
		}()
		synctest.Wait()
		for i := range 3 {
			if r, err := submitCalls(t.Context(), h, batch.RunID(fmt.Sprint("other-", i)), effect(toolOnce, 0, 1)); err != nil || r.Results[0].IsError {
				t.Errorf("another run: %+v, %v", r, err)
			}
		}
		if _, err := h.Cancel(t.Context(), "hangs", "operator", "it hangs"); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, batch.ErrCancelled) {
			t.Errorf("the run that hung: %v", err)
		}
		close(release)
		synctest.Wait()
		r, err := h.Batch(t.Context(), "hangs", 1)
		if err != nil || r.Results[0].Phase != batch.PhaseIndeterminate || r.Results[1].Phase != batch.PhaseCompleted || !r.Results[1].IsError {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// openHost opens the stage's real host over dir, with effects collected in memory.
func openHost(t *testing.T, config, dir string, r *memoryRecorder) *host.Host {
	t.Helper()
	h, err := standard.Open(t.Context(), config, standard.Options{DataDir: filepath.Join(dir, dataName), Logger: r.logger()})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestDecisionWhileTheHostStops: a decision that comes while the host closes is taken,
// and then it is on disk and its call goes on at the next start; or it is refused, and
// then the ticket is as it was. Whatever it is, the call runs at most once.
func TestDecisionWhileTheHostStops(t *testing.T) {
	config, dir := newStage(t, "")
	taken := 0
	for i := range 8 {
		r := &memoryRecorder{}
		world := filepath.Join(dir, fmt.Sprint("stops-", i))
		h := openHost(t, config, world, r)
		res, err := submitCalls(t.Context(), h, "r", asked(kindConfirmed, toolOnce, 1, "confirm"), effect(toolSafe, 1, 2))
		if err != nil || len(res.Tickets) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		ticket := res.Tickets[0].Ticket
		ctx, stop := context.WithCancel(t.Context())
		decided := make(chan error)
		go func() {
			_, err := h.Decide(ctx, ticket, batch.TicketAnswer{By: approver, Approve: true})
			decided <- err
		}()
		time.Sleep(time.Duration(i) * 450 * time.Microsecond)
		stop()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		decideErr := <-decided

		h = openHost(t, config, world, r)
		before, err := h.Ticket(t.Context(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case decideErr == nil && before.Status != batch.TicketApproved:
			t.Errorf("the decision was taken, the ticket is %s", before.Status)
		case before.Status == batch.TicketApproved:
			taken++
		case before.Status != batch.TicketOpen || len(before.Decisions) != 0:
			t.Errorf("the decision was refused (%v), the ticket is %+v", decideErr, before)
		}
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if before.Status == batch.TicketOpen {
			_, err = h.Decide(t.Context(), ticket, batch.TicketAnswer{By: approver, Approve: true})
		} else if _, err = h.Decide(t.Context(), ticket, batch.TicketAnswer{By: approver, Approve: true}); errors.Is(err, batch.ErrTicketClosed) {
			err = nil
		}
		if err != nil {
			t.Errorf("decided after the start: %v", err)
		}
		if res, err = h.Batch(t.Context(), "r", 1); err != nil || res.Phase != batch.BatchFinalized {
			t.Errorf("%+v, %v", res, err)
		}
		if n := r.count("r/1/0"); n > 1 || n == 0 && res.Results[0].Phase == batch.PhaseCompleted {
			t.Errorf("the call ran %d times and is %s", n, res.Results[0].Phase)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of 8 decisions were taken before the host stopped", taken)
}

// TestResumesRace: many decide, resume and submit again at once. One decision is
// taken, and each call runs once.
func TestResumesRace(t *testing.T) {
	config, dir := newStage(t, "")
	r := &memoryRecorder{}
	h := openHost(t, config, dir, r)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := []call{asked(kindConfirmed, toolOnce, 1, "confirm"), effect(toolOnce, 1, 2), asked(kindScheduled, toolOnce, 3, "later"), effect(toolOnce, 1, 4)}
	res, err := submitCalls(t.Context(), h, "r", calls...)
	if err != nil || len(res.Tickets) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	ticket := res.Tickets[0].Ticket
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		taken int
	)
	for i := range 8 {
		wg.Go(func() {
			_, err := h.Decide(t.Context(), ticket, batch.TicketAnswer{By: fmt.Sprint("person-", i), Approve: true})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				taken++
			} else if !errors.Is(err, batch.ErrTicketClosed) {
				t.Errorf("Decide: %v", err)
			}
		})
		wg.Go(func() {
			m, err := host.ParseMessage([]byte(message(calls)))
			for err == nil {
				var res *host.Result
				if res, err = h.Run(t.Context(), host.Request{Run: "r", Step: 1, Message: m}); err == nil && res.Phase == batch.BatchFinalized {
					return
				}
			}
			t.Errorf("Run: %v", err)
		})
	}
	wg.Wait()
	if taken != 1 {
		t.Errorf("%d decisions were taken", taken)
	}
	for i := range calls {
		if op := batch.NewOperationID("r", 1, i); r.count(op) != 1 {
			t.Errorf("%s ran %d times", op, r.count(op))
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
