package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// Completions of ids and names come from the ledger and the plugins. When they
// cannot be had, because another process holds the ledger or the host file is
// wrong, there are none and nothing is said: somebody is typing.

type completions = []cobra.Completion

func (a *app) quietOptions() standard.Options {
	o := a.options()
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

func (a *app) completeFromLedger(cmd *cobra.Command, args []string, list func(context.Context, *standard.Ledger) completions) (completions, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	l, closer, err := standard.OpenLedger(cmd.Context(), a.config, a.quietOptions())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = closer.Close() }()
	return list(cmd.Context(), l), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (a *app) completeRuns(cmd *cobra.Command, args []string, _ string) (completions, cobra.ShellCompDirective) {
	if cmd.Name() == "run" || cmd.Name() == "call" {
		args = nil // for --run, which stands beside arguments
	}
	return a.completeFromLedger(cmd, args, func(ctx context.Context, l *standard.Ledger) completions {
		runs, err := l.Runs(ctx)
		if err != nil {
			return nil
		}
		var found completions
		for _, r := range runs {
			found = append(found, cobra.CompletionWithDesc(string(r.Run), string(r.Status)))
		}
		return found
	})
}

func (a *app) completeTickets(cmd *cobra.Command, args []string, _ string) (completions, cobra.ShellCompDirective) {
	kind := standard.TicketPermission
	if cmd.Name() == "result" {
		kind = standard.TicketExternalResult
	}
	return a.completeFromLedger(cmd, args, func(ctx context.Context, l *standard.Ledger) completions {
		tickets, err := l.Tickets(ctx, false)
		if err != nil {
			return nil
		}
		var found completions
		for _, t := range tickets {
			if t.Kind == kind {
				found = append(found, cobra.CompletionWithDesc(string(t.ID), visibleLine(string(t.Tool)+" "+t.Prompt)))
			}
		}
		return found
	})
}

func (a *app) completeTools(cmd *cobra.Command, args []string, _ string) (completions, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	snapshot, _, err := standard.LoadTools(cmd.Context(), a.config, a.quietOptions())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found completions
	for _, t := range snapshot.Tools() {
		found = append(found, cobra.CompletionWithDesc(string(t.Name), visibleLine(t.Spec.Description)))
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
