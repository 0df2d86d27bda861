package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/awaken-agents/awaken-host/batch"
)

// actions are what can happen in a history, by the names that it shows.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"submit a step":                    m.submitNext,
		"submit another step":              m.submitNext,
		"submit the same again":            m.submitAgain,
		"submit something wrong":           m.submitWrong,
		"decide a ticket":                  func(t *rapid.T) { m.decide(t, isOpen("permission")) },
		"decide one more ticket":           func(t *rapid.T) { m.decide(t, isOpen("permission")) },
		"supply a result":                  func(t *rapid.T) { m.supply(t, isOpen("external_result")) },
		"supply one more result":           func(t *rapid.T) { m.supply(t, isOpen("external_result")) },
		"let time pass":                    m.pass,
		"fire what is due":                 m.fire,
		"resume a run":                     m.resume,
		"recover":                          m.recover,
		"restart a host":                   m.restart,
		"cancel a run":                     m.cancel,
		"amend a call":                     func(t *rapid.T) { m.amend(t, func(c *refCall) bool { return c.phase == "indeterminate" }) },
		"ask for what may be out of place": m.askAnything,
		"change a tool":                    m.changeTool,
	}
}

// submit sends a request to a host and to the model, and holds the answer against the
// record.
func (m *machine) submit(t *rapid.T, q request) {
	m.w.learn(q.calls)
	var b *batch.Batch
	var err error
	m.act(t, q.run, func(ctx context.Context, e *batch.Engine) error {
		b, err = e.Submit(ctx, &batch.Request{
			Run: batch.RunID(q.run), Step: q.step, Principal: q.principal, Parent: batch.OperationID(q.parent), Depth: q.depth, Calls: requested(q.calls),
		})
		return err
	}, func() string {
		_, class := m.ref.submit(q)
		return class
	})
	if err == nil {
		m.answered(t, b)
	}
}

// answered checks that a batch which the engine returned is the one on record.
func (m *machine) answered(t *rapid.T, b *batch.Batch) {
	rec := m.seen[string(b.Run)]
	if rec == nil || len(rec.batches) < b.Step {
		t.Fatalf("the engine returned batch %s, which is not on record", b.ID())
	}
	on := rec.batches[b.Step-1]
	if string(b.Phase) != on.phase {
		t.Fatalf("the engine returned batch %s %s, on record it is %s", b.ID(), b.Phase, on.phase)
	}
	for i := range b.Calls {
		if c := &b.Calls[i]; string(c.Phase) != on.calls[i].phase || string(c.Answer) != on.calls[i].answer || (c.Output != nil) != on.calls[i].terminal() {
			t.Fatalf("the engine returned call %s as %s/%s, on record it is %s/%s", c.Call.Operation(), c.Phase, c.Answer, on.calls[i].phase, on.calls[i].answer)
		}
	}
}

func (m *machine) submitNext(t *rapid.T) {
	var ready []string
	for _, id := range []string{"r1", "r2", "r3", "r4"} {
		if r := m.ref.runs[id]; r == nil || r.cancelled == "" && !r.unfinished() {
			ready = append(ready, id)
		}
	}
	if len(ready) == 0 {
		t.Skip("every run is busy")
	}
	q := request{run: rapid.SampledFrom(ready).Draw(t, "run"), principal: "ann"}
	if r := m.ref.runs[q.run]; r != nil && coin.Draw(t, "with its number") {
		q.step = len(r.batches) + 1
	}
	q.calls = calls(m.theme.tools, 0).Draw(t, "calls")
	m.submit(t, q)
}

func (m *machine) submitAgain(t *rapid.T) {
	r := m.pick(t, func(r *refRun) bool { return r.parent == "" })
	q := request{run: r.id, step: rapid.IntRange(1, len(r.batches)).Draw(t, "step"), principal: rapid.SampledFrom([]string{"ann", ""}).Draw(t, "principal")}
	q.calls = scripts(r.batches[q.step-1])
	if _, open := r.open(); open == q.step && coin.Draw(t, "without its number") {
		q.step = 0
	}
	m.submit(t, q)
}

func scripts(b *refBatch) (out []*script) {
	for _, c := range b.calls {
		out = append(out, c.script)
	}
	return out
}

