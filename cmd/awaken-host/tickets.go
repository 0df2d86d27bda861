package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) ticketsCommand() *cobra.Command {
	cmd := a.onHost(group(&cobra.Command{
		Use:     "tickets",
		Aliases: []string{"ticket"},
		Short:   "See and answer what waits for a person, a client or a time",
	}))
	cmd.AddCommand(a.ticketsListCommand(), a.decideCommand(true), a.decideCommand(false), a.ticketsResultCommand())
	return cmd
}

func (a *app) ticketsListCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the open tickets, oldest first",
		Long: `Lists the open tickets, oldest first, with the arguments each is about. What does
not fit on a line ends in …; with -o json it is whole. Nothing is executed.`,
		Example: `  awaken-host tickets list
  awaken-host tickets list --all -o json`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&all, "all", false, "closed tickets too")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.withLedger(ctx, func(l *standard.Ledger) error { return a.listTickets(ctx, l, all) })
	})
	return cmd
}

func (a *app) listTickets(ctx context.Context, l *standard.Ledger, all bool) error {
	type listed struct {
		*standard.Ticket
		Arguments string `json:"arguments"`
	}
	tickets, err := l.Tickets(ctx, all)
	if err != nil {
		return err
	}
	list := make([]listed, 0, len(tickets))
	runs := map[standard.RunID]*standard.RunView{}
	for _, t := range tickets {
		if runs[t.Run] == nil {
			if runs[t.Run], err = l.Show(ctx, t.Run); err != nil {
				return err
			}
		}
		list = append(list, listed{t, argumentsOf(runs[t.Run], t)})
	}
	if a.format == formatJSON {
		return a.writeValue(list)
	}
	t := &table{header: []string{"TICKET", "WAITS FOR", "STATUS", "TOOL", "RUN", "UNTIL", "QUESTION"}, cut: true, exact: true, times: []int{5}}
	for _, k := range list {
		until := k.Deadline
		if until.IsZero() {
			until = k.DueAt
		}
		question := k.Arguments
		if k.Prompt != "" {
			question = k.Prompt + "  " + question
		}
		t.add(string(k.ID), string(k.Kind), string(k.Status), string(k.Tool), string(k.Run), clock(until), question)
	}
	return a.writeTable(t, "no ticket is open")
}

func argumentsOf(run *standard.RunView, t *standard.Ticket) string {
	if t.Step < 1 || t.Step > len(run.Batches) || t.Index >= len(run.Batches[t.Step-1].Calls) {
		return ""
	}
	return run.Batches[t.Step-1].Calls[t.Index].Arguments
}

func (a *app) decideCommand(approve bool) *cobra.Command {
	var answer standard.TicketAnswer
	verb, does := "deny", "Deny a ticket: its call gets an error result"
	if approve {
		verb, does = "approve", "Approve a ticket: policy is asked again, and its call runs if it still may"
	}
	cmd := &cobra.Command{
		Use:   verb + " TICKET",
		Short: does,
		Long: does + `. The batch goes on, and its result is printed as
awaken-host run would, with the same exit status.

A ticket is decided once. A second decision, one after the deadline, one by who
submitted the call, and one about other arguments are refused.`,
		Example: fmt.Sprintf(`  awaken-host tickets %s tk-gjdgfzbuhu5vy
  awaken-host tickets %s tk-gjdgfzbuhu5vy --by alice --reason "looked at it"`, verb, verb),
		Args:              arguments(1, 1, "one ticket id"),
		ValidArgsFunction: a.completeTickets,
	}
	flags := cmd.Flags()
	flags.StringVar(&answer.By, "by", "", "who decides (default: the user of this process)")
	flags.StringVar(&answer.Reason, "reason", "", "why, for the record and for the model")
	flags.StringVar(&answer.ArgumentDigest, "arguments-sha256", "", "decide only if this is the digest of the call's arguments, in hex")
	freeText(cmd, "by", "reason", "arguments-sha256")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		given := answer
		given.Approve = approve
		given.ArgumentDigest = strings.ToLower(given.ArgumentDigest)
		if sum, err := hex.DecodeString(given.ArgumentDigest); err != nil || len(sum) != 0 && len(sum) != sha256.Size {
			return usagef("--arguments-sha256 %s: 64 hex digits are needed", given.ArgumentDigest)
		}
		var err error
		if given.By, err = nameOr(given.By); err != nil {
			return err
		}
		id := standard.TicketID(args[0])
		return a.onTicket(ctx, id, func(h *standard.Host) (*standard.Result, error) { return h.Decide(ctx, id, given) })
	})
	return cmd
}

// currentUser is the name of the user of this process, its number where it has no
// name.
func currentUser() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", usagef("the user of this process is not known (%v): say who decides with --by", err)
	}
	if u.Username != "" {
		return u.Username, nil
	}
	return "uid-" + u.Uid, nil
}
