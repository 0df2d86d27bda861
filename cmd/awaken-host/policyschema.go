package main

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) policySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of what policies see as input",
		Long: `Prints the JSON Schema of the document that policies see as input. It is what
"policy check" checks them against; OPA's own tools and editors take it with
opa eval --schema FILE or opa check --schema FILE.`,
		Example: `  awaken-host policy schema
  awaken-host policy schema > input.schema.json`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.do(func(context.Context, []string) error {
			raw := standard.PolicySchema()
			if a.format != formatJSON {
				return a.write(append(raw, '\n'))
			}
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil {
				return err
			}
			return a.write(append(b.Bytes(), '\n'))
		}),
	}
}
