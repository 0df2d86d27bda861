package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

var outcomeNames = []string{"allow", "block", "require_confirmation", "schedule", "set_result"}

func (a *app) policyLogCommand() *cobra.Command {
	var from string
	var f standard.DecisionFilter
	cmd := &cobra.Command{
		Use:   "log [RUN]",
		Short: "List the decisions of the ledger: who asked for what, when, and why it was allowed or not",
		Long: `Lists the decisions of the ledger in the order they were made: of one run, or of all of
them. Each has the id that it has in the decision log, if the host writes one. With -o json
each decision is one line, with everything that is recorded of it but the arguments, which
"runs show" has. Nothing is executed.`,
		Example: `  awaken-host policy log
  awaken-host policy log --since 2h --outcome block
  awaken-host policy log --reason timeout --limit 0 -o json
  awaken-host policy log chat-7`,
		Args:              arguments(0, 1, "at most one run id"),
		ValidArgsFunction: a.completeRuns,
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "since", "", "only decisions made since, a time as in 2026-01-31T08:00:00Z or an age such as 7d")
	flags.StringVar((*string)(&f.Tool), "tool", "", "only calls of this tool")
	flags.StringVar((*string)(&f.Outcome), "outcome", "", "only this outcome: "+strings.Join(outcomeNames, ", "))
	flags.StringVar(&f.Code, "reason", "", "only decisions with this reason code")
	flags.IntVar(&f.Limit, "limit", 100, "the newest so many; 0: all")
	_ = flags.SetAnnotation("limit", zeroIsAll, []string{}) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("tool", a.completeTools)
	_ = cmd.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(outcomeNames, cobra.ShellCompDirectiveNoFileComp))
	freeText(cmd, "since", "reason", "limit")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			f.Run = standard.RunID(args[0])
		}
		return a.listDecisions(ctx, f, from)
	})
	return cmd
}

func (a *app) listDecisions(ctx context.Context, f standard.DecisionFilter, from string) error {
	var err error
	if f.Since, err = since(from, time.Now()); err != nil {
		return err
	}
	if f.Outcome != "" && !slices.Contains(outcomeNames, string(f.Outcome)) {
		return usagef("--outcome %s: write one of %s", f.Outcome, strings.Join(outcomeNames, ", "))
	}
	if f.Limit < 0 {
		return usagef("--limit %d: write 0 for all, or a number", f.Limit)
	}
	return a.withLedger(ctx, func(l *standard.Ledger) error {
		records, more, err := l.Decisions(ctx, f)
		if err != nil {
			return err
		}
		if a.format == formatJSON {
			err = writeLines(a, records)
		} else {
			err = a.writeTable(decisionTable(records), "there are no such decisions")
		}
		if err == nil && more {
			a.tell("there are older ones: --limit 0 lists all")
		}
		return err
	})
}

func decisionTable(records []*standard.DecisionRecord) *table {
	t := &table{header: []string{"DECISION", "TIME", "TOOL", "PRINCIPAL", "OUTCOME", "REASONS"}, cut: true, times: []int{1}}
	for _, r := range records {
		var reasons []string
		for _, why := range r.Reasons {
			text := why.Code
			for _, more := range []string{why.Message, why.Detail} {
				if more != "" {
					text += ": " + more
				}
			}
			reasons = append(reasons, text)
		}
		t.add(r.ID(), clock(r.Time), string(r.Tool), r.Principal, string(r.Outcome), strings.Join(reasons, "; "))
	}
	return t
}
