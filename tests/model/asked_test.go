package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// What people, clients and schedulers ask of the host. Each returns the class of the
// error, empty for none.

type request struct {
	run, principal, parent string
	step, depth            int
	calls                  []*script
}

func argDigest(args string) string {
	sum := sha256.Sum256([]byte(args))
	return hex.EncodeToString(sum[:])
}

func (m *reference) parentOf(run string) string {
	id, _, _ := strings.Cut(m.runs[run].parent, "/")
	return id
}

func (m *reference) submit(q request) (*refBatch, string) {
	r := m.runs[q.run]
	switch {
	case r == nil && q.depth > maxDepth:
		return nil, "invalid"
	case r == nil:
		r = &refRun{id: q.run, principal: q.principal, parent: q.parent, depth: q.depth, state: map[string]string{}, counts: map[string]string{}}
	case q.parent != r.parent, q.principal != "" && q.principal != r.principal:
		return nil, "owner"
	}
	_, open := r.open()
	last := len(r.batches)
	step := q.step
	switch {
	case step < 0:
		return nil, "step"
	case step == 0 && open > 0:
		step = open
	case step == 0:
		step = last + 1
	}
	if step <= last {
		b := r.batches[step-1]
		switch {
		case b.same(q.calls) && step == open:
			m.drive(r)
			return b, ""
		case b.same(q.calls):
			return b, ""
		case q.step == 0:
			return nil, "open"
		}
		return nil, "content"
	}
	switch {
	case r.cancelled != "":
		return nil, "cancelled"
	case open > 0:
		return nil, "open"
	case step != last+1:
		return nil, "step"
	}
	b := &refBatch{phase: "open"}
	ids := map[string]bool{}
	for _, s := range q.calls {
		c := &refCall{script: s, phase: "requested", digest: m.digest(s.tool)}
		if s.tool == "wide" && c.digest != "" {
			return nil, "recovery policy"
		}
		b.calls = append(b.calls, c)
		ids[s.id] = true
	}
	if len(b.calls) == 0 || len(ids) < len(b.calls) {
		return nil, "invalid"
	}
	r.batches = append(r.batches, b)
	r.event("batch_requested", step, -1, 0, 0, "")
	m.commit(r)
	m.drive(r)
	return b, ""
}

// resume goes on with the open batch of a run, and with the parent that waits for it.
func (m *reference) resume(id string) string {
	r := m.runs[id]
	if r == nil {
		return "not found"
	}
	if b, _ := r.open(); b != nil {
		m.drive(r)
		m.resumeParent(r, b)
	}
	return ""
}

// resumeParent is for the parent alone: what goes wrong with it is no matter of the
// child's.
func (m *reference) resumeParent(r *refRun, b *refBatch) {
	if r.parent == "" || b.phase != "finalized" {
		return
	}
	m.caught(func() { m.resume(m.parentOf(r.id)) })
}

// recovers goes on with every open batch that can go on. What a cut-short cancel has
// left of a family is cancelled instead.
func (m *reference) recovers() (class string) {
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		r := m.runs[id]
		b, _ := r.open()
		if b == nil {
			continue
		}
		if top, by := m.orphan(r); top != "" {
			m.seen["orphan cancelled"]++
			m.cancel(top, by)
			continue
		}
		// One run's failure does not keep the others from being continued, and one that
		// is cancelled meanwhile is no failure.
		if c := m.caught(func() { m.resume(id) }); c != "cancelled" {
			class = cmp.Or(class, c)
		}
	}
	return class
}

// orphan is the topmost run that is to end because its parent was cancelled by by.
func (m *reference) orphan(r *refRun) (top, by string) {
	for r.parent != "" {
		b, _ := r.open()
		p := m.runs[m.parentOf(r.id)]
		switch {
		case b == nil:
			return "", ""
		case p.cancelled != "":
			return r.id, p.cancelled
		}
		r = p
	}
	return "", ""
}

// due are the runs whose open ticket settles by itself now.
func (m *reference) due() (out []string) {
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		for _, t := range m.runs[id].tickets {
			if t.status == "open" && m.now >= t.due {
				out = append(out, id)
			}
		}
	}
	return out
}

type answer struct {
	by      string
	approve bool
	digest  string // of the arguments that the person saw; empty: does not say
}

// ticket finds an open ticket; a late answer settles it and the batch goes on.
func (m *reference) ticket(run string, ordinal int, kind string, act func(*refRun, *refBatch, *refTicket) string) string {
	r := m.runs[run]
	t := r.tickets[ordinal-1]
	if t.status != "open" {
		return "ticket closed"
	}
	if t.kind != kind {
		return "ticket kind"
	}
	b, _ := r.open()
	if t.kind != "schedule" && m.now >= t.due {
		m.drive(r)
		m.resumeParent(r, b)
		return "ticket late"
	}
	if class := act(r, b, t); class != "" {
		return class
	}
	m.drive(r)
	m.resumeParent(r, b)
	return ""
}

