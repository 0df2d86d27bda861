package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

var epoch = time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)

// world is what the engines of a history have around them: one store, a gate, a
// catalogue, tools, a clock, and two hosts that take runs from each other.
type world struct {
	mem   *storetest.Memory
	hosts [2]*host

	mu      sync.Mutex
	clock   int64
	tools   map[string]*refTool
	scripts map[string]*script
	deeds   map[string][]deed
	heard   map[string]uint64 // last event that subscribers heard, by run
	faults  []string          // what was wrong on the spot
	armed   *moment
	waiting sync.WaitGroup
}

// host is one process: an engine over the shared store.
type host struct {
	w      *world
	store  *storetest.Faulty
	engine *batch.Engine
}

// moment is something that happens while a host is at work: just after the n-th deed
// of a run.
type moment struct {
	kind  string // takeover, cancel here, cancel there, stop
	run   string
	n     int // deeds to come before it
	after int // deeds, as drawn
	host  int // at work
	stop  context.CancelFunc
	err   error
	hit   bool
}

func newWorld() *world {
	w := &world{
		mem: storetest.NewMemory(), clock: 1000, tools: map[string]*refTool{}, scripts: map[string]*script{},
		deeds: map[string][]deed{}, heard: map[string]uint64{},
	}
	for id := range kinds {
		w.tools[id] = &refTool{version: 1}
	}
	for i := range w.hosts {
		w.start(i)
	}
	return w
}

// start is a fresh process in place of the one that was there.
func (w *world) start(i int) {
	h := &host{w: w, store: storetest.NewFaulty(w.mem, nil)}
	e, err := batch.NewEngine(batch.Options{
		Store: h.store, Gate: gate{w}, Catalog: func() batch.Catalog { return catalog{w} },
		Executors: map[batch.Target]batch.Executor{batch.TargetBrain: h},
		Now:       w.now, RetryDelay: 1, MaxDepth: maxDepth, TicketTimeout: ticketTimeout * time.Second,
		MaxArgumentBytes: maxArgBytes, MaxOutputBytes: maxOutBytes, Observe: w.hear,
	})
	if err != nil {
		panic(err)
	}
	h.engine = e
	w.hosts[i] = h
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return epoch.Add(time.Duration(w.clock) * time.Second)
}

func (w *world) learn(cs []*script) {
	for _, s := range cs {
		w.scripts[s.key()] = s
		w.learn(s.children)
	}
}

// script is what was learnt of a call, nil when nobody submitted such a one.
func (w *world) script(c *batch.Call) *script {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scripts[(&script{id: string(c.ID), tool: string(c.Tool), args: string(c.Arguments)}).key()]
}

func (w *world) fault(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, a...))
}

// hear is the subscribers' side: only what is durable, in order, once.
func (w *world) hear(run batch.RunID, evs []batch.Event) {
	r, err := w.mem.Run(context.Background(), run)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range evs {
		if err != nil || ev.Seq > r.LastSeq || ev.Seq <= w.heard[string(run)] {
			w.faults = append(w.faults, fmt.Sprintf("subscribers of %s heard event %d after %d, the store has %v, %v", run, ev.Seq, w.heard[string(run)], r, err))
		}
		w.heard[string(run)] = ev.Seq
	}
}

// happened records a deed and lets come what is to come at this moment.
func (w *world) happened(ctx context.Context, c *batch.Call, d deed) {
	run := string(c.Run)
	w.mu.Lock()
	w.deeds[run] = append(w.deeds[run], d)
	m := w.armed
	if m == nil || m.run != run {
		w.mu.Unlock()
		return
	}
	if m.n--; m.n > 0 {
		w.mu.Unlock()
		return
	}
	w.armed, m.hit = nil, true
	w.mu.Unlock()
	here, there := w.hosts[m.host].engine, w.hosts[1-m.host].engine
	switch m.kind {
	case "takeover":
		_, m.err = there.Resume(context.Background(), c.Run)
	case "cancel there":
		_, m.err = there.Cancel(context.Background(), c.Run, "boss", "")
	case "cancel here":
		w.waiting.Go(func() { _, m.err = here.Cancel(context.Background(), c.Run, "boss", "") })
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			w.fault("a running call of %s was not told to stop", run)
		}
	case "stop":
		m.stop()
	}
}

