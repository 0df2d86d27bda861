package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/standard"
)

// lifeVariable is the environment variable that makes this program a life.
const lifeVariable = "AWAKEN_CRASH_LIFE"

// orders are what a life is told.
type orders struct {
	Config string `json:"config"` // host.toml
	World  string `json:"world"`  // folder of the world
	Data   string `json:"data"`   // data_dir
	Life   int    `json:"life"`   // from 1
	Aim    aim    `json:"aim"`
}

// Names of files in the folder of a world.
const (
	dataName    = "data"
	journalName = "journal"
	effectsName = "effects"
)

// Exit statuses of a life that was not killed.
const (
	exitDone = 0
	exitFail = 3 // it saw something that must not be
)

func fail(format string, a ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", a...)
	os.Exit(exitFail)
}

// live opens the host, continues what an earlier life left, and plays the scene to
// its end.
func live(o orders) {
	r := &recorder{life: o.Life, aim: o.Aim}
	var err error
	if r.journal, err = openAppend(filepath.Join(o.World, journalName)); err != nil {
		fail("%v", err)
	}
	if r.effects, err = openAppend(filepath.Join(o.World, effectsName)); err != nil {
		fail("%v", err)
	}
	ctx := context.Background()
	r.note(entry{Stage: stageOpening})
	h, err := standard.Open(ctx, o.Config, standard.Options{
		DataDir: o.Data, Observe: r.observe,
		Logger: slog.New(guestLog{slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}), r.effect}),
	})
	if err != nil {
		fail("open: %v", err)
	}
	r.note(entry{Stage: stageRecovering})
	if err := h.Start(ctx); err != nil {
		fail("start: %v", err)
	}
	r.note(entry{Stage: stageRunning})
	p := &people{h: h, r: r}
	p.tryAgain(ctx)
	var wg sync.WaitGroup
	for _, x := range scene() {
		wg.Go(func() { p.play(ctx, x) })
	}
	wg.Wait()
	r.note(entry{Stage: stageClosing})
	if err := h.Close(); err != nil {
		fail("close: %v", err)
	}
	os.Exit(exitDone)
}

// people are everybody around the host: who submits, who approves, who executes
// client tools and who cancels.
type people struct {
	h *host.Host
	r *recorder
}

const (
	submitter = "model"
	approver  = "operator"
)

// tryAgain decides anew what was decided in an earlier life, and must be refused.
func (p *people) tryAgain(ctx context.Context) {
	ts, err := p.h.Tickets(ctx, true)
	if err != nil {
		fail("tickets: %v", err)
	}
	for _, t := range ts {
		if t.Status != batch.TicketOpen {
			p.mustBeClosed(ctx, t.ID, t.Kind)
		}
	}
}

func (p *people) mustBeClosed(ctx context.Context, id batch.TicketID, kind batch.TicketKind) {
	var err error
	switch kind {
	case batch.TicketPermission:
		_, err = p.h.Decide(ctx, id, batch.TicketAnswer{By: "late", Approve: true})
	case batch.TicketExternalResult:
		_, err = p.h.Supply(ctx, id, batch.ExternalResult{By: "late", Content: []batch.ContentBlock{batch.TextBlock("late")}})
	default:
		return
	}
	if !errors.Is(err, batch.ErrTicketClosed) {
		fail("ticket %s was decided, and a second decision came to: %v", id, err)
	}
}

// play brings a run to its end, wherever an earlier life left it.
func (p *people) play(ctx context.Context, x run) {
	if x.cancel {
		done := make(chan struct{})
		go func() {
			p.cancel(ctx, x.id)
			close(done)
		}()
		p.submit(ctx, x, 1)
		<-done
		return
	}
	for step := range x.steps {
		p.submit(ctx, x, step+1)
	}
}

func (p *people) submit(ctx context.Context, x run, step int) {
	m, err := host.ParseMessage([]byte(message(x.steps[step-1])))
	if err != nil {
		fail("run %s: %v", x.id, err)
	}
	for {
		res, err := p.h.Run(ctx, host.Request{Run: x.id, Step: step, Principal: submitter, Message: m})
		if x.cancel && errors.Is(err, batch.ErrCancelled) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if err != nil {
			fail("run %s: %v", x.id, err)
		}
		if res.Phase == batch.BatchFinalized {
			answer, err := res.Answer()
			if err != nil {
				fail("run %s: %v", x.id, err)
			}
			p.r.note(entry{Published: &published{x.id, step, string(answer)}})
			return
		}
		if !x.cancel {
			p.decide(ctx, res.Tickets)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// decide answers what a run waits for, and answers once more.
func (p *people) decide(ctx context.Context, ts []host.TicketView) {
	for _, t := range ts {
		status := batch.TicketResolved
		var err error
		switch t.Kind {
		case batch.TicketPermission:
			if status = batch.TicketApproved; !approves(t.CallID) {
				status = batch.TicketDenied
			}
			_, err = p.h.Decide(ctx, t.Ticket, batch.TicketAnswer{By: approver, Approve: approves(t.CallID)})
		case batch.TicketExternalResult:
			_, err = p.h.Supply(ctx, t.Ticket, batch.ExternalResult{By: "client", Content: []batch.ContentBlock{batch.TextBlock(suppliedText(t.Ticket))}})
		default:
			continue
		}
		if err != nil {
			fail("ticket %s: %v", t.Ticket, err)
		}
		p.r.note(entry{Decided: &decided{Ticket: t.Ticket, Status: status}})
		p.mustBeClosed(ctx, t.Ticket, t.Kind)
	}
}

// suppliedText is what the client answers: another text for each ticket.
func suppliedText(id batch.TicketID) string { return "supplied for " + string(id) }

// cancel ends a run once it is there and has had time to begin its first call.
func (p *people) cancel(ctx context.Context, id batch.RunID) {
	for {
		time.Sleep(15 * time.Millisecond)
		_, err := p.h.Cancel(ctx, id, "owner", "the scene asks for it")
		if err == nil || errors.Is(err, batch.ErrCancelled) {
			return
		}
		if !errors.Is(err, batch.ErrNotFound) {
			fail("cancel of %s: %v", id, err)
		}
	}
}
