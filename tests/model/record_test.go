package model

import "strconv"

// recall looks for the record of a call that was executing, and reports whether that
// says how it ended.
func (m *reference) recall(r *refRun, b *refBatch, step, i int) (known bool) {
	c := b.calls[i]
	m.deed(r, deed{"look", step, i, c.attempt, c.Record})
	switch c.Record {
	case "", "error", "panic", "nothing":
		m.seen[map[bool]string{true: "not recorded", false: "record unreadable"}[c.Record == ""]]++
		if m.stopped {
			panic(aborted{"stopped"})
		}
		return false
	}
	m.seen["recorded"]++
	return !m.outcome(r, b, step, i, c.Record, "recorded "+r.operation(step, i)+"#"+strconv.Itoa(c.attempt))
}

// withdraw takes an attempt back of which nothing ran. After one that may have run it
// is as if this one had never been.
func (m *reference) withdraw(r *refRun, c *refCall) {
	if c.attempt > 1 && c.kind().policy != "never_replay" {
		c.attempt--
	} else {
		c.withdrawn = true
	}
	m.seen["withdrawn"]++
	m.commit(r)
}

// unbegun withdraws the attempt that a deed tells to be one of which nothing ran,
// before a cancel that comes with the deed.
func (m *reference) unbegun(r *refRun, d deed) {
	c := r.batches[d.step-1].calls[d.index]
	if d.kind == "run" && c.does(c.attempt) == "unavailable" || d.kind == "look" && c.Record == "unavailable" {
		m.withdraw(r, c)
	}
}
