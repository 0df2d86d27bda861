package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runsResolveCommand() *cobra.Command {
	var (
		result   resultFlags
		failed   bool
		by, note string
	)
	cmd := &cobra.Command{
		Use:   "resolve RUN CALL --result FILE|- | --failed",
		Short: "Record what you found out about an indeterminate call",
		Long: `Records what you found out about a call whose outcome is unknown: what it
returned, or that it failed or never happened. CALL is the call's id, or its operation
<run>/<step>/<index> where several steps of the run have that id.

It stands beside what was published, with your name and the time, and changes
neither that nor the state: awaken-host runs show and runs events show it. To tell
the model, send it a message.`,
		Example: `  awaken-host runs resolve chat-7 call_2 --failed --note "the provider has no such transfer"
  awaken-host runs resolve chat-7 chat-7/3/0 --result found.json --by alice
  echo '[{"type":"text","text":"sent at 10:02"}]' | awaken-host runs resolve chat-7 call_2 --result -`,
		Args:              arguments(2, 2, "a run id and a call id"),
		ValidArgsFunction: a.completeRuns,
	}
	result.add(cmd, "what the call returned: "+resultForms)
	cmd.Flags().BoolVar(&failed, "failed", false, "the call failed, or did not happen")
	cmd.Flags().StringVar(&by, "by", "", "who found out (default: the user of this process)")
	cmd.Flags().StringVar(&note, "note", "", "how, for the record")
	freeText(cmd, "by", "note")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if failed == (result.file != "") {
			return usagef("say either --result FILE or --failed")
		}
		if failed && result.text {
			return usagef("--text goes with --result")
		}
		found := standard.Amendment{Failed: failed, Note: note}
		var err error
		if found.By, err = nameOr(by); err != nil {
			return err
		}
		if !failed {
			var isError bool
			if found.Content, isError, err = result.read(ctx, a); err != nil {
				return err
			}
			if isError {
				return usagef("%s says is_error: a call that failed is recorded with --failed, and why with --note", result.file)
			}
		}
		return a.withHost(ctx, func(h *standard.Host) error { return a.resolve(ctx, h, standard.RunID(args[0]), args[1], found) })
	})
	return cmd
}

func (a *app) resolve(ctx context.Context, h *standard.Host, run standard.RunID, call string, found standard.Amendment) error {
	if err := h.Amend(ctx, run, call, found); err != nil {
		return err
	}
	view, err := h.Show(ctx, run)
	if err != nil {
		return err
	}
	ev := view.Amendments[len(view.Amendments)-1]
	if a.format == formatJSON {
		return a.writeValue(ev)
	}
	a.tell("recorded as event %d of run %s; what was published stays as it is", ev.Seq, run)
	return nil
}
