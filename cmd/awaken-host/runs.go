package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := a.onHost(group(&cobra.Command{
		Use:   "runs",
		Short: "See what ran, what is parked and what was interrupted",
	}))
	cmd.AddCommand(a.runsListCommand(), a.runsShowCommand())
	return cmd
}

// withLedger opens the store and nothing else: no plugins, no policy, and nothing
// is executed.
func (a *app) withLedger(ctx context.Context, use func(*standard.Ledger) error) error {
	l, closer, err := standard.OpenLedger(ctx, a.config, a.options())
	if err != nil {
		return err
	}
	defer func() {
		if err := closer.Close(); err != nil {
			a.say("closing: %v", err)
		}
	}()
	return use(l)
}

func (a *app) runsListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the runs, newest first",
		Long: `Lists the runs, newest first. A run is idle when all its steps are published,
parked when a call waits on a ticket, interrupted when a step is open and waits on
nothing: another process works on it, or one stopped. Nothing is executed.`,
		Example: `  awaken-host runs list
  awaken-host runs list -o json`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return a.withLedger(ctx, func(l *standard.Ledger) error {
				runs, err := l.Runs(ctx)
				if err != nil {
					return err
				}
				if a.format == formatJSON {
					return a.writeValue(runs)
				}
				t := &table{header: []string{"RUN", "STATUS", "STEPS", "PRINCIPAL", "AGENT", "BEGAN", "CHANGED"}}
				for _, r := range runs {
					t.add(string(r.Run), string(r.Status), strconv.Itoa(r.Steps), r.Principal, r.Agent, clock(r.CreatedAt), clock(r.UpdatedAt))
				}
				return a.writeTable(t, "there are no runs")
			})
		}),
	}
}

func (a *app) runsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: its calls, their decisions, outcomes and tickets, and its state",
		Long: `Shows a run: its calls with their outcomes, its tickets and its published state.
With -o json everything that is committed, policy's decisions included. Nothing is
executed.`,
		Example: `  awaken-host runs show chat-7
  awaken-host runs show chat-7 -o json`,
		Args:              arguments(1, 1, "one run id"),
		ValidArgsFunction: a.completeRuns,
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withLedger(ctx, func(l *standard.Ledger) error {
				run, err := l.Show(ctx, standard.RunID(args[0]))
				if err != nil {
					return err
				}
				if a.format == formatJSON {
					return a.writeValue(run)
				}
				return a.writeRun(run, a.languages(ctx))
			})
		}),
	}
}

func (a *app) writeRun(run *standard.RunView, languages map[string]string) error {
	var b strings.Builder
	head := &table{}
	pair := func(name, value string) {
		if value != "" {
			head.add(name, value)
		}
	}
	pair("run", string(run.Run))
	pair("status", string(run.Status))
	pair("principal", run.Principal)
	pair("agent", run.Agent)
	labels := make([]string, 0, len(run.Labels))
	for _, k := range slices.Sorted(maps.Keys(run.Labels)) {
		labels = append(labels, k+"="+run.Labels[k])
	}
	pair("labels", strings.Join(labels, ", "))
	pair("began", clock(run.CreatedAt))
	b.WriteString(head.render(a.width))

	for i := range run.Batches {
		v := &run.Batches[i]
		_, _ = fmt.Fprintf(&b, "\nstep %s, %s, requested %s\n", visibleLine(stepOf(string(v.Batch))), v.Phase, clock(v.RequestedAt))
		b.WriteString(callTable(v, languages, false).render(a.width))
	}
	if len(run.State) > 0 {
		b.WriteString("\nstate\n")
		t := &table{cut: true}
		for _, k := range slices.Sorted(maps.Keys(run.State)) {
			t.add(k, string(run.State[k]))
		}
		b.WriteString(t.render(a.width))
	}
	return a.write([]byte(b.String()))
}

func stepOf(batch string) string { return batch[strings.LastIndexByte(batch, '/')+1:] }

// languages are those of the tools in force, by name. A run outlives its tools,
// so that one that is gone, or cannot be loaded now, has none.
func (a *app) languages(ctx context.Context) map[string]string {
	names := map[string]string{}
	o := a.options()
	o.Logger = slog.New(slog.DiscardHandler)
	tools, _, err := standard.LoadTools(ctx, a.config, o)
	if err != nil {
		return names
	}
	for _, t := range tools.Tools() {
		names[string(t.Name)] = annotation(t, "language")
	}
	return names
}

// annotation is what a tool's manifest says about it under name, if that is text.
func annotation(t *standard.Tool, name string) string {
	switch v := t.Spec.Annotations[name].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		text, _ := json.Marshal(v)
		return string(text)
	}
}
