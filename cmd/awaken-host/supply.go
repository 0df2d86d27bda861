package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) ticketsResultCommand() *cobra.Command {
	var (
		result  resultFlags
		by      string
		isError bool
	)
	cmd := &cobra.Command{
		Use:   "result TICKET --result FILE|-",
		Short: "Supply the result of a call that the client executes",
		Long: `Supplies the result of a call to a tool that the client executes: one that the
host file declares as [[client_tool]]. The result is checked like any tool's, against
the tool's output schema too; one that does not fit is refused, and the ticket stays
open. Then the batch goes on, and its result is printed as awaken-host run would,
with the same exit status.

A result is accepted once, and until the ticket's deadline.`,
		Example: `  awaken-host tickets result tk-gjdgfzbuhu5vy --result answer.json
  echo yes | awaken-host tickets result tk-gjdgfzbuhu5vy --result - --text
  echo "the user closed the window" | awaken-host tickets result tk-gjdgfzbuhu5vy --result - --text --error`,
		Args:              arguments(1, 1, "one ticket id"),
		ValidArgsFunction: a.completeTickets,
	}
	result.add(cmd, resultForms)
	cmd.Flags().BoolVar(&isError, "error", false, "the tool failed: the result says why, and is not checked against the output schema")
	cmd.Flags().StringVar(&by, "by", "", "who supplies it (default: the user of this process)")
	freeText(cmd, "by")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if result.file == "" {
			return usagef("--result FILE is needed, or --result - for standard input")
		}
		who, err := nameOr(by)
		if err != nil {
			return err
		}
		r := standard.ExternalResult{By: who}
		if r.Content, r.IsError, err = result.read(ctx, a); err != nil {
			return err
		}
		r.IsError = r.IsError || isError
		id := standard.TicketID(args[0])
		return a.onTicket(ctx, id, func(h *standard.Host) (*standard.Result, error) { return h.Supply(ctx, id, r) })
	})
	return cmd
}

// onTicket lets act answer a ticket and shows what its batch comes to. A started
// host would continue others: an answer continues its own batch alone.
func (a *app) onTicket(ctx context.Context, id standard.TicketID, act func(*standard.Host) (*standard.Result, error)) error {
	return a.withHost(ctx, func(h *standard.Host) error {
		res, err := act(h)
		if err != nil && res == nil {
			return a.interrupted(ctx, err, fmt.Sprintf("see whether ticket %s is decided with: %s; the next awaken-host run continues its batch",
				id, a.command("tickets list", "--all")))
		}
		werr := a.writeResult(ctx, h, res)
		if err != nil { // too late, and the batch went on without it
			return errors.Join(err, werr)
		}
		a.tellParent(ctx, h, res)
		if err := a.settled(ctx, h, res, ""); werr == nil {
			return err
		}
		return werr
	})
}

// tellParent says where a child run's result goes.
func (a *app) tellParent(ctx context.Context, h *standard.Host, res *standard.Result) {
	run, err := h.Show(ctx, res.Run)
	if err != nil || run.Parent == "" || res.Phase != standard.BatchFinalized {
		return
	}
	parent := runOf(string(run.Parent))
	a.tell("run %s was delegated by %s; see what that came to with: %s", res.Run, run.Parent, a.command("runs show", parent))
}