// gate answers as the script of the call says.
type gate struct{ w *world }

func (g gate) Revision() string { return "rev" }

func (g gate) Decide(ctx context.Context, q *batch.Query) (*batch.Decision, error) {
	s := g.w.script(q.Call)
	word, what := s.Gate, "first "
	if q.Approval != nil {
		word, what = s.Then, fmt.Sprintf("after %s by %d ", q.Approval.Kind, len(q.Approval.By))
	}
	g.w.happened(ctx, q.Call, deed{"ask", q.Call.Step, q.Call.Index, 0, what + word})
	d := &batch.Decision{PolicyRevision: "rev", Reasons: []batch.Reason{{Code: word}}}
	say := func(failed bool) {
		d.Outcome, d.Result = batch.OutcomeSetResult, &batch.Result{Content: text("say policy"), IsError: failed}
		d.Reasons[0].Code = map[bool]string{true: "fail", false: "ok"}[failed]
	}
	switch word {
	case "allow":
		d.Outcome = batch.OutcomeAllow
	case "narrow":
		d.Outcome, d.Grant = batch.OutcomeAllow, &batch.Grant{Hosts: []string{}}
	case "block":
		d.Outcome, d.Reasons[0].Code = batch.OutcomeBlock, "no"
	case "set":
		say(false)
	case "setfail":
		say(true)
	case "confirm":
		d.Outcome, d.Confirmation = batch.OutcomeRequireConfirmation, &batch.Confirmation{Prompt: "sure?"}
	case "quorum":
		d.Outcome = batch.OutcomeRequireConfirmation
		d.Confirmation = &batch.Confirmation{Approvers: []string{"bob", "cy", "dee"}, Quorum: 2, Timeout: quorumTimeout * time.Second}
	case "later":
		d.Outcome, d.At = batch.OutcomeSchedule, q.Now.Add(5*time.Minute)
	case "past":
		d.Outcome, d.At = batch.OutcomeSchedule, q.Now.Add(-5*time.Minute)
	case "error":
		return nil, errors.New("the policy is broken")
	case "panic":
		panic("the policy is broken")
	case "nothing":
		return nil, nil
	case "odd":
		d.Outcome = "maybe"
	case "oddset":
		d.Outcome = batch.OutcomeSetResult
	case "oddconfirm":
		d.Outcome = batch.OutcomeRequireConfirmation
	case "oddquorum":
		d.Outcome, d.Confirmation = batch.OutcomeRequireConfirmation, &batch.Confirmation{Approvers: []string{"bob"}, Quorum: 2}
	case "oddlater":
		d.Outcome = batch.OutcomeSchedule
	case "oddgrant":
		d.Outcome, d.Grant = batch.OutcomeAllow, &batch.Grant{Timeout: -1}
	}
	return d, nil
}

// catalog has the tools of kinds, as they are now.
type catalog struct{ w *world }

func (catalog) Fingerprint() string { return "catalog" }

func (c catalog) Lookup(id batch.ToolID) (batch.Tool, bool) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	t := c.w.tools[string(id)]
	if t == nil || t.gone {
		return nil, false
	}
	k := kinds[string(id)]
	return tool{batch.Descriptor{
		ID: id, Plugin: k.plugin, Digest: fmt.Sprint("v", t.version), Target: batch.Target(k.target),
		Recovery: batch.RecoveryPolicy(k.policy), MaxAttempts: k.max, Client: k.client,
	}}, true
}

type tool struct{ d batch.Descriptor }

func (t tool) Descriptor() batch.Descriptor { return t.d }

func (t tool) CheckArguments(args []byte) error {
	if strings.Contains(string(args), `"badargs":true`) {
		return errors.New("/badargs: not allowed")
	}
	return nil
}

func (t tool) CheckOutput(out *batch.Output) error {
	if out.Text() == "breaks the schema" {
		return errors.New("/: not this")
	}
	return nil
}

func (t tool) CheckState(key string, v json.RawMessage) error {
	switch key {
	case "n":
		var n *int
		if v != nil && (json.Unmarshal(v, &n) != nil || n == nil) {
			return fmt.Errorf("value %s is not an integer", v)
		}
		return nil
	case "list":
		return nil
	}
	return errors.New("the key is not declared")
}

func text(s string) []batch.ContentBlock { return []batch.ContentBlock{batch.TextBlock(s)} }
