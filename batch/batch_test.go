package batch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// inPhase returns a batch of one call brought to p by legal transitions.
func inPhase(t *testing.T, p batch.Phase) *batch.Batch {
	t.Helper()
	b := &batch.Batch{Run: "r", Step: 1, Phase: batch.BatchOpen, Calls: []batch.CallState{{
		Call:  batch.Call{Run: "r", Step: 1, ID: "c", Tool: "t"},
		Pin:   batch.Pin{ToolDigest: "d", MaxAttempts: 2, Policy: "replay_safe", Capability: batch.ReplaySafe},
		Phase: batch.PhaseRequested,
	}}}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	switch p {
	case batch.PhaseAwaiting:
		must(b.Await(0, "tk"))
	case batch.PhaseExecuting:
		must(b.Start(0, nil, at))
	case batch.PhaseCompleted:
		must(b.Start(0, nil, at))
		must(b.Complete(0, &batch.Output{CallID: "c"}, batch.AnswerTool, at))
	case batch.PhaseIndeterminate:
		must(b.Start(0, nil, at))
		must(b.GiveUp(0, "why", at))
	}
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTransitions tries every move from every phase against the table of legal
// ones.
func TestTransitions(t *testing.T) {
	out := func() *batch.Output { return &batch.Output{CallID: "c"} }
	complete := func(by batch.Answer) func(*batch.Batch) error {
		return func(b *batch.Batch) error { return b.Complete(0, out(), by, at) }
	}
	moves := []struct {
		name string
		do   func(*batch.Batch) error
		from string // phases it is legal from: Requested Awaiting Executing Completed Indeterminate
	}{
		{"start", func(b *batch.Batch) error { return b.Start(0, nil, at) }, "RAE"},
		{"await", func(b *batch.Batch) error { return b.Await(0, "other") }, "RA"},
		{"await without ticket", func(b *batch.Batch) error { return b.Await(0, "") }, ""},
		{"give up", func(b *batch.Batch) error { return b.GiveUp(0, "why", at) }, "E"},
		{"give up without reason", func(b *batch.Batch) error { return b.GiveUp(0, "", at) }, ""},
		{"finalize", func(b *batch.Batch) error { return b.Finalize(at) }, "CI"},
		{"no such call", func(b *batch.Batch) error { return b.Start(1, nil, at) }, ""},
		{"negative call", func(b *batch.Batch) error { return b.Start(-1, nil, at) }, ""},
		{"tool", complete(batch.AnswerTool), "E"},
		{"failed", complete(batch.AnswerFailed), "E"},
		{"policy", complete(batch.AnswerPolicy), "RA"},
		{"blocked", complete(batch.AnswerBlocked), "RAE"},
		{"changed", complete(batch.AnswerChanged), "RA"},
		{"invalid", complete(batch.AnswerInvalid), "RAE"},
		{"placement", complete(batch.AnswerPlacement), "RAE"},
		{"denied", complete(batch.AnswerDenied), "A"},
		{"expired", complete(batch.AnswerExpired), "A"},
		{"external", complete(batch.AnswerExternal), "A"},
		{"no answer", complete(""), ""},
		{"made-up answer", complete("x"), ""},
		{"no output", func(b *batch.Batch) error { return b.Complete(0, nil, batch.AnswerTool, at) }, ""},
		{"output of another call", func(b *batch.Batch) error {
			return b.Complete(0, &batch.Output{CallID: "d"}, batch.AnswerTool, at)
		}, ""},
		{"error output with state", func(b *batch.Batch) error {
			return b.Complete(0, &batch.Output{CallID: "c", IsError: true, State: []batch.Command{{}}}, batch.AnswerTool, at)
		}, ""},
		{"output with a bad block", func(b *batch.Batch) error {
			return b.Complete(0, &batch.Output{CallID: "c", Content: []batch.ContentBlock{{Type: "video"}}}, batch.AnswerTool, at)
		}, ""},
	}
	phases := map[string]batch.Phase{
		"R": batch.PhaseRequested, "A": batch.PhaseAwaiting, "E": batch.PhaseExecuting,
		"C": batch.PhaseCompleted, "I": batch.PhaseIndeterminate,
	}
	for _, m := range moves {
		for letter, p := range phases {
			b := inPhase(t, p)
			before := fmt.Sprintf("%+v", *b)
			err := m.do(b)
			if legal := strings.Contains(m.from, letter); legal != (err == nil) {
				t.Errorf("%s from %s: legal = %v, err = %v", m.name, p, legal, err)
			}
			if err != nil && !errors.Is(err, batch.ErrTransition) {
				t.Errorf("%s from %s: %v does not wrap ErrTransition", m.name, p, err)
			}
			if err != nil && fmt.Sprintf("%+v", *b) != before {
				t.Errorf("%s from %s was refused and changed the batch", m.name, p)
			}
			if err == nil {
				if err := b.Validate(); err != nil {
					t.Errorf("%s from %s leaves an invalid batch: %v", m.name, p, err)
				}
			}
		}
	}
}

func TestTransitionsOfAFinalizedBatch(t *testing.T) {
	b := inPhase(t, batch.PhaseCompleted)
	if err := b.Finalize(at); err != nil {
		t.Fatal(err)
	}
	if err := b.Finalize(at); !errors.Is(err, batch.ErrTransition) {
		t.Errorf("a second Finalize: %v", err)
	}
	if err := b.Start(0, nil, at); !errors.Is(err, batch.ErrTransition) {
		t.Errorf("Start after Finalize: %v", err)
	}
}

func TestAttemptBudget(t *testing.T) {
	b := inPhase(t, batch.PhaseExecuting)
	if err := b.Start(0, nil, at); err != nil {
		t.Fatalf("second of two attempts: %v", err)
	}
	if err := b.Calls[0].MayReplay(); err == nil {
		t.Error("MayReplay with no attempt left")
	}
	if err := b.Start(0, nil, at); !errors.Is(err, batch.ErrTransition) {
		t.Errorf("third of two attempts: %v", err)
	}
}

func TestModelOrder(t *testing.T) {
	b := inPhase(t, batch.PhaseRequested)
	second := b.Calls[0]
	second.Call.ID, second.Call.Index = "d", 1
	b.Calls = append(b.Calls, second)
	if err := b.Start(1, nil, at); !errors.Is(err, batch.ErrTransition) {
		t.Errorf("second call before the first: %v", err)
	}
	if err := b.Await(0, "tk"); err != nil {
		t.Fatal(err)
	}
	if err := b.Await(1, "tk2"); !errors.Is(err, batch.ErrTransition) {
		t.Errorf("second awaiting call: %v", err)
	}
}

func TestValidate(t *testing.T) {
	two := func(b *batch.Batch) {
		c := b.Calls[0]
		c.Call.Index, c.Call.ID = 1, "d"
		b.Calls = append(b.Calls, c)
	}
	for name, spoil := range map[string]func(*batch.Batch){
		"run id":              func(b *batch.Batch) { b.Run = "a/b" },
		"step 0":              func(b *batch.Batch) { b.Step = 0 },
		"unknown phase":       func(b *batch.Batch) { b.Phase = "half" },
		"no calls":            func(b *batch.Batch) { b.Calls = nil },
		"too many calls":      func(b *batch.Batch) { b.Calls = make([]batch.CallState, batch.MaxCalls+1) },
		"duplicate call id":   func(b *batch.Batch) { two(b); b.Calls[1].Call.ID = "c" },
		"two awaiting":        func(b *batch.Batch) { _ = b.Await(0, "tk"); two(b) },
		"call of another run": func(b *batch.Batch) { b.Calls[0].Call.Run = "other" },
		"empty call id":       func(b *batch.Batch) { b.Calls[0].Call.ID = "" },
		"long call id":        func(b *batch.Batch) { b.Calls[0].Call.ID = batch.CallID(strings.Repeat("x", 129)) },
		"control in call id":  func(b *batch.Batch) { b.Calls[0].Call.ID = "a\x1b[2J" },
		"no budget":           func(b *batch.Batch) { b.Calls[0].Pin.MaxAttempts = 0 },
		"unknown call phase":  func(b *batch.Batch) { b.Calls[0].Phase = "running" },
		"requested, attempt":  func(b *batch.Batch) { b.Calls[0].Attempt = 1 },
		"executing, attempt 0": func(b *batch.Batch) {
			b.Calls[0].Phase = batch.PhaseExecuting
		},
		"attempt above budget": func(b *batch.Batch) {
			b.Calls[0].Phase, b.Calls[0].Attempt = batch.PhaseExecuting, 3
		},
		"awaiting without ticket": func(b *batch.Batch) { b.Calls[0].Phase = batch.PhaseAwaiting },
		"output before terminal":  func(b *batch.Batch) { b.Calls[0].Output = &batch.Output{CallID: "c"} },
		"completed without output": func(b *batch.Batch) {
			b.Calls[0].Phase, b.Calls[0].Answer = batch.PhaseCompleted, batch.AnswerBlocked
		},
		"completed without answer": func(b *batch.Batch) {
			b.Calls[0].Phase, b.Calls[0].Output = batch.PhaseCompleted, &batch.Output{CallID: "c"}
		},
		"tool answered, attempt 0": func(b *batch.Batch) {
			b.Calls[0].Phase, b.Calls[0].Answer, b.Calls[0].Output = batch.PhaseCompleted, batch.AnswerTool, &batch.Output{CallID: "c"}
		},
		"output of another call": func(b *batch.Batch) {
			b.Calls[0].Phase, b.Calls[0].Answer, b.Calls[0].Output = batch.PhaseCompleted, batch.AnswerBlocked, &batch.Output{CallID: "z"}
		},
		"indeterminate without reason": func(b *batch.Batch) {
			b.Calls[0].Phase, b.Calls[0].Output = batch.PhaseIndeterminate, &batch.Output{CallID: "c"}
		},
		"finalized with an open call": func(b *batch.Batch) { b.Phase = batch.BatchFinalized },
	} {
		t.Run(name, func(t *testing.T) {
			b := inPhase(t, batch.PhaseRequested)
			spoil(b)
			if err := b.Validate(); !errors.Is(err, batch.ErrInvalid) {
				t.Errorf("Validate: %v, want ErrInvalid", err)
			}
		})
	}
}

func TestDisposition(t *testing.T) {
	for _, c := range []struct {
		phase batch.Phase
		kind  batch.TicketKind
		want  batch.Disposition
	}{
		{batch.PhaseRequested, "", batch.DispositionNone},
		{batch.PhaseExecuting, "", batch.DispositionNone},
		{batch.PhaseAwaiting, batch.TicketPermission, batch.DispositionPendingBuiltin},
		{batch.PhaseAwaiting, batch.TicketSchedule, batch.DispositionPendingBuiltin},
		{batch.PhaseAwaiting, batch.TicketExternalResult, batch.DispositionPendingClient},
		{batch.PhaseCompleted, "", batch.DispositionExecuted},
		{batch.PhaseIndeterminate, "", batch.DispositionExecuted},
	} {
		b := inPhase(t, c.phase)
		if got := b.Calls[0].Disposition(c.kind); got != c.want {
			t.Errorf("%s on %q: %q, want %q", c.phase, c.kind, got, c.want)
		}
	}
}

func TestRecoveryPolicy(t *testing.T) {
	caps := []batch.RecoveryCapability{batch.NonRecoverable, batch.ReplaySafe, batch.Idempotent, batch.DurableRequest, "made_up", ""}
	policies := []batch.RecoveryPolicy{batch.NeverReplay, "non_recoverable", "replay_safe", "idempotent", "durable_request", "made_up", ""}
	for _, c := range caps {
		for _, p := range policies {
			legal := p == batch.NeverReplay ||
				string(p) == string(c) && (c == batch.ReplaySafe || c == batch.Idempotent || c == batch.DurableRequest)
			if err := p.AllowedBy(c); (err == nil) != legal {
				t.Errorf("policy %q with capability %q: %v", p, c, err)
			}
		}
	}
	for p, want := range map[batch.RecoveryPolicy]bool{
		batch.NeverReplay: false, "non_recoverable": false, "": false, "made_up": false,
		"replay_safe": true, "idempotent": true, "durable_request": true,
	} {
		if p.Replays() != want {
			t.Errorf("%q.Replays() = %v", p, !want)
		}
	}
}

func TestIDs(t *testing.T) {
	for id, ok := range map[batch.RunID]bool{
		"a": true, "A-b_c.9": true, "..a": true, batch.RunID(strings.Repeat("x", 128)): true,
		"": false, ".": false, "..": false, "a/b": false, "a b": false, "ä": false, "a\x00": false,
		batch.RunID(strings.Repeat("x", 129)): false,
	} {
		if err := id.Validate(); (err == nil) != ok {
			t.Errorf("run id %q: %v", id, err)
		}
	}
	for id, ok := range map[batch.BatchID]bool{
		"r/1": true, "r/0": false, "r/-1": false, "r/01": false, "r/+1": false, "r": false, "/1": false, "r/1/2": false, "r/x": false,
	} {
		if _, _, err := batch.ParseBatchID(id); (err == nil) != ok {
			t.Errorf("batch id %q: %v", id, err)
		}
	}
	for id, ok := range map[batch.OperationID]bool{
		"r/1/0": true, "r/1/12": true, "r/1": false, "r/0/1": false, "r/1/-1": false, "r/1/01": false, "r/1/x": false, "/1/0": false, "a/b/1/0": false, "": false,
	} {
		if run, step, index, err := batch.ParseOperationID(id); (err == nil) != ok || ok && batch.NewOperationID(run, step, index) != id {
			t.Errorf("operation id %q: %v", id, err)
		}
	}
	for name, ok := range map[string]bool{"": true, "Ada Lovelace": true, "Åsa": true, " ada": false, "a\u200bda": false, "a\u202eda": false, "a\tb": false} {
		r := request("r", 1)
		r.Principal = name
		if _, err := newWorld(t).engine().Submit(t.Context(), r); errors.Is(err, batch.ErrBadID) == ok {
			t.Errorf("principal %q: %v", name, err)
		}
	}
	if a, b := batch.NewRunID(at), batch.NewRunID(at); a == b || a.Validate() != nil {
		t.Errorf("fresh run ids %q and %q", a, b)
	}
}
