package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
)

// history is everything that a ledger holds.
type history struct {
	runs    map[batch.RunID]*host.RunView
	events  map[batch.RunID][]host.EventView
	answers map[batch.BatchID]string // of published batches, as a caller gets them
	tickets map[batch.TicketID]*batch.Ticket
}

func readHistory(ctx context.Context, l *host.Ledger) (*history, error) {
	h := &history{
		runs: map[batch.RunID]*host.RunView{}, events: map[batch.RunID][]host.EventView{},
		answers: map[batch.BatchID]string{}, tickets: map[batch.TicketID]*batch.Ticket{},
	}
	runs, err := l.Runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if h.runs[r.Run], err = l.Show(ctx, r.Run); err != nil {
			return nil, err
		}
		if h.events[r.Run], err = l.Events(ctx, r.Run, 0, 0); err != nil {
			return nil, err
		}
		for i, b := range h.runs[r.Run].Batches {
			if b.Phase != batch.BatchFinalized {
				continue
			}
			res, err := l.Batch(ctx, r.Run, i+1)
			if err != nil {
				return nil, err
			}
			text, err := res.Answer()
			if err != nil {
				return nil, err
			}
			h.answers[b.Batch] = string(text)
		}
	}
	ts, err := l.Tickets(ctx, true)
	for _, t := range ts {
		h.tickets[t.ID] = t
	}
	return h, err
}

// calls are the calls of the ledger by operation.
func (h *history) calls() map[batch.OperationID]*host.CallView {
	all := map[batch.OperationID]*host.CallView{}
	for _, v := range h.runs {
		for _, b := range v.Batches {
			for i := range b.Calls {
				all[b.Calls[i].Operation] = &b.Calls[i]
			}
		}
	}
	return all
}

// checker holds the invariants, over the lives of a world.
type checker struct {
	scene []run
	spec  map[batch.OperationID]*call
	last  *history                  // as the life before left it
	cut   map[batch.OperationID]int // how many lives ended while the call was executing
	found []string

	// faults is how many attempts may have been cut short while their process lived on.
	faults int

	// phases counts, for the report, where the calls of each kind stood when a life
	// ended before its time.
	phases map[string]map[string]int
}

func newChecker(scene []run) *checker {
	return &checker{scene: scene, spec: calls(scene), cut: map[batch.OperationID]int{}, phases: map[string]map[string]int{}}
}

func (c *checker) bad(format string, a ...any) { c.found = append(c.found, fmt.Sprintf(format, a...)) }

// look checks what a life left and returns what is wrong. Settled says that the life
// came to its end.
func (c *checker) look(h *history, journal []entry, effects []happened, settled bool) []string {
	c.found = nil
	if !settled {
		c.countPhases(h)
	}
	c.acknowledged(h, journal)
	for id, v := range h.runs {
		c.events(v, h.events[id])
		c.state(v)
	}
	c.kept(h)
	c.effects(h, effects)
	if settled {
		c.settled(h)
	}
	c.last = h
	return slices.Clone(c.found)
}

// countPhases remembers where a kill found each call.
func (c *checker) countPhases(h *history) {
	there := h.calls()
	for op, spec := range c.spec {
		phase := notRequested
		if v := there[op]; v != nil {
			phase = string(v.Phase)
			if _, published := h.answers[batchOf(op)]; published {
				phase = isPublished
			}
			if v.Phase == batch.PhaseExecuting {
				c.cut[op]++
			}
		}
		if c.phases[spec.kind] == nil {
			c.phases[spec.kind] = map[string]int{}
		}
		c.phases[spec.kind][phase]++
	}
}

func batchOf(op batch.OperationID) batch.BatchID {
	return batch.BatchID(op[:strings.LastIndexByte(string(op), '/')])
}

