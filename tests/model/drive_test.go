package model

import (
	"maps"
	"slices"
	"strconv"
)

// drive takes the calls of the open batch in order, until it is published or waits.
func (m *reference) drive(r *refRun) {
	for {
		b, step := r.open()
		if b == nil {
			return
		}
		if m.stopped {
			panic(aborted{"stopped"})
		}
		i := b.next()
		c := b.calls[i]
		switch c.phase {
		case "requested":
			if m.sideBySide(r, b, step) {
				return
			}
			if c.phase == "requested" {
				m.decide(r, b, step, i, nil, false)
			}
		case "awaiting":
			t := r.tickets[c.ticket-1]
			switch {
			case t.status == "open" && m.now < t.due:
				return
			case t.status == "open" && t.kind == "schedule":
				m.decide(r, b, step, i, t, true)
			case t.status == "open":
				m.close(r, t, c.ticket, "expired")
				m.complete(r, b, step, i, "expired", true, "…", nil)
			default: // approved
				m.decide(r, b, step, i, t, false)
			}
		case "executing":
			if m.recoverCall(r, b, step, i) {
				return
			}
		}
	}
}

func (m *reference) close(r *refRun, t *refTicket, ordinal int, status string) {
	t.status, t.closed = status, m.now
	r.event("ticket_decided", t.step, t.index, 0, ordinal, "")
}

// decide asks the gate and does what it says. T is the ticket that the call came back
// from; fire closes it in the same commit.
func (m *reference) decide(r *refRun, b *refBatch, step, i int, t *refTicket, fire bool) {
	c := b.calls[i]
	back, seq := "", 1
	if t != nil {
		back, seq = t.kind, 2
	}
	outcome, code, answer := m.precheck(c)
	if answer == "" {
		outcome, code = m.ask(r, c, step, i, t)
	}
	if fire {
		m.close(r, t, c.ticket, "approved")
		m.seen["schedule fired"]++
	}
	r.decisions = append(r.decisions, decisionLine(step, i, seq, outcome, code, back))
	switch {
	case answer != "":
		m.complete(r, b, step, i, answer, true, "…", nil)
	case outcome == "block":
		m.complete(r, b, step, i, "blocked", true, "…", nil)
	case outcome == "set_result":
		m.complete(r, b, step, i, "policy", code == "fail", "say policy", nil)
	case outcome != "allow":
		m.park(r, b, step, i, outcome, code)
	case c.kind().client:
		m.park(r, b, step, i, "external_result", "")
	case c.kind().target != brain:
		m.complete(r, b, step, i, "placement", true, "…", nil)
	default:
		c.grant = code == "narrow"
		m.execute(r, b, step, i)
	}
}

// precheck is what needs no gate.
func (m *reference) precheck(c *refCall) (outcome, code, answer string) {
	switch {
	case c.digest == "":
		return "block", "unknown_tool", "invalid"
	case m.digest(c.tool) != c.digest:
		return "block", "tool_changed", "changed"
	case len(c.args) > maxArgBytes || c.BadArgs:
		return "block", "invalid_arguments", "invalid"
	}
	return "", "", ""
}

// ask is the gate's answer, as recorded. What is not a decision blocks.
func (m *reference) ask(r *refRun, c *refCall, step, i int, t *refTicket) (outcome, code string) {
	word, what := c.Gate, "first "
	if t != nil {
		word, what = c.Then, "after "+t.kind+" by "+strconv.Itoa(len(t.decisions))+" "
	}
	m.deed(r, deed{"ask", step, i, 0, what + word})
	if m.stopped {
		panic(aborted{"stopped"})
	}
	if t != nil && parks(word) {
		return "block", "asked_again"
	}
	switch word {
	case "allow", "narrow":
		return "allow", word
	case "block":
		return "block", "no"
	case "set":
		return "set_result", "ok"
	case "setfail":
		return "set_result", "fail"
	case "confirm", "quorum":
		return "require_confirmation", word
	case "later", "past":
		return "schedule", word
	case "error", "panic", "nothing":
		return "block", "gate_failed"
	}
	return "block", "odd_shape"
}

