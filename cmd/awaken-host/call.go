package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) toolsCallCommand() *cobra.Command {
	var s submission
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGUMENTS|-]",
		Short: "Call one tool, through policy and ledger like any other call",
		Long: `Calls one tool as a batch of one call, through policy and ledger like any other,
and prints the text of its result. ARGUMENTS is a JSON object; without it the call
has none, with - it is read from standard input. With -o json the whole result is
printed, as awaken-host run does.`,
		Example: `  awaken-host tools call text__word_count '{"text":"a b c"}'
  awaken-host tools call text__word_count - < arguments.json
  awaken-host tools call notes__add '{"text":"buy milk"}' --run chat-7 -o json`,
		Args: arguments(1, 2, "a tool name and its arguments as JSON"),

		ValidArgsFunction: a.completeTools,
	}
	s.flags(a, cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		// What there is to say of the plugins is said when the host is opened.
		snapshot, _, err := standard.LoadTools(ctx, a.config, a.options())
		if err != nil {
			return err
		}
		if _, err := a.findTool(snapshot.Tools(), args[0]); err != nil {
			return err
		}
		msg, err := a.callMessage(ctx, args)
		if err != nil {
			return err
		}
		return a.submit(ctx, &s, msg, a.writeCall)
	})
	return cmd
}

// callMessage is a message of one call in our own dialect.
func (a *app) callMessage(ctx context.Context, args []string) (*standard.Message, error) {
	arguments, name := []byte("{}"), "the arguments"
	if len(args) > 1 && args[1] == "-" {
		var err error
		if arguments, name, err = a.readInput(ctx, "-"); err != nil {
			return nil, err
		}
	} else if len(args) > 1 {
		arguments = []byte(args[1])
	}
	if !json.Valid(arguments) {
		return nil, usagef("%s: not valid JSON; an object is needed, as in '{\"text\":\"a b\"}'", name)
	}
	type call struct {
		ID        string          `json:"id"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	data, err := json.Marshal(map[string][]call{"calls": {{"call", args[0], arguments}}})
	if err != nil {
		return nil, err
	}
	return standard.ParseMessage(data)
}

// writeCall writes the text of a published batch of one call.
func (a *app) writeCall(ctx context.Context, h *standard.Host, res *standard.Result) error {
	if a.format != formatDefault {
		return a.writeResult(ctx, h, res)
	}
	if res.Phase != standard.BatchFinalized {
		return nil
	}
	c := res.Results[0]
	text := (&standard.Output{Content: c.Content}).Text()
	if a.onTerminal {
		text = visibleText(text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if c.IsError {
		a.say("%s answered with an error", c.Tool)
	}
	return a.write([]byte(text))
}
