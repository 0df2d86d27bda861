package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What the engines of the world are configured with, in seconds where it is a time.
const (
	maxDepth      = 2
	maxArgBytes   = 4000
	maxOutBytes   = 2000
	ticketTimeout = 3600
	quorumTimeout = 600
)

// refRun is a run as an outsider may know it. The model's runs and the records that
// are read from the store are both put in this form, and compared as text.
type refRun struct {
	id, principal, parent string
	depth                 int
	cancelled             string // by whom
	batches               []*refBatch
	tickets               []*refTicket
	decisions, events     []string
	state, counts         map[string]string
	deeds                 []deed
}

type refBatch struct {
	phase string
	calls []*refCall
}

type refCall struct {
	*script
	digest  string // pinned; empty: the tool was unknown
	phase   string
	attempt int
	// withdrawn: nothing of it ever ran, since its host was stopped before.
	withdrawn bool
	grant     bool
	ticket    int    // ordinal within the run, from 1
	answer    string // of a completed call
	failed    bool
	text      string // "…" for words of the engine
	cmds      []command
}

type refTicket struct {
	kind, status          string
	step, index, quorum   int
	created, due, closed  int64 // seconds on the world's clock; due is also the deadline
	approvers             []string
	decisions             []string // who, and how
	argDigest, toolDigest string
}

// deed is what is seen outside the host: a question to the gate, or a call that
// reached its tool.
type deed struct {
	kind    string // ask, run
	step    int
	index   int
	attempt int
	what    string // ask: how the call came back, and what was answered; run: what the tool saw
}

func (c *refCall) terminal() bool { return c.phase == "completed" || c.phase == "indeterminate" }
func (c *refCall) kind() toolKind { return kinds[c.tool] }
func (c *refCall) max() int {
	if n := c.kind().max; n > 0 {
		return n
	}
	return 3
}

func (b *refBatch) next() int {
	return slices.IndexFunc(b.calls, func(c *refCall) bool { return !c.terminal() })
}

func (b *refBatch) delegations() bool {
	return !slices.ContainsFunc(b.calls, func(c *refCall) bool { return c.digest == "" || !c.kind().delegate })
}

func (b *refBatch) same(cs []*script) bool {
	return slices.EqualFunc(b.calls, cs, func(c *refCall, s *script) bool {
		return c.id == s.id && c.tool == s.tool && c.args == s.args
	})
}

// open is the batch that is not published, with its step.
func (r *refRun) open() (*refBatch, int) {
	if n := len(r.batches); n > 0 && r.batches[n-1].phase == "open" {
		return r.batches[n-1], n
	}
	return nil, 0
}

func (r *refRun) unfinished() bool { b, _ := r.open(); return b != nil }

// delegating reports whether a call of the open batch waits for its child.
func (r *refRun) delegating() bool {
	b, _ := r.open()
	return b != nil && slices.ContainsFunc(b.calls, func(c *refCall) bool { return c.phase == "executing" && c.kind().delegate })
}

func (r *refRun) event(kind string, step, index, attempt, ticket int, by string) {
	r.events = append(r.events, eventLine(kind, step, index, attempt, ticket, by))
}

func eventLine(kind string, step, index, attempt, ticket int, by string) string {
	s := kind + " " + strconv.Itoa(step) + "." + strconv.Itoa(index)
	if attempt > 0 {
		s += " attempt " + strconv.Itoa(attempt)
	}
	if ticket > 0 {
		s += " ticket " + strconv.Itoa(ticket)
	}
	if by != "" {
		s += " by " + by
	}
	return s
}

func decisionLine(step, index, seq int, outcome, code, back string) string {
	return strconv.Itoa(step) + "." + strconv.Itoa(index) + " no. " + strconv.Itoa(seq) + " " + outcome + " " + code + " " + back
}

func (r *refRun) operation(step, index int) string {
	return r.id + "/" + strconv.Itoa(step) + "/" + strconv.Itoa(index)
}

func childID(operation string) string {
	sum := sha256.Sum256([]byte(operation))
	return "child-" + hex.EncodeToString(sum[:16])
}

func (r *refRun) clone() *refRun {
	if r == nil {
		return nil
	}
	n := *r
	n.batches = make([]*refBatch, len(r.batches))
	for i, b := range r.batches {
		nb := &refBatch{phase: b.phase, calls: make([]*refCall, len(b.calls))}
		for j, c := range b.calls {
			nc := *c
			nb.calls[j] = &nc
		}
		n.batches[i] = nb
	}
	n.tickets = make([]*refTicket, len(r.tickets))
	for i, t := range r.tickets {
		nt := *t
		nt.decisions = slices.Clone(t.decisions)
		n.tickets[i] = &nt
	}
	n.decisions, n.events, n.deeds = slices.Clone(r.decisions), slices.Clone(r.events), slices.Clone(r.deeds)
	n.state, n.counts = maps.Clone(r.state), maps.Clone(r.counts)
	return &n
}