func (m *reference) park(r *refRun, b *refBatch, step, i int, outcome, code string) {
	c := b.calls[i]
	t := &refTicket{kind: outcome, status: "open", step: step, index: i, created: m.now, due: m.now + ticketTimeout,
		toolDigest: c.digest, argDigest: argDigest(c.args)}
	switch code {
	case "later":
		t.kind, t.due = "schedule", m.now+300
	case "past":
		t.kind, t.due = "schedule", m.now-300
	case "confirm":
		t.kind, t.quorum = "permission", 1
	case "quorum":
		t.kind, t.quorum, t.approvers, t.due = "permission", 2, []string{"bob", "cy", "dee"}, m.now+quorumTimeout
	}
	r.tickets = append(r.tickets, t)
	c.phase, c.ticket = "awaiting", len(r.tickets)
	r.event("call_awaiting", step, i, 0, c.ticket, "")
	m.commit(r)
}

// execute commits an attempt, makes it, and goes on while another is allowed.
func (m *reference) execute(r *refRun, b *refBatch, step, i int) {
	c := b.calls[i]
	for {
		if c.phase = "executing"; c.withdrawn {
			c.withdrawn = false
			m.seen["begun again"]++
		} else if c.attempt++; c.attempt == 1 {
			m.count(r, c.tool)
		}
		r.event("call_executing", step, i, c.attempt, 0, "")
		m.commit(r)
		if c.kind().delegate {
			m.delegate(r, b, step, i)
			return
		}
		if !m.attempt(r, b, step, i) {
			return
		}
		m.seen["attempted again"]++
	}
}

func (m *reference) count(r *refRun, tool string) {
	n, _ := strconv.Atoi(r.counts[tool])
	r.counts[tool] = strconv.Itoa(n + 1)
}

// attempt lets the tool run once and reports whether it is to run again.
func (m *reference) attempt(r *refRun, b *refBatch, step, i int) (again bool) {
	c := b.calls[i]
	m.deed(r, deed{"run", step, i, c.attempt, sees(c, r)})
	return m.outcome(r, b, step, i, c.does(c.attempt), r.operation(step, i)+"#"+strconv.Itoa(c.attempt))
}

// outcome records what came of an attempt and reports whether there is to be another.
func (m *reference) outcome(r *refRun, b *refBatch, step, i int, word, say string) (again bool) {
	c := b.calls[i]
	switch word {
	case "ok":
		if trial := r.staged(b); slices.ContainsFunc(c.Cmds, func(x command) bool { return !x.apply(trial, c.kind().plugin) }) {
			m.seen["state refused"]++
			m.complete(r, b, step, i, "tool", true, "…", nil)
			return false
		}
		m.complete(r, b, step, i, "tool", false, "say "+say, c.Cmds)
		return false
	case "fail", "failstate":
		m.complete(r, b, step, i, "tool", true, "say failed "+say, nil)
		return false
	case "badblock", "huge", "badschema":
		m.complete(r, b, step, i, "tool", true, "…", nil)
		return false
	case "invalid", "placement":
		m.complete(r, b, step, i, word, true, "…", nil)
		return false
	}
	if m.stopped {
		if word == "unavailable" {
			m.withdraw(r, c)
		}
		panic(aborted{"stopped"})
	}
	switch {
	case word == "unavailable" && c.attempt < c.max():
		return true
	case word == "unavailable":
		m.complete(r, b, step, i, "failed", true, "…", nil)
	case c.replays():
		return true
	default:
		m.giveUp(r, b, step, i)
	}
	return false
}

// sees is what a tool is shown besides its arguments: the narrowing and the published
// state of its plugin.
func sees(c *refCall, r *refRun) string {
	s := "state"
	for _, k := range []string{"list", "n"} {
		if v, ok := r.state[c.kind().plugin+"/"+k]; ok {
			s += " " + k + "=" + v
		}
	}
	if c.grant {
		s += " narrowed"
	}
	return s
}

// replays reports whether a call that was dispatched may be made once more.
func (c *refCall) replays() bool {
	return c.kind().policy != "never_replay" && c.attempt < c.max()
}

func (m *reference) recoverCall(r *refRun, b *refBatch, step, i int) (parked bool) {
	c := b.calls[i]
	if c.kind().delegate {
		which := []int{i}
		if b.delegations() {
			which = nil
			for j, c := range b.calls {
				if c.phase == "executing" {
					which = append(which, j)
				}
			}
		}
		for _, j := range which {
			if m.digest(b.calls[j].tool) != b.calls[j].digest {
				m.giveUp(r, b, step, j)
				return false
			}
		}
		return m.collect(r, b, step, which)
	}
	if c.withdrawn {
		if m.digest(c.tool) != c.digest {
			m.complete(r, b, step, i, "changed", true, "…", nil)
			return false
		}
		m.execute(r, b, step, i)
		return false
	}
	if m.digest(c.tool) == c.digest && m.recall(r, b, step, i) {
		return false
	}
	if !c.replays() || m.digest(c.tool) != c.digest {
		m.seen["given up after a stop"]++
		m.giveUp(r, b, step, i)
		return false
	}
	m.seen["repeated after a stop"]++
	m.execute(r, b, step, i)
	return false
}

