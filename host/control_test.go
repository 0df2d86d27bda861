package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
	"github.com/awaken-agents/awaken-host/host"
)

func allowAll(*batch.Query) *batch.Decision { return &batch.Decision{Outcome: batch.OutcomeAllow} }

func run(t *testing.T, h *host.Host, id batch.RunID, message string) *host.Result {
	t.Helper()
	m, err := host.ParseMessage([]byte(message))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), host.Request{Run: id, Principal: "alice", Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDelegation: a child batch goes through the same pipeline, its open tickets
// are the parent's to show, and its results are the call's.
func TestDelegation(t *testing.T) {
	p := &parts{gate: func(q *batch.Query) *batch.Decision {
		if q.Call.ID == "careful" && q.Approval == nil {
			return &batch.Decision{Outcome: batch.OutcomeRequireConfirmation, Confirmation: &batch.Confirmation{Prompt: "ok?"}}
		}
		return allowAll(q)
	}}
	store := storetest.NewMemory()
	h := newHost(t, p, store)
	const message = `{"calls":[{"id":"d","tool":"delegate","arguments":{"calls":[{"id":"a","tool":"p__t","arguments":{"x": 1}},{"id":"careful","tool":"p__t"}]}},` +
		`{"id":"e","tool":"delegate","arguments":{"calls":[{"id":"x","tool":"p__t"},{"id":"x","tool":"p__t"}]}}]}`
	r := run(t, h, "r", message)
	child := batch.ChildRunID("r/1/0")
	if !r.Parked() || len(r.Tickets) != 1 || r.Tickets[0].Run != child || r.Results[0].Phase != batch.PhaseExecuting {
		t.Fatalf("%+v", r)
	}
	runs, err := h.Runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range runs {
		if (s.Run == "r" || s.Run == child) && s.Status != host.RunParked || s.Principal != "alice" {
			t.Errorf("%+v", s)
		}
	}
	h = newHost(t, p, store) // another process
	if r := run(t, h, "r", message); !r.Parked() {
		t.Errorf("%+v", r)
	}
	if _, err := h.Decide(t.Context(), r.Tickets[0].Ticket, batch.TicketAnswer{By: "bob", Approve: true}); err != nil {
		t.Fatal(err)
	}
	if r, err = h.Batch(t.Context(), "r", 1); err != nil || r.Phase != batch.BatchFinalized {
		t.Fatalf("%+v, %v", r, err)
	}
	var got struct {
		Run     batch.RunID
		Results []struct {
			CallID  string `json:"call_id"`
			Content []batch.ContentBlock
		}
	}
	if err := json.Unmarshal(r.Results[0].Content[0].JSON, &got); err != nil {
		t.Fatal(err)
	}
	if got.Run != child || len(got.Results) != 2 || got.Results[1].CallID != "careful" || got.Results[1].Content[0].Text != "done" {
		t.Errorf("%+v", got)
	}
	if c := r.Results[1]; !c.IsError || !strings.Contains(c.Content[0].Text, "the delegated batch is refused, nothing of it ran") {
		t.Errorf("a child batch with the same id twice: %+v", c)
	}
	if len(p.ran) != 2 {
		t.Errorf("ran %v", p.ran)
	}
}

// TestDelegationHasABottom: a tool that delegates to itself ends with an error.
func TestDelegationHasABottom(t *testing.T) {
	p := &parts{gate: allowAll}
	h := newHost(t, p, storetest.NewMemory())
	args := `{"calls":[{"id":"t","tool":"p__t"}]}`
	for range 6 {
		args = fmt.Sprintf(`{"calls":[{"id":"d","tool":"delegate","arguments":%s}]}`, args)
	}
	r := run(t, h, "r", args)
	text, _ := json.Marshal(r)
	if r.Phase != batch.BatchFinalized || !strings.Contains(string(text), "delegation is 5 deep, at most 4 is allowed") || len(p.ran) != 0 {
		t.Errorf("%s, ran %v", text, p.ran)
	}
}

func TestSupplyCancelAmend(t *testing.T) {
	p := &parts{gate: allowAll}
	h := newHost(t, p, storetest.NewMemory())
	r := run(t, h, "r", `{"calls":[{"id":"q","tool":"ask"}]}`)
	if !r.Parked() || r.Results[0].Disposition != batch.DispositionPendingClient || r.Results[0].Executed != nil {
		t.Fatalf("%+v", r)
	}
	r, err := h.Supply(t.Context(), r.Tickets[0].Ticket, batch.ExternalResult{By: "alice", Content: []batch.ContentBlock{batch.TextBlock("42")}})
	if err != nil || r.Results[0].Content[0].Text != "42" {
		t.Fatalf("%+v, %v", r, err)
	}
	run(t, h, "r", `{"calls":[{"id":"q2","tool":"ask"}]}`)
	if r, err = h.Cancel(t.Context(), "r", "bob", "enough"); err != nil || r.Phase != batch.BatchFinalized || !r.Results[0].IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	if v, err := h.Show(t.Context(), "r"); err != nil || v.Status != host.RunCancelled || v.Cancelled.By != "bob" {
		t.Errorf("%+v, %v", v, err)
	}

	p.fail = errors.New("lost")
	run(t, h, "s", `{"calls":[{"id":"c","tool":"p__t"},{"id":"d","tool":"p__t"}]}`)
	run(t, h, "s", `{"calls":[{"id":"c","tool":"p__t"}]}`)
	for call, ok := range map[string]bool{"d": true, "s/2/0": true, "c": false, "nope": false, "s/9/0": false, "s/1/x": false} {
		if err := h.Amend(t.Context(), "s", call, batch.Amendment{By: "bob", Failed: true}); (err == nil) != ok {
			t.Errorf("amending %q: %v", call, err)
		}
	}
	if v, err := h.Show(t.Context(), "s"); err != nil || len(v.Amendments) != 2 || v.Amendments[0].By != "bob" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestEvents(t *testing.T) {
	p := &parts{gate: later(time.Hour)}
	h := newHost(t, p, storetest.NewMemory())
	run(t, h, "r", `{"calls":[{"id":"a","tool":"missing"},{"id":"b","tool":"p__t"}]}`)
	all, err := h.Events(t.Context(), "r", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ev := range all {
		got = append(got, fmt.Sprintf("%d %s %s %s", ev.Seq, ev.Kind, ev.CallID, ev.Disposition))
	}
	want := "1 batch_requested  |2 call_completed a executed|3 call_awaiting b pending_builtin"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", strings.Join(got, "|"), want)
	}
	rest, err := h.Events(t.Context(), "r", all[0].Seq, 1)
	if err != nil || len(rest) != 1 || rest[0].Seq != 2 {
		t.Errorf("resumed: %+v, %v", rest, err)
	}
	if _, err := h.Events(t.Context(), "none", 0, 0); !errors.Is(err, batch.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// TestPrune removes what is finished and old, keeps what is open or needed by an
// open parent, and does so by itself where a retention is set.
func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parts{gate: func(q *batch.Query) *batch.Decision {
			if q.Call.ID == "wait" {
				return later(1000 * time.Hour)(q)
			}
			return allowAll(q)
		}}
		store := storetest.NewMemory()
		h := newHost(t, p, store)
		run(t, h, "old", `{"calls":[{"id":"a","tool":"p__t"}]}`)
		run(t, h, "waits", `{"calls":[{"id":"wait","tool":"p__t"}]}`)
		run(t, h, "parent", `{"calls":[{"id":"a","tool":"delegate","arguments":{"calls":[{"id":"b","tool":"p__t"}]}},{"id":"wait","tool":"p__t"}]}`)
		time.Sleep(48 * time.Hour)
		run(t, h, "new", `{"calls":[{"id":"a","tool":"p__t"}]}`)
		rep, err := h.Prune(t.Context(), 24*time.Hour, true)
		if err != nil || len(rep.Runs) != 1 || rep.Runs[0] != "old" || !rep.DryRun {
			t.Errorf("%+v, %v", rep, err)
		}
		if rs, _ := h.Runs(t.Context()); len(rs) != 5 {
			t.Errorf("a dry run left %d runs", len(rs))
		}
		h = newHost(t, p, store, func(o *host.Options) { o.Retention = 24 * time.Hour })
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if rs, _ := h.Runs(t.Context()); len(rs) != 4 {
			t.Errorf("%d runs are left", len(rs))
		}
		time.Sleep(30 * time.Hour)
		if rs, _ := h.RunsPage(t.Context(), "", 0); len(rs) != 3 {
			t.Errorf("%d runs are left", len(rs))
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunsPage(t *testing.T) {
	h := newHost(t, &parts{gate: allowAll}, storetest.NewMemory())
	for i := range 5 {
		run(t, h, batch.RunID(fmt.Sprint("r", i)), `{"calls":[{"id":"a","tool":"p__t"}]}`)
	}
	var got []string
	for after := batch.RunID(""); ; {
		page, err := h.RunsPage(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got, after = append(got, string(r.Run)), r.Run
		}
	}
	if strings.Join(got, " ") != "r0 r1 r2 r3 r4" {
		t.Errorf("%v", got)
	}
}