func (m *machine) submitWrong(t *rapid.T) {
	simple := func(tools ...string) (out []*script) {
		for i, tool := range tools {
			out = append(out, (&script{id: fmt.Sprint("c", i), tool: tool, plan: plan{Gate: "allow", Do: []string{"ok"}}}).seal())
		}
		return out
	}
	q := request{run: rapid.SampledFrom(append(m.ids(anyRun), "r5")).Draw(t, "run"), calls: simple("once"), principal: "ann"}
	hows := []string{"empty", "same id twice", "policy too wide", "as another", "far step", "negative step"}
	r := m.ref.runs[q.run]
	if r != nil {
		hows = append(hows, "other content", "as a child", "perhaps out of time")
	}
	switch rapid.SampledFrom(hows).Draw(t, "how") {
	case "empty":
		q.calls = nil
	case "same id twice":
		q.calls = simple("once", "safe")
		q.calls[1].id = "c0"
	case "policy too wide":
		q.calls = simple("safe", "wide")
	case "as another":
		q.principal = "eve"
	case "far step":
		q.step = 9
	case "negative step":
		q.step = -1
	case "other content":
		q.step = rapid.IntRange(1, len(r.batches)).Draw(t, "step")
		if r.batches[q.step-1].same(q.calls) {
			q.calls = simple("safe")
		}
	case "as a child":
		q.parent = "r9/1/0"
	}
	m.submit(t, q)
}

func anyRun(*refRun) bool { return true }

// pick draws a run.
func (m *machine) pick(t *rapid.T, fits func(*refRun) bool) *refRun {
	ids := m.ids(fits)
	if len(ids) == 0 {
		t.Skip("no such run")
	}
	return m.ref.runs[rapid.SampledFrom(ids).Draw(t, "run")]
}

// askAnything decides, supplies or amends what may be closed, of another kind or known.
func (m *machine) askAnything(t *rapid.T) {
	switch rapid.SampledFrom([]string{"decide", "supply", "amend"}).Draw(t, "what") {
	case "decide":
		m.decide(t, isAny)
	case "supply":
		m.supply(t, isAny)
	case "amend":
		m.amend(t, func(*refCall) bool { return true })
	}
}

func isAny(*refTicket) bool { return true }

func isOpen(kind string) func(*refTicket) bool {
	return func(t *refTicket) bool { return t.status == "open" && t.kind == kind }
}

// ticket draws a ticket.
func (m *machine) ticket(t *rapid.T, fits func(*refTicket) bool) (run string, ordinal int, id batch.TicketID) {
	type place struct {
		run string
		n   int
	}
	var all []place
	for _, run := range m.ids(anyRun) {
		for i, tk := range m.ref.runs[run].tickets {
			if fits(tk) {
				all = append(all, place{run, i + 1})
			}
		}
	}
	if len(all) == 0 {
		t.Skip("no such ticket")
	}
	p := rapid.SampledFrom(all).Draw(t, "ticket")
	return p.run, p.n, m.seen[p.run].tickets[p.n-1]
}

func (m *machine) decide(t *rapid.T, which func(*refTicket) bool) {
	run, n, id := m.ticket(t, which)
	a := answer{by: weighted("bob*4 cy*4 dee*2 ann Ann Bob nobody eve").Draw(t, "by"), approve: !oneIn(4).Draw(t, "deny")}
	if a.by == "nobody" {
		a.by = ""
	}
	switch weighted("silent*6 right*3 wrong").Draw(t, "digest") {
	case "right":
		a.digest = m.ref.runs[run].tickets[n-1].argDigest
	case "wrong":
		a.digest = argDigest("something else")
	}
	m.act(t, run, func(ctx context.Context, e *batch.Engine) error {
		_, err := e.Decide(ctx, id, batch.TicketAnswer{By: a.by, Approve: a.approve, ArgumentDigest: a.digest})
		return err
	}, func() string { return m.ref.decideTicket(run, n, a) })
}

func (m *machine) supply(t *rapid.T, which func(*refTicket) bool) {
	run, n, id := m.ticket(t, which)
	by := weighted("client*9 nobody").Draw(t, "by")
	if by == "nobody" {
		by = ""
	}
	result := weighted("ok*4 fail badblock huge badschema").Draw(t, "result")
	r := batch.ExternalResult{By: by, Content: text("say client"), IsError: result == "fail"}
	switch result {
	case "badblock":
		r.Content = []batch.ContentBlock{{Type: "video"}}
	case "huge":
		r.Content = text(strings.Repeat("x", maxOutBytes+1))
	case "badschema":
		r.Content = text("breaks the schema")
	}
	m.act(t, run, func(ctx context.Context, e *batch.Engine) error {
		_, err := e.Supply(ctx, id, r)
		return err
	}, func() string { return m.ref.supply(run, n, by, result) })
}

func (m *machine) pass(t *rapid.T) {
	m.elapse(rapid.SampledFrom([]int64{60, 60, 300, 300, 599, 3600}).Draw(t, "seconds"))
}

func (m *machine) elapse(seconds int64) {
	m.ref.now += seconds
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.clock += seconds
}