// acknowledged: what a life was told is there.
func (c *checker) acknowledged(h *history, journal []entry) {
	handed := map[batch.BatchID]string{}
	for _, e := range journal {
		switch {
		case e.Commit != nil:
			there := h.events[e.Commit.Run]
			for _, ev := range e.Commit.Events {
				if ev.Seq == 0 || uint64(len(there)) < ev.Seq || !reflect.DeepEqual(there[ev.Seq-1].Event, ev) {
					c.bad("run %s: event %d (%s) was acknowledged in life %d and is not there", e.Commit.Run, ev.Seq, ev.Kind, e.Life)
				}
			}
		case e.Decided != nil:
			t := h.tickets[e.Decided.Ticket]
			if t == nil || t.Status != e.Decided.Status || len(t.Decisions) != 1 {
				c.bad("ticket %s was decided as %s in life %d and is %+v", e.Decided.Ticket, e.Decided.Status, e.Life, t)
			}
		case e.Published != nil:
			id := batch.NewBatchID(e.Published.Run, e.Published.Step)
			if before, twice := handed[id]; twice && before != e.Published.Answer {
				c.bad("batch %s was handed out as\n  %s\nand then as\n  %s", id, before, e.Published.Answer)
			}
			handed[id] = e.Published.Answer
			if h.answers[id] != e.Published.Answer {
				c.bad("batch %s was handed out as\n  %s\nand is\n  %s", id, e.Published.Answer, h.answers[id])
			}
		}
	}
}

// events: no holes, and each thing happens as often as it may, in its order.
func (c *checker) events(v *host.RunView, events []host.EventView) {
	type key struct{ step, index int }
	var (
		published = map[int]int{}
		terminal  = map[key]int{}
		attempts  = map[key]int{}
		awaiting  = map[key]batch.TicketID{}
		decided   = map[batch.TicketID]int{}
		cancelled = 0
	)
	for i, ev := range events {
		k := key{ev.Step, ev.Index}
		if ev.Seq != uint64(i+1) {
			c.bad("run %s: event %d has seq %d", v.Run, i+1, ev.Seq)
		}
		if ev.Index >= 0 && terminal[k] > 0 || published[ev.Step] > 0 && ev.Step > 0 {
			c.bad("run %s: event %d (%s) is about step %d, call %d, which was at its end", v.Run, ev.Seq, ev.Kind, ev.Step, ev.Index)
		}
		switch ev.Kind {
		case batch.EventBatchPublished:
			published[ev.Step]++
		case batch.EventCallCompleted, batch.EventCallIndeterminate:
			terminal[k]++
		case batch.EventCallExecuting:
			// An attempt of which nothing ran, because its host was stopped before, is begun
			// again: the first with a note, a later one in the place of the one taken back.
			if again := ev.Attempt == attempts[k] && (ev.Note != "" || ev.Attempt > 1); !again {
				if attempts[k]++; ev.Attempt != attempts[k] {
					c.bad("run %s: event %d begins attempt %d of call %d, want %d", v.Run, ev.Seq, ev.Attempt, ev.Index, attempts[k])
				}
			}
			if t := awaiting[k]; t != "" && decided[t] == 0 {
				c.bad("run %s: event %d begins call %d before ticket %s is decided", v.Run, ev.Seq, ev.Index, t)
			}
		case batch.EventCallAwaiting:
			if awaiting[k] != "" {
				c.bad("run %s: call %d waited on ticket %s and then on %s", v.Run, ev.Index, awaiting[k], ev.Ticket)
			}
			awaiting[k] = ev.Ticket
		case batch.EventTicketDecided:
			decided[ev.Ticket]++
		case batch.EventRunCancelled:
			cancelled++
		}
	}
	for t, n := range decided {
		if n != 1 {
			c.bad("run %s: ticket %s was decided %d times", v.Run, t, n)
		}
	}
	if want := v.Cancelled != nil; cancelled > 1 || (cancelled == 1) != want {
		c.bad("run %s was cancelled %d times, cancellation %+v", v.Run, cancelled, v.Cancelled)
	}
	for i, b := range v.Batches {
		step, done := i+1, 0
		for j := range b.Calls {
			cv, k := &b.Calls[j], key{step, j}
			if cv.Phase.Terminal() {
				done++
			}
			if want := cv.Phase.Terminal(); terminal[k] > 1 || (terminal[k] == 1) != want {
				c.bad("%s is %s and came to an end %d times", cv.Operation, cv.Phase, terminal[k])
			}
			// The last one may have been taken back.
			if attempts[k] != cv.Attempt && (attempts[k] != cv.Attempt+1 || cv.Attempt == 0 || cv.Phase == batch.PhaseCompleted) {
				c.bad("%s is at attempt %d and has begun %d", cv.Operation, cv.Attempt, attempts[k])
			}
			seen := map[int]bool{}
			for _, d := range cv.Decisions {
				if seen[d.Seq] || d.Seq < 1 || d.Seq > 2 {
					c.bad("%s has decision records %+v", cv.Operation, cv.Decisions)
				}
				seen[d.Seq] = true
			}
		}
		finalized := b.Phase == batch.BatchFinalized
		if published[step] > 1 || (published[step] == 1) != finalized {
			c.bad("batch %s is %s and was published %d times", b.Batch, b.Phase, published[step])
		}
		if finalized != (done == len(b.Calls)) {
			c.bad("batch %s is %s with %d of %d calls at their end", b.Batch, b.Phase, done, len(b.Calls))
		}
	}
}