func (m *reference) decideTicket(run string, ordinal int, a answer) string {
	if a.by == "" {
		return "approver"
	}
	return m.ticket(run, ordinal, "permission", func(r *refRun, b *refBatch, t *refTicket) string {
		switch {
		case a.digest != "" && a.digest != t.argDigest:
			return "arguments"
		case strings.EqualFold(r.principal, a.by), len(t.approvers) > 0 && !slices.Contains(t.approvers, a.by):
			return "approver"
		case slices.ContainsFunc(t.decisions, func(d string) bool { return strings.EqualFold(d, a.by+":yes") }):
			return "already decided"
		}
		if !a.approve {
			t.decisions = append(t.decisions, a.by+":no")
			m.close(r, t, ordinal, "denied")
			m.complete(r, b, t.step, t.index, "denied", true, "…", nil)
			return ""
		}
		t.decisions = append(t.decisions, a.by+":yes")
		if len(t.decisions) >= t.quorum {
			m.close(r, t, ordinal, "approved")
		} else {
			r.event("ticket_decided", t.step, t.index, 0, ordinal, "")
		}
		m.commit(r)
		return ""
	})
}

func (m *reference) supply(run string, ordinal int, by, result string) string {
	if by == "" {
		return "approver"
	}
	return m.ticket(run, ordinal, "external_result", func(r *refRun, b *refBatch, t *refTicket) string {
		changed := m.digest(b.calls[t.index].tool) != t.toolDigest
		if !changed && (result == "badblock" || result == "huge" || result == "badschema") {
			return "result"
		}
		t.decisions = append(t.decisions, by+":yes")
		t.status, t.closed = "resolved", m.now
		r.event("ticket_decided", t.step, t.index, 0, ordinal, by)
		if changed {
			m.complete(r, b, t.step, t.index, "changed", true, "…", nil)
		} else {
			m.complete(r, b, t.step, t.index, "external", result == "fail", "say client", nil)
		}
		return ""
	})
}

// cancel seals a run and everything that its delegations began.
func (m *reference) cancel(id, by string) string {
	r := m.runs[id]
	switch {
	case by == "":
		return "approver"
	case r == nil:
		return "not found"
	case r.cancelled != "":
		m.cancelChildren(r)
		return "cancelled"
	}
	b, step := r.open()
	r.cancelled = by
	r.event("run_cancelled", step, -1, 0, 0, by)
	if b == nil {
		m.commit(r)
		m.cancelChildren(r)
		return ""
	}
	for i, c := range b.calls {
		if c.terminal() {
			continue
		}
		kind := "call_completed"
		if c.phase == "executing" && !c.withdrawn {
			kind, c.phase = "call_indeterminate", "indeterminate"
		} else {
			if c.phase == "awaiting" && r.tickets[c.ticket-1].status == "open" {
				r.tickets[c.ticket-1].status, r.tickets[c.ticket-1].closed = "cancelled", m.now
			}
			c.phase, c.answer, c.withdrawn = "completed", "cancelled", false
			m.seen["answer cancelled"]++
		}
		c.failed, c.text = true, "…"
		r.event(kind, step, i, c.attempt, 0, "")
	}
	m.publish(r, b, step)
	m.commit(r)
	m.cancelChildren(r)
	m.resumeParent(r, b)
	return ""
}

// cancelChildren ends what the calls of the last batch have left unfinished.
func (m *reference) cancelChildren(r *refRun) {
	if len(r.batches) == 0 {
		return
	}
	for i, c := range r.batches[len(r.batches)-1].calls {
		child := m.runs[childID(r.operation(len(r.batches), i))]
		if c.phase != "indeterminate" || child == nil {
			continue
		}
		if b, _ := child.open(); b != nil || child.cancelled != "" {
			m.seen["cancel reached a child"]++
			m.cancel(child.id, r.cancelled)
		}
	}
}

func (m *reference) amend(run string, step, index int, by, result string) string {
	r := m.runs[run]
	switch {
	case by == "":
		return "approver"
	case r == nil, step > len(r.batches), step < 1, index >= len(r.batches[step-1].calls):
		return "not found"
	}
	c := r.batches[step-1].calls[index]
	switch {
	case c.phase != "indeterminate":
		return "not indeterminate"
	case result == "badblock", result == "huge":
		return "result"
	}
	m.seen["amended"]++
	r.event("call_amended", step, index, c.attempt, 0, by+" "+result)
	m.commit(r)
	return ""
}
