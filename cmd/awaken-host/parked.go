package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// explainTickets says what a parked batch waits for and how to decide it.
func (a *app) explainTickets(ctx context.Context, h *standard.Host, res *standard.Result, again string) {
	runs := map[standard.RunID]*standard.RunView{}
	for _, v := range res.Tickets {
		run := runs[v.Run]
		if run == nil {
			var err error
			if run, err = h.Show(ctx, v.Run); err != nil {
				a.say("%v", err)
				continue
			}
			runs[v.Run] = run
		}
		t, err := h.Ticket(ctx, v.Ticket)
		if err != nil {
			a.say("%v", err)
			continue
		}
		lines := []string{exact(fmt.Sprintf("run %s is parked: call %s to %s waits for %s", t.Run, t.CallID, t.Tool, waitsFor(t)))}
		// What models, guests and policies wrote stays on its line: it could pass
		// for one of ours.
		add := func(name, value string) {
			if value == "" {
				return
			}
			shown, left := headAndTail(value)
			lines = append(lines, fmt.Sprintf("  %-9s  %s", name, exact(shown)))
			if left > 0 {
				lines = append(lines, fmt.Sprintf("  %-9s  %d of %d bytes; see all with: %s", "left out", left, len(value),
					exact(a.command("runs show", string(t.Run), "-o", "json"))))
			}
		}
		add("for", string(run.Parent))
		add("ticket", string(t.ID))
		add("question", t.Prompt)
		add("arguments", argumentsOf(run, t))
		add("sha256", t.ArgumentDigest)
		add("from", strings.Join(t.Approvers, ", "))
		switch {
		case t.Kind == standard.TicketPermission:
			add("approve", a.command("tickets approve", string(t.ID)))
			add("deny", a.command("tickets deny", string(t.ID)))
		case t.Kind == standard.TicketExternalResult:
			add("fits", outputSchema(h, t))
			add("supply", a.command("tickets result", string(t.ID))+" --result FILE")
		case again == "":
			add("then", "the next awaken-host run continues it")
		default:
			add("then", a.command("run", "--run", string(t.Run), "--step", strconv.Itoa(t.Step), again))
		}
		a.say("%s", strings.Join(lines, "\n"))
	}
}

// outputSchema is what a result of the ticket's call has to fit, if the tool says so.
func outputSchema(h *standard.Host, t *standard.Ticket) string {
	tool, ok := h.Tool(t.Tool)
	if !ok {
		return ""
	}
	return visibleLine(string(tool.Spec.OutputSchema))
}

func waitsFor(t *standard.Ticket) string {
	switch {
	case t.Kind == standard.TicketSchedule:
		return "its time, " + t.DueAt.Local().Format(time.RFC3339)
	case t.Kind == standard.TicketExternalResult:
		return "a result from outside until " + t.Deadline.Local().Format(time.RFC3339)
	case t.Quorum > 1:
		return fmt.Sprintf("permission (%d of %d) until %s", len(t.Decisions), t.Quorum, t.Deadline.Local().Format(time.RFC3339))
	case !t.Deadline.IsZero():
		return fmt.Sprintf("%s until %s", t.Kind, t.Deadline.Local().Format(time.RFC3339))
	}
	return string(t.Kind)
}
