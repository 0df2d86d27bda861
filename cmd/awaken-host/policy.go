package main

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := a.onHost(group(&cobra.Command{
		Use:   "policy",
		Short: "Check, test and try the policy that decides about tool calls",
	}))
	cmd.AddCommand(a.policyCheckCommand(), a.policySchemaCommand(), a.policyTestCommand(), a.policyEvalCommand(), a.policyDiffCommand(), a.policyBenchCommand())
	cmd.AddCommand(a.policyStatusCommand(), a.policyLogCommand())
	return cmd
}

func (a *app) policyCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [PATH…]",
		Short: "Compile the policy as the host would and show what is in it",
		Long: `Compiles the policy as the host would and shows what is in it. What is wrong is
listed with file and line, and the exit status is 2.

A PATH stands in place of the policy that the host file names, which then need not be
there.`,
		Example: `  awaken-host policy check
  awaken-host policy check -c host.toml -o json
  awaken-host policy check policy/`,
		Args: arguments(0, 1000, "files and folders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			optional := !cmd.Flags().Changed("config")
			return a.do(func(ctx context.Context, args []string) error { return a.checkPolicy(ctx, optional, args) })(cmd, args)
		},
	}
}

func (a *app) checkPolicy(ctx context.Context, optional bool, paths []string) error {
	r, err := standard.CheckPolicy(ctx, a.config, optional, paths, a.options())
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		a.say("warning: %s", w.String())
	}
	if a.format == formatJSON {
		return a.writeValue(r)
	}
	t := &table{}
	t.add("revision", r.Revision)
	for _, m := range r.Modules {
		t.add("module", m.File+"  package "+m.Package+", rules: "+strconv.Itoa(m.Rules))
	}
	for _, d := range r.Data {
		t.add("data", d)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Rules)) {
		t.add("rules", kind+": "+strconv.Itoa(r.Rules[kind]))
	}
	return a.write([]byte(t.render(a.width)))
}
