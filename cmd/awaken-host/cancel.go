package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runsCancelCommand() *cobra.Command {
	var by, reason string
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run for good: its open calls are answered as cancelled",
		Long: `Ends a run for good. A call that had not run is answered as cancelled, one that was
running is indeterminate, tickets are closed, and the open batch is published as
it then stands: its result is printed as awaken-host run would. A run with no open
step takes no more of them, and nothing is printed. Child runs that its delegations
wait for are cancelled too.

One process at a time holds the data folder, so that this reaches runs that are
parked or were interrupted. Ctrl-C in an awaken-host run that is at work is no
cancel: it stops the process, and the next one continues the run.`,
		Example: `  awaken-host runs cancel chat-7
  awaken-host runs cancel chat-7 --by alice --reason "asked the wrong question"`,
		Args:              arguments(1, 1, "one run id"),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&by, "by", "", "who cancels (default: the user of this process)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record and for the model")
	freeText(cmd, "by", "reason")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		who, err := nameOr(by)
		if err != nil {
			return err
		}
		return a.withHost(ctx, func(h *standard.Host) error {
			res, err := h.Cancel(ctx, standard.RunID(args[0]), who, reason)
			if err != nil && res == nil {
				return a.interrupted(ctx, err, "see what came of it with: "+a.command("runs show", args[0]))
			}
			if res != nil {
				a.tellParent(ctx, h, res)
				return errors.Join(err, a.writeResult(ctx, h, res))
			}
			a.tell("run %s is cancelled; no step of it was open", args[0])
			return nil
		})
	})
	return cmd
}

// withHost opens a host that is not started: what a command asks of it is all that
// it does.
func (a *app) withHost(ctx context.Context, use func(*standard.Host) error) error {
	o := a.options()
	o.Observe = a.newProgress(&standard.Message{}).observe
	h, err := standard.Open(ctx, a.config, o)
	if err != nil {
		return err
	}
	defer a.close(h)
	return use(h)
}

// nameOr is the name given, or that of the user of this process.
func nameOr(by string) (string, error) {
	if by != "" {
		return by, nil
	}
	return currentUser()
}

// freeText says that nothing is to be completed after the flags.
func freeText(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// tell says that something was done, unless only errors are wanted.
func (a *app) tell(format string, args ...any) {
	if !a.quiet {
		a.say("%s", fmt.Sprintf(format, args...))
	}
}
