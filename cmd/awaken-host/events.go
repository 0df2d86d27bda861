package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runsEventsCommand() *cobra.Command {
	var after uint64
	var limit int
	cmd := &cobra.Command{
		Use:   "events RUN",
		Short: "List what happened to a run, in the order it was committed",
		Long: `Lists what happened to a run, in the order it was committed. Events are numbered
from 1 without gaps: --after the last number seen continues there. With -o json
each event is one line. Nothing is executed.`,
		Example: `  awaken-host runs events chat-7
  awaken-host runs events chat-7 --after 12 --limit 100 -o json`,
		Args:              arguments(1, 1, "one run id"),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "only events with a higher number")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many (default: all)")
	freeText(cmd, "after", "limit")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.withLedger(ctx, func(l *standard.Ledger) error {
			events, err := l.Events(ctx, standard.RunID(args[0]), after, limit)
			if err != nil {
				return err
			}
			if a.format == formatJSON {
				return writeLines(a, events)
			}
			t := &table{header: []string{"SEQ", "TIME", "STEP", "CALL", "TOOL", "EVENT", "NOTE"}, cut: true, times: []int{1}}
			for i := range events {
				e := &events[i]
				t.add(strconv.FormatUint(e.Seq, 10), clock(e.Time), number(e.Step), string(e.CallID), string(e.Tool), string(e.Kind), note(e))
			}
			if err := a.writeTable(t, "there are no events after "+strconv.FormatUint(after, 10)); err != nil {
				return err
			}
			if n := len(events); limit > 0 && n == limit {
				a.tell("there may be more: --after %d", events[n-1].Seq)
			}
			return nil
		})
	})
	return cmd
}

// note is what a person should know of an event besides its kind.
func note(e *standard.EventView) string {
	text := e.Note
	add := func(s string) {
		if s != "" && text != "" {
			text += ", "
		}
		text += s
	}
	if e.Kind == standard.EventCallExecuting {
		add("attempt " + strconv.Itoa(e.Attempt))
	}
	if e.Ticket != "" {
		add(string(e.Ticket))
	}
	switch {
	case e.Kind == standard.EventCallAmended && e.Output == nil:
		add("failed")
	case e.Kind == standard.EventCallAmended:
		add(e.Output.Text())
	}
	if e.By != "" && e.Kind != standard.EventTicketDecided { // its note names who
		add("by " + e.By)
	}
	return text
}

// number is a number that counts from 1, empty for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// writeLines writes each value as one line of JSON, also on a terminal.
func writeLines[T any](a *app, items []T) error {
	var out bytes.Buffer
	for i := range items {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(items[i]); err != nil {
			return err
		}
		out.Write(visibleJSON(b.Bytes()))
	}
	return a.write(out.Bytes())
}
