package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runsPruneCommand() *cobra.Command {
	var older string
	var dry bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove finished runs that have not changed for a while",
		Long: `Removes finished runs that have not changed for a while, with their calls,
decisions, tickets, events and state, and lists them. A run with an open step stays.
With store.retention in the host file, runs of that age go by themselves while
awaken-host run works, and it is the default here.

A message that is sent again for a run that was removed is not known any more: it
begins a new run, and its calls run again.`,
		Example: `  awaken-host runs prune --older-than 30d --dry-run
  awaken-host runs prune`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&older, "older-than", "", "time since the last change, such as 30d or 12h (default: the host file's store.retention)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list what would be removed, and remove nothing")
	freeText(cmd, "older-than")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		age, err := a.pruneAge(older)
		if err != nil {
			return err
		}
		return a.withHost(ctx, func(h *standard.Host) error { return a.prune(ctx, h, age, dry) })
	})
	return cmd
}

func (a *app) pruneAge(older string) (time.Duration, error) {
	if older != "" {
		age, err := standard.ParseDuration(older)
		if err != nil || age < 0 {
			return 0, usagef(`--older-than %q: a number with its unit is needed, such as 30d or 12h`, older)
		}
		return age, nil
	}
	c, err := standard.LoadConfig(a.config, a.options())
	if err != nil {
		return 0, err
	}
	if c.Store.Retention == 0 {
		return 0, usagef("%s has no store.retention: say how old with --older-than, such as --older-than 30d", a.config)
	}
	return c.Store.Retention, nil
}

func (a *app) prune(ctx context.Context, h *standard.Host, age time.Duration, dry bool) error {
	report, err := h.Prune(ctx, age, dry)
	if report == nil {
		return err
	}
	return errors.Join(err, a.writePruned(report, age))
}

func (a *app) writePruned(report *standard.PruneReport, age time.Duration) error {
	if a.format == formatJSON {
		return a.writeValue(report)
	}
	t := &table{}
	for _, r := range report.Runs {
		t.add(string(r))
	}
	if err := a.writeTable(t, "no finished run is older than "+standard.FormatDuration(age)); err != nil {
		return err
	}
	switch n := len(report.Runs); {
	case n == 0:
	case report.DryRun:
		a.tell("%s would be removed", counted(n, "run"))
	default:
		a.tell("removed %s", counted(n, "run"))
	}
	return nil
}
