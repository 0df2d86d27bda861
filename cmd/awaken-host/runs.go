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
		Short: "See what ran, what is parked and what was interrupted, and end, amend and remove it",
	}))
	cmd.AddCommand(a.runsListCommand(), a.runsShowCommand(), a.runsEventsCommand(), a.runsCancelCommand(), a.runsResolveCommand(), a.runsFilesCommand(), a.runsPruneCommand())
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
	var after string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs, newest first",
		Long: `Lists the runs, newest first. A run is idle when all its steps are published,
parked when a call waits on a ticket, interrupted when a step is open and waits on
nothing: another process works on it, or one stopped; and cancelled when it was
ended for good. Nothing is executed.

With --limit or --after the list is a page in the order of ids: at most so many, after
the id that the page before ended with. Ids that the host made sort by time, oldest
first.`,
		Example: `  awaken-host runs list
  awaken-host runs list --limit 100 -o json
  awaken-host runs list --limit 100 --after 20261130t181844-gjdgfzbuhu5vy`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many, in the order of ids")
	cmd.Flags().StringVar(&after, "after", "", "only ids after this one, in their order")
	freeText(cmd, "limit", "after")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.withLedger(ctx, func(l *standard.Ledger) error {
			list := l.Runs
			if limit > 0 || after != "" {
				list = func(ctx context.Context) ([]standard.RunSummary, error) {
					return l.RunsPage(ctx, standard.RunID(after), limit)
				}
			}
			runs, err := list(ctx)
			if err != nil {
				return err
			}
			if a.format == formatJSON {
				return a.writeValue(runs)
			}
			t := &table{header: []string{"RUN", "STATUS", "STEPS", "PRINCIPAL", "AGENT", "BEGAN", "CHANGED"}, cut: true, times: []int{5, 6}}
			for _, r := range runs {
				t.add(string(r.Run), string(r.Status), strconv.Itoa(r.Steps), r.Principal, r.Agent, clock(r.CreatedAt), clock(r.UpdatedAt))
			}
			if err := a.writeTable(t, "there are no runs"); err != nil {
				return err
			}
			if n := len(runs); limit > 0 && n == limit {
				a.tell("there may be more: --after %s", runs[n-1].Run)
			}
			return nil
		})
	})
	return cmd
}

func (a *app) runsShowCommand() *cobra.Command {
	state := false
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: its calls, their decisions, outcomes and tickets, and its state",
		Long: `Shows a run: its calls with their outcomes, its tickets, what people found out
about indeterminate calls, and its published state. With -o json everything that is
committed, policy's decisions included. With --state the published state alone.
Nothing is executed.`,
		Example: `  awaken-host runs show chat-7
  awaken-host runs show chat-7 -o json
  awaken-host runs show chat-7 --state`,
		Args:              arguments(1, 1, "one run id"),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().BoolVar(&state, "state", false, "the published state alone")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.withLedger(ctx, func(l *standard.Ledger) error {
			run, err := l.Show(ctx, standard.RunID(args[0]))
			switch {
			case err != nil:
				return err
			case state && a.format == formatJSON:
				return a.writeValue(run.State)
			case state:
				return a.writeTable(stateTable(run), "run "+args[0]+" has no published state")
			case a.format == formatJSON:
				return a.writeValue(run)
			}
			return a.writeRun(run, a.languages(ctx))
		})
	})
	return cmd
}

func stateTable(run *standard.RunView) *table {
	t := &table{cut: true}
	for _, k := range slices.Sorted(maps.Keys(run.State)) {
		t.add(k, string(run.State[k]))
	}
	return t
}

func amendmentTable(run *standard.RunView) *table {
	t := &table{cut: true}
	for i := range run.Amendments {
		e := &run.Amendments[i]
		t.add(clock(e.Time), string(e.CallID), string(e.Tool), note(e))
	}
	return t
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
	pair("delegated by", string(run.Parent))
	if c := run.Cancelled; c != nil {
		pair("cancelled", strings.TrimSuffix(clock(c.At)+" by "+c.By+": "+c.Reason, ": "))
	}
	b.WriteString(head.render(a.width))

	for i := range run.Batches {
		v := &run.Batches[i]
		_, _ = fmt.Fprintf(&b, "\nstep %s, %s, requested %s\n", visibleLine(stepOf(string(v.Batch))), v.Phase, clock(v.RequestedAt))
		b.WriteString(callTable(v, languages, false).render(a.width))
		for j := range v.Calls {
			if c := &v.Calls[j]; c.Executed != nil && c.Executed.Fallback != "" {
				_, _ = fmt.Fprintf(&b, "%s ran in tier %s, a fallback: %s\n", visibleLine(string(c.CallID)), c.Executed.Tier, visibleLine(c.Executed.Fallback))
			}
		}
	}
	if len(run.Amendments) > 0 {
		b.WriteString("\nfound out about indeterminate calls\n")
		b.WriteString(amendmentTable(run).render(a.width))
	}
	if len(run.State) > 0 {
		b.WriteString("\nstate\n")
		b.WriteString(stateTable(run).render(a.width))
	}
	return a.write([]byte(b.String()))
}

func stepOf(batch string) string { return batch[strings.LastIndexByte(batch, '/')+1:] }

func runOf(operation string) string {
	run, _, _ := strings.Cut(operation, "/")
	return run
}

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
