package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// writeResult writes what a batch has come to in the dialect of its message, or
// as a table with -o table.
func (a *app) writeResult(ctx context.Context, h *standard.Host, res *standard.Result) error {
	if a.format == formatTable {
		return a.writeResultTable(ctx, h, res)
	}
	answer, err := res.Answer()
	if err != nil || answer == nil {
		return err
	}
	return a.writeJSON(answer)
}

func (a *app) writeResultTable(ctx context.Context, h *standard.Host, res *standard.Result) error {
	run, err := h.Show(ctx, res.Run)
	if err != nil {
		return err
	}
	languages := map[string]string{}
	for _, t := range h.Tools() {
		languages[string(t.Name)] = annotation(t, "language")
	}
	for i := range run.Batches {
		if b := &run.Batches[i]; b.Batch == res.Batch {
			return a.write([]byte(callTable(b, languages, true).render(a.width)))
		}
	}
	return fmt.Errorf("batch %s is not in the ledger", res.Batch)
}

// callTable is a table of a batch's calls. With barrier, what an open batch holds
// is not shown: nothing partial is a result.
func callTable(b *standard.BatchView, languages map[string]string, barrier bool) *table {
	t := &table{header: []string{"CALL", "TOOL", "LANGUAGE", "OUTCOME", "TIME", "TEXT"}, cut: true}
	tiers := slices.ContainsFunc(b.Calls, func(c standard.CallView) bool { return tierOf(&c) != "" })
	if tiers {
		t.header = slices.Insert(t.header, 3, "TIER")
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		text := c.Text()
		if c.Phase == standard.PhaseAwaiting && c.Ticket != nil {
			text = waitsFor(c.Ticket)
		}
		if c.Child != "" {
			text = "run " + string(c.Child)
		}
		if barrier && b.Phase != standard.BatchFinalized && c.Phase.Terminal() {
			text = "(held back)"
		}
		cells := []string{string(c.CallID), string(c.Tool), languages[string(c.Tool)], outcome(c), took(c.Took()), text}
		if tiers {
			cells = slices.Insert(cells, 3, tierOf(c))
		}
		t.add(cells...)
	}
	return t
}

// tierOf is the sandbox tier that ran a call, empty where none did.
func tierOf(c *standard.CallView) string {
	if c.Executed == nil {
		return ""
	}
	if c.Executed.Fallback != "" {
		return c.Executed.Tier + " (fallback)"
	}
	return c.Executed.Tier
}

// tellUnbounded says which calls of a published batch ran without a boundary, in
// whatever form the result is printed.
func (a *app) tellUnbounded(res *standard.Result) {
	var calls []string
	for i := range res.Results {
		if r := &res.Results[i]; r.Executed != nil && r.Executed.Tier == standard.TierLocal {
			call := string(r.CallID) + " (" + string(r.Tool) + ")"
			if why := r.Executed.Fallback; why != "" {
				call += ", a fallback: " + why
			}
			calls = append(calls, call)
		}
	}
	if len(calls) > 0 {
		a.tell("ran without a boundary, in tier local: %s", strings.Join(calls, "; "))
	}
}

// outcome says in a word where a call stands and who answered it.
func outcome(c *standard.CallView) string {
	switch {
	case c.Phase == standard.PhaseAwaiting && c.Ticket != nil:
		return "waits " + string(c.Ticket.ID)
	case c.Child != "":
		return "waits for child"
	case c.Phase != standard.PhaseCompleted:
		return string(c.Phase)
	case c.Answer == standard.AnswerTool && c.IsError:
		return "tool error"
	case c.Answer == standard.AnswerTool:
		return "ok"
	}
	return string(c.Answer)
}

func took(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
	return d.Round(10 * time.Millisecond).String()
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