// state is what the published calls say, applied in model order.
func (c *checker) state(v *host.RunView) {
	want := map[string]string{}
	total, entries := 0, []int{}
	for _, b := range v.Batches {
		if b.Phase != batch.BatchFinalized {
			continue
		}
		for i := range b.Calls {
			cv := &b.Calls[i]
			var args struct{ N int }
			if cv.Answer != batch.AnswerTool || cv.IsError || cv.Tool == toolDelegate || json.Unmarshal([]byte(cv.Arguments), &args) != nil || args.N == 0 {
				continue
			}
			total, entries = total+args.N, append(entries, args.N)
			list, _ := json.Marshal(entries)
			want["effect/total"], want["effect/entries"], want["effect/last"] = fmt.Sprint(total), string(list), fmt.Sprint(args.N)
		}
	}
	got := map[string]string{}
	for k, raw := range v.State {
		got[k] = string(raw)
	}
	if !maps.Equal(got, want) {
		c.bad("run %s: state is %v, its published calls come to %v", v.Run, got, want)
	}
}

// kept: nothing that was there is gone, and nothing that was final has changed.
func (c *checker) kept(h *history) {
	if c.last == nil {
		return
	}
	for id, before := range c.last.events {
		if now := h.events[id]; len(now) < len(before) || !reflect.DeepEqual(now[:len(before)], before) {
			c.bad("run %s had %d events, now %d, and they are not the same", id, len(before), len(now))
		}
	}
	there := h.calls()
	for op, before := range c.last.calls() {
		now := there[op]
		if now == nil {
			c.bad("%s is gone", op)
			continue
		}
		if before.Phase.Terminal() && !reflect.DeepEqual(*before, *now) {
			c.bad("%s was at its end as\n  %+v\nand is now\n  %+v", op, *before, *now)
		}
	}
	for id, before := range c.last.answers {
		if h.answers[id] != before {
			c.bad("batch %s was published as\n  %s\nand is now\n  %s", id, before, h.answers[id])
		}
	}
	for id, before := range c.last.tickets {
		now := h.tickets[id]
		if now == nil {
			c.bad("ticket %s is gone", id)
			continue
		}
		same := *now
		if before.Status == batch.TicketOpen { // what deciding it changes
			same.Status, same.Decisions, same.ClosedAt = before.Status, before.Decisions, before.ClosedAt
		}
		if !reflect.DeepEqual(same, *before) {
			c.bad("ticket %s was\n  %+v\nand is now\n  %+v", id, *before, *now)
		}
	}
}
