package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// violations are the rules that hold of any run at any time, whatever the model says.
// They look at nothing but the record, and the one before.
func violations(before, now *record) (out []string) {
	bad := func(format string, a ...any) {
		out = append(out, now.id+": "+fmt.Sprintf(format, a...))
	}
	for i, seq := range now.seqs {
		if seq != uint64(i+1) {
			bad("event %d has seq %d", i+1, seq)
		}
	}
	count := func(prefix string) (n int) {
		for _, e := range now.events {
			if e == prefix || strings.HasPrefix(e, prefix+" ") {
				n++
			}
		}
		return n
	}
	published := map[string]string{}
	for i, b := range now.batches {
		step := i + 1
		if got := count(fmt.Sprintf("batch_published %d.-1", step)); got != map[string]int{"finalized": 1}[b.phase] {
			bad("step %d is %s and was published %d times", step, b.phase, got)
		}
		awaiting := 0
		for j, c := range b.calls {
			if c.phase == "awaiting" {
				awaiting++
				if b.next() != j {
					bad("call %d.%d awaits out of turn", step, j)
				}
			}
			if b.phase != "open" && !c.terminal() {
				bad("call %d.%d is %s in a published batch", step, j, c.phase)
			}
			ended := count(fmt.Sprintf("call_completed %d.%d", step, j)) + count(fmt.Sprintf("call_indeterminate %d.%d", step, j))
			if ended > 1 || (ended == 1) != c.terminal() {
				bad("call %d.%d is %s and ended %d times", step, j, c.phase, ended)
			}
			if b.phase == "finalized" {
				for _, cmd := range c.cmds {
					cmd.apply(published, c.kind().plugin)
				}
			}
			if c.failed && len(c.cmds) > 0 {
				bad("call %d.%d failed and changes state", step, j)
			}
			out = append(out, now.deedsOf(step, j, c)...)
		}
		if awaiting > 1 {
			bad("%d calls of step %d await", awaiting, step)
		}
		if b.phase == "open" && step != len(now.batches) {
			bad("step %d is open and not the last", step)
		}
	}
	if !maps.Equal(published, now.state) {
		bad("state is %v, what was published makes %v", now.state, published)
	}
	if before != nil {
		out = append(out, rewritten(before, now)...)
	}
	return out
}

// deedsOf checks what was done for one call: within its budget, never twice against
// the policy, never before it was committed, and one record for each answer of the
// gate.
func (rec *record) deedsOf(step, index int, c *refCall) (out []string) {
	bad := func(format string, a ...any) {
		out = append(out, fmt.Sprintf("%s call %d.%d (%s): ", rec.id, step, index, c.tool)+fmt.Sprintf(format, a...))
	}
	last, looked, dispatched := 0, 0, false
	asked := map[string]int{}
	for _, d := range rec.deeds {
		if d.step != step || d.index != index {
			continue
		}
		if d.kind == "ask" {
			asked[strings.Fields(d.what)[0]]++
			continue
		}
		if d.kind == "look" { // for what was begun, after which nothing of it runs
			// Each attempt that a crash kept from running is looked for in its turn.
			if done := max(last, looked); d.attempt < last-1 || d.attempt > done+1 {
				bad("the record of attempt %d is looked for after %d", d.attempt, done)
			}
			looked = d.attempt
			continue
		}
		// One of which nothing ran may have been withdrawn, and made again.
		unbegun := 0
		if c.does(d.attempt) == "unavailable" {
			unbegun = 1
		}
		if d.attempt <= last-unbegun || d.attempt > c.attempt+unbegun || d.attempt > c.max() {
			bad("attempt %d after %d, committed are %d of %d", d.attempt, last, c.attempt, c.max())
		}
		if dispatched && c.kind().policy == "never_replay" {
			bad("it is never to be repeated, and attempt %d reached the tool", d.attempt)
		}
		last, dispatched = d.attempt, dispatched || c.does(d.attempt) != "unavailable"
	}
	if c.answer == "tool" && !c.kind().delegate && last != c.attempt && looked != c.attempt {
		bad("attempt %d is said to have answered, %d was the last that ran", c.attempt, last)
	}
	records := map[string]int{}
	for _, d := range rec.decisions {
		f := strings.Fields(d)
		if f[0] != fmt.Sprintf("%d.%d", step, index) || f[4] == "invalid_arguments" || f[4] == "tool_changed" || f[4] == "unknown_tool" {
			continue
		}
		records[map[string]string{"1": "first", "2": "after"}[f[2]]]++
	}
	for _, when := range []string{"first", "after"} {
		if records[when] > 1 || records[when] > asked[when] {
			bad("the gate was asked %d times (%s) and left %d records", asked[when], when, records[when])
		}
	}
	if c.attempt > 0 && records["first"] == 0 {
		bad("it was started without a decision")
	}
	return out
}

// rewritten is what was taken back of facts that were committed.
func rewritten(before, now *record) (out []string) {
	bad := func(format string, a ...any) {
		out = append(out, now.id+": "+fmt.Sprintf(format, a...))
	}
	if now.version < before.version {
		bad("version %d after %d", now.version, before.version)
	}
	if len(now.events) < len(before.events) || !slices.Equal(before.events, now.events[:len(before.events)]) {
		bad("history was rewritten")
	}
	if before.cancelled != "" && now.cancelled != before.cancelled {
		bad("it was cancelled and is not any more")
	}
	for i, b := range before.batches {
		for j, c := range b.calls {
			n := now.batches[i].calls[j]
			if c.terminal() && (c.phase != n.phase || c.answer != n.answer || c.text != n.text || c.failed != n.failed || !slices.Equal(c.cmds, n.cmds)) {
				bad("the outcome of call %d.%d was rewritten", i+1, j)
			}
			back := 0 // an attempt that was withdrawn
			if c.attempt > 0 && !c.kind().delegate && (c.does(c.attempt) == "unavailable" || c.Record == "unavailable") {
				back = 1
			}
			if c.attempt-back > n.attempt || c.digest != n.digest {
				bad("call %d.%d went back", i+1, j)
			}
		}
	}
	for i, t := range before.refRun.tickets {
		n := now.refRun.tickets[i]
		if t.status != "open" && (n.status != t.status || n.closed != t.closed) {
			bad("ticket %d was %s and is %s", i+1, t.status, n.status)
		}
	}
	return out
}

// familyViolations are about parents and children.
func familyViolations(runs map[string]*record) (out []string) {
	for _, r := range runs {
		for i, b := range r.batches {
			for j, c := range b.calls {
				if !c.kind().delegate || c.phase != "completed" || !strings.HasPrefix(c.text, "say child") {
					continue
				}
				child := runs[childID(r.operation(i+1, j))]
				if child == nil || child.batches[0].phase != "finalized" || c.text != "say "+childText(child.batches[0]) {
					out = append(out, fmt.Sprintf("%s call %d.%d has a result that its child does not", r.id, i+1, j))
				}
			}
		}
	}
	return out
}
