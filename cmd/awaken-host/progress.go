package main

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// progress tells on standard error of each call that ends while a batch runs, and
// with -v of each that begins.
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

// at is the step of the message; 0 until it is committed.
func (p *progress) at() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step
}

// observe hears of every commit.
func (p *progress) observe(run standard.RunID, events []standard.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		switch e.Kind {
		case standard.EventBatchRequested:
			if p.follows && p.id == "" && (p.wanted == "" || p.wanted == run) {
				p.id, p.step = run, e.Step
			}
		case standard.EventCallExecuting:
			p.began[operation(run, e)] = e.Time
			if p.app.verbose {
				p.line(run, e, "runs, attempt "+strconv.Itoa(e.Attempt))
			}
		case standard.EventCallCompleted:
			p.tell(run, e, e.Note)
		case standard.EventCallIndeterminate:
			p.tell(run, e, "indeterminate")
		case standard.EventCallAwaiting:
			p.tell(run, e, "waits for "+e.Note)
		}
	}
}

func operation(run standard.RunID, e standard.Event) string {
	return fmt.Sprintf("%s/%d/%d", run, e.Step, e.Index)
}

// tell writes a line for a call that has come to something.
func (p *progress) tell(run standard.RunID, e standard.Event, what string) {
	if !p.on {
		return
	}
	op := operation(run, e)
	if began, ok := p.began[op]; ok {
		what += "  " + took(e.Time.Sub(began))
		delete(p.began, op)
	}
	p.line(run, e, what)
}

func (p *progress) line(run standard.RunID, e standard.Event, what string) {
	name := operation(run, e)
	if run == p.id && e.Step == p.step && e.Index >= 0 && e.Index < len(p.msg.Calls) {
		c := p.msg.Calls[e.Index]
		name = fmt.Sprintf("%d/%d %s %s", e.Index+1, len(p.msg.Calls), c.ID, c.Tool)
	}
	_, _ = fmt.Fprintf(p.app.stderr, "  %s  %s\n", visibleLine(name), exact(what))
}