// text is everything there is to know of the run, for comparison and for people.
func (r *refRun) text() string {
	if r == nil {
		return "no such run\n"
	}
	w := make([]byte, 0, 1024)
	put := func(parts ...string) {
		for _, p := range parts {
			w = append(append(w, p...), ' ')
		}
	}
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	end := func() { w[len(w)-1] = '\n' }
	put("run", r.id, "of", r.principal, "parent", r.parent, "depth", num(int64(r.depth)), "cancelled", r.cancelled)
	end()
	put("  state")
	for _, k := range slices.Sorted(maps.Keys(r.state)) {
		put(k, r.state[k])
	}
	put("counts")
	for _, k := range slices.Sorted(maps.Keys(r.counts)) {
		put(k, r.counts[k])
	}
	end()
	for i, b := range r.batches {
		put("  step", num(int64(i+1)), b.phase)
		end()
		for _, c := range b.calls {
			put("   ", c.id, c.tool, c.digest, c.phase, "attempt", num(int64(c.attempt)), "ticket", num(int64(c.ticket)), c.answer)
			if c.grant {
				put("narrowed")
			}
			if c.withdrawn {
				put("withdrawn")
			}
			if c.failed {
				put("failed")
			}
			put(c.text)
			for _, cmd := range c.cmds {
				put(cmd.Op, cmd.Key, cmd.Value)
			}
			end()
		}
	}
	for i, t := range r.tickets {
		put("  ticket", num(int64(i+1)), t.kind, t.status, num(int64(t.step)), num(int64(t.index)), "quorum", num(int64(t.quorum)),
			"created", num(t.created), "due", num(t.due), "closed", num(t.closed), t.toolDigest, t.argDigest)
		put(t.approvers...)
		put(t.decisions...)
		end()
	}
	for _, d := range r.decisions {
		put("  decision", d)
		end()
	}
	for i, e := range r.events {
		put("  event", num(int64(i+1)), e)
		end()
	}
	for _, d := range r.deeds {
		put("  deed", d.kind, num(int64(d.step)), num(int64(d.index)), "attempt", num(int64(d.attempt)), d.what)
		end()
	}
	return string(w)
}

// refTool is what can change about a tool.
type refTool struct {
	version int
	gone    bool
}

// reference is the model.
type reference struct {
	now   int64
	tools map[string]*refTool
	runs  map[string]*refRun
	// order is what a model cannot know: in which order children that run side by side
	// finished. It is taken from the record.
	order func(run string, step int) []int

	snaps   map[string][]*refRun // each run after each step of the action, when wanted
	moment  func(*refRun, deed)  // comes between a deed of a run and what follows
	stopped bool                 // the host was asked to stop
	lost    *refRun              // as it was when the host lost it to another
	seen    map[string]int       // what the histories have come across
}

// aborted ends an action in the middle.
type aborted struct{ class string }

func newReference() *reference {
	m := &reference{now: 1000, tools: map[string]*refTool{}, runs: map[string]*refRun{}, seen: map[string]int{}}
	for id := range kinds {
		m.tools[id] = &refTool{version: 1}
	}
	return m
}

// perform runs an action and returns the class of its error.
func (m *reference) perform(action func() string) (class string) {
	m.stopped, m.lost = false, nil
	if c := m.caught(func() { class = action() }); c != "" {
		return c
	}
	return class
}

// caught runs a part of an action and returns why it ended in the middle, if it did.
func (m *reference) caught(part func()) (class string) {
	defer func() {
		if p := recover(); p != nil {
			a, ok := p.(aborted)
			if !ok {
				panic(p)
			}
			class, m.lost = a.class, nil
		}
	}()
	part()
	return ""
}

// commit ends a step that changes the record. Who has lost the run comes no further.
func (m *reference) commit(r *refRun) {
	if r == m.lost {
		panic(aborted{"fenced"})
	}
	m.step(r)
}

// step is after each commit of a run and each deed.
func (m *reference) step(r *refRun) {
	m.runs[r.id] = r
	if m.snaps != nil {
		m.snaps[r.id] = append(m.snaps[r.id], r.clone())
	}
}

// deed records a deed. For the calls a client asked for, something may come between
// it and what follows.
func (m *reference) deed(r *refRun, d deed) {
	if r == m.lost { // it can still ask, and ask to run, what it has committed to
		m.runs[r.id].deeds = append(m.runs[r.id].deeds, d)
		return
	}
	r.deeds = append(r.deeds, d)
	m.step(r)
	if m.moment != nil && r.parent == "" {
		m.moment(r, d)
	}
}

// digest is what the catalogue has for a tool now, empty: nothing.
func (m *reference) digest(tool string) string {
	t := m.tools[tool]
	if t == nil || t.gone {
		return ""
	}
	return fmt.Sprint("v", t.version)
}

// staged is the published state with the commands of completed calls on top.
func (r *refRun) staged(b *refBatch) map[string]string {
	st := maps.Clone(r.state)
	for _, c := range b.calls {
		for _, cmd := range c.cmds {
			if !cmd.apply(st, c.kind().plugin) {
				panic("a recorded command does not apply")
			}
		}
	}
	return st
}

// apply changes st and reports whether the command is one that the tool may give.
func (c command) apply(st map[string]string, plugin string) bool {
	key := plugin + "/" + c.Key
	old, has := st[key]
	if c.Key != "n" && c.Key != "list" {
		return false
	}
	var v string
	switch c.Op {
	case "delete":
		delete(st, key)
		return true
	case "set":
		v = c.Value
	case "append":
		switch {
		case !has || old == "[]":
			v = "[" + c.Value + "]"
		case strings.HasPrefix(old, "["):
			v = strings.TrimSuffix(old, "]") + "," + c.Value + "]"
		default:
			return false
		}
	case "increment":
		if !has {
			old = "0"
		}
		a, err1 := strconv.Atoi(old)
		b, err2 := strconv.Atoi(c.Value)
		if err1 != nil || err2 != nil {
			return false
		}
		v = strconv.Itoa(a + b)
	default:
		return false
	}
	if _, err := strconv.Atoi(v); c.Key == "n" && err != nil {
		return false
	}
	st[key] = v
	return true
}
