package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// progress tells on standard error of each call that ends while a batch runs.
type progress struct {
	app *app
	msg *standard.Message
	on  bool

	mu      sync.Mutex
	wanted  standard.RunID // the run that is followed; empty: the next one requested
	follows bool
	id      standard.RunID // of the followed batch; empty: not committed yet
	step    int
	began   map[string]time.Time // by operation
}

func (a *app) newProgress(msg *standard.Message) *progress {
	return &progress{app: a, msg: msg, on: a.errOnTerminal && !a.quiet || a.verbose, began: map[string]time.Time{}}
}

// follow begins to look for the batch of the message.
func (p *progress) follow(run standard.RunID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follows, p.wanted = true, run
}

// run is the run of the message: the one asked for, or the fresh one as soon as it
// is committed; empty before.
func (p *progress) run() standard.RunID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted != "" {
		return p.wanted
	}
	return p.id
}

// observe hears of every commit.
func (p *progress) observe(run standard.RunID, events []standard.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		op := fmt.Sprintf("%s/%d/%d", run, e.Step, e.Index)
		switch e.Kind {
		case standard.EventBatchRequested:
			if p.follows && p.id == "" && (p.wanted == "" || p.wanted == run) {
				p.id, p.step = run, e.Step
			}
		case standard.EventCallExecuting:
			p.began[op] = e.Time
		case standard.EventCallCompleted:
			p.tell(run, e.Step, e.Index, op, e.Note, e.Time)
		case standard.EventCallIndeterminate:
			p.tell(run, e.Step, e.Index, op, "indeterminate", e.Time)
		case standard.EventCallAwaiting:
			p.tell(run, e.Step, e.Index, op, "waits for "+e.Note, e.Time)
		}
	}
}

func (p *progress) tell(run standard.RunID, step, index int, op, what string, at time.Time) {
	if !p.on {
		return
	}
	duration := ""
	if began, ok := p.began[op]; ok {
		duration = "  " + took(at.Sub(began))
		delete(p.began, op)
	}
	name := op
	if run == p.id && step == p.step && index >= 0 && index < len(p.msg.Calls) {
		c := p.msg.Calls[index]
		name = fmt.Sprintf("%d/%d %s %s", index+1, len(p.msg.Calls), c.ID, c.Tool)
	}
	_, _ = fmt.Fprintf(p.app.stderr, "  %s  %s%s\n", visibleLine(name), visibleLine(what), duration)
}