func (m *reference) giveUp(r *refRun, b *refBatch, step, i int) {
	c := b.calls[i]
	c.phase, c.failed, c.text = "indeterminate", true, "…"
	r.event("call_indeterminate", step, i, c.attempt, 0, "")
	m.publish(r, b, step)
	m.commit(r)
}

func (m *reference) complete(r *refRun, b *refBatch, step, i int, answer string, failed bool, text string, cmds []command) {
	c := b.calls[i]
	c.phase, c.answer, c.failed, c.text, c.cmds, c.withdrawn = "completed", answer, failed, text, cmds, false
	m.seen["answer "+answer]++
	r.event("call_completed", step, i, c.attempt, 0, "")
	m.publish(r, b, step)
	m.commit(r)
}

// publish closes the batch when every call is terminal, in the commit of the last.
func (m *reference) publish(r *refRun, b *refBatch, step int) {
	if b.next() < 0 {
		r.state = r.staged(b)
		b.phase = "finalized"
		r.event("batch_published", step, -1, 0, 0, "")
	}
}

// sideBySide starts a batch of nothing but delegations at once, when every gate says
// allow. It reports whether the batch now waits.
func (m *reference) sideBySide(r *refRun, b *refBatch, step int) (parked bool) {
	if len(b.calls) < 2 || !b.delegations() {
		return false
	}
	var lines []string
	var grants []bool
	for i, c := range b.calls {
		if _, _, answer := m.precheck(c); c.phase != "requested" || !c.kind().parallel || answer != "" {
			return false
		}
		outcome, code := m.ask(r, c, step, i, nil)
		if outcome != "allow" {
			return false
		}
		lines, grants = append(lines, decisionLine(step, i, 1, outcome, code, "")), append(grants, code == "narrow")
	}
	var all []int
	for i, c := range b.calls {
		c.phase, c.attempt, c.grant = "executing", 1, grants[i]
		m.count(r, c.tool)
		r.event("call_executing", step, i, 1, 0, "")
		all = append(all, i)
	}
	r.decisions = append(r.decisions, lines...)
	m.commit(r)
	m.seen["side by side"]++
	return m.collect(r, b, step, all)
}

// collect looks after the children of the given calls, in the order in which they
// finished.
func (m *reference) collect(r *refRun, b *refBatch, step int, which []int) (parked bool) {
	order := m.order(r.id, step)
	slices.SortStableFunc(which, func(a, b int) int {
		return rank(order, a) - rank(order, b)
	})
	for _, i := range which {
		if !m.delegate(r, b, step, i) {
			parked = true
		}
	}
	return parked
}

func rank(order []int, i int) int {
	if n := slices.Index(order, i); n >= 0 {
		return n
	}
	return len(order)
}

// delegate submits the child's batch and takes its result; false: not finished.
func (m *reference) delegate(r *refRun, b *refBatch, step, i int) bool {
	c := b.calls[i]
	op := r.operation(step, i)
	child, class := m.submit(request{run: childID(op), step: 1, principal: r.principal, parent: op, depth: r.depth + 1, calls: c.children})
	switch {
	case class != "":
		m.seen["child refused"]++
		m.complete(r, b, step, i, "tool", true, "say refused", nil)
	case child.phase == "open":
		m.seen["child parked"]++
		return false
	default:
		m.complete(r, b, step, i, "tool", false, "say "+childText(child), nil)
	}
	return true
}

// childText is what a delegation answers with.
func childText(b *refBatch) string {
	s := "child"
	for _, c := range b.calls {
		s += " " + c.phase + "/" + c.answer
		if c.failed {
			s += "!"
		}
	}
	return s
}

// family is a run with all that it began, and all that began it.
func (m *reference) family(id string) map[string]bool {
	root := id
	for m.runs[root] != nil && m.runs[root].parent != "" {
		root = m.parentOf(root)
	}
	out := map[string]bool{root: true}
	for {
		n := len(out)
		for _, id := range slices.Sorted(maps.Keys(m.runs)) {
			if r := m.runs[id]; r.parent != "" && out[m.parentOf(id)] {
				out[id] = true
			}
		}
		if len(out) == n {
			return out
		}
	}
}