// fire does what a scheduler does.
func (m *machine) fire(t *rapid.T) {
	runs, _, err := m.w.hosts[0].engine.Due(context.Background())
	if err != nil {
		t.Fatalf("Due: %v", err)
	}
	var ids []string
	for _, r := range runs {
		ids = append(ids, string(r))
	}
	slices.Sort(ids)
	if due := m.ref.due(); !slices.Equal(ids, due) {
		t.Fatalf("due are %v, the model says %v", ids, due)
	}
	for _, id := range ids {
		m.resumeRun(t, id)
	}
}

func (m *machine) resume(t *rapid.T) {
	if oneInTen.Draw(t, "unknown") {
		m.resumeRun(t, "r9")
		return
	}
	m.resumeRun(t, m.pick(t, anyRun).id)
}

func (m *machine) resumeRun(t *rapid.T, id string) {
	m.act(t, id, func(ctx context.Context, e *batch.Engine) error {
		_, err := e.Resume(ctx, batch.RunID(id))
		return err
	}, func() string { return m.ref.resume(id) })
}

func (m *machine) recover(t *rapid.T) {
	m.act(t, "", func(ctx context.Context, e *batch.Engine) error {
		_, err := e.Recover(ctx)
		return err
	}, m.ref.recovers)
}

// restart is the end of a process that was not at work.
func (m *machine) restart(t *rapid.T) { m.w.start(rapid.IntRange(0, 1).Draw(t, "host")) }

func (m *machine) cancel(t *rapid.T) {
	id := "r9"
	if !oneInTen.Draw(t, "unknown") {
		fits := func(r *refRun) bool { return r.unfinished() || len(m.ref.runs) > 2 }
		if parent := (*refRun).delegating; len(m.ids(parent)) > 0 && !oneIn(4).Draw(t, "any run") {
			fits = parent
			// A cancel is cut short between members of a family within few calls of the store.
			if strings.Contains(m.theme.troubles, "crash") {
				defer func(g *rapid.Generator[trouble]) { m.troubles = g }(m.troubles)
				m.troubles = rapid.Map(upTo(12), func(n int) trouble { return trouble{"crash before", n} })
			}
		}
		id = m.pick(t, fits).id
	}
	by := weighted("boss*9 nobody").Draw(t, "by")
	if by == "nobody" {
		by = ""
	}
	m.act(t, id, func(ctx context.Context, e *batch.Engine) error {
		_, err := e.Cancel(ctx, batch.RunID(id), by, "")
		return err
	}, func() string { return m.ref.cancel(id, by) })
}

func (m *machine) amend(t *rapid.T, fits func(*refCall) bool) {
	type place struct {
		run         string
		step, index int
	}
	var all []place
	for _, id := range m.ids(anyRun) {
		for i, b := range m.ref.runs[id].batches {
			for j, c := range b.calls {
				if fits(c) {
					all = append(all, place{id, i + 1, j})
				}
			}
		}
	}
	if len(all) == 0 {
		t.Skip("no such call")
	}
	p := rapid.SampledFrom(all).Draw(t, "call")
	if oneInTen.Draw(t, "beyond") {
		p.index += 9
	}
	by := weighted("boss*9 nobody").Draw(t, "by")
	if by == "nobody" {
		by = ""
	}
	result := weighted("found*3 failed*2 badblock huge").Draw(t, "result")
	a := batch.Amendment{By: by, Failed: result == "failed", Content: text(result)}
	switch result {
	case "failed":
		a.Content = nil
	case "badblock":
		a.Content = []batch.ContentBlock{{Type: "video"}}
	case "huge":
		a.Content = text(strings.Repeat("x", maxOutBytes+1))
	}
	m.act(t, p.run, func(ctx context.Context, e *batch.Engine) error {
		return e.Amend(ctx, batch.RunID(p.run), p.step, p.index, a)
	}, func() string { return m.ref.amend(p.run, p.step, p.index, by, result) })
}

func (m *machine) changeTool(t *rapid.T) {
	id := m.theme.tools.Draw(t, "tool")
	if m.ref.tools[id] == nil {
		t.Skip("there is no such tool")
	}
	gone := m.ref.tools[id].gone || oneIn(3).Draw(t, "remove")
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, tool := range []*refTool{m.ref.tools[id], m.w.tools[id]} {
		if gone {
			tool.gone = !tool.gone
		} else {
			tool.version++
		}
	}
}

// end lets everybody do what is left to do: every run comes to its end.
func (m *machine) end(t *rapid.T) {
	m.troubles = rapid.Just(trouble{kind: "none"})
	for i := range m.w.hosts {
		m.w.start(i)
	}
	for range 60 {
		m.recover(t)
		if len(m.ids((*refRun).unfinished)) == 0 {
			break
		}
		m.elapse(ticketTimeout)
		m.fire(t)
	}
	if ids := m.ids((*refRun).unfinished); len(ids) > 0 {
		t.Fatalf("runs %v do not come to an end", ids)
	}
}
