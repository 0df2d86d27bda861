package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) configCommand() *cobra.Command {
	cmd := a.onHost(group(&cobra.Command{
		Use:   "config",
		Short: "Check the host file and show what is in force",
	}))
	cmd.AddCommand(a.configCheckCommand(), a.configShowCommand())
	return cmd
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the host file and all it names: keys, plugins and policy",
		Long: `Checks the host file and all it names: the keys it trusts, every plugin with its
signature and its code, and the policy. Every problem is listed with its file and
what to do, and the exit status is 2. The ledger is not opened: awaken-host doctor
checks that.`,
		Example:           "  awaken-host config check -c host.toml",
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			r, err := standard.Check(ctx, a.config, a.options())
			if err != nil {
				return err
			}
			for _, w := range r.Warnings {
				a.say("warning: %s", w)
			}
			for _, n := range r.Notes {
				a.say("note: %s", n)
			}
			if a.format == formatJSON {
				return a.writeValue(r)
			}
			return a.write([]byte(visibleLine(a.config) + ": ok. Checked: " + strings.Join(r.Checked, ", ") + "\n"))
		}),
	}
}

func (a *app) configShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show every value in force and where it comes from",
		Long: `Shows every value in force and where it comes from: a flag, a line of the host
file, or a default. Secrets are redacted.`,
		Example: `  awaken-host config show
  awaken-host config show -o json --data-dir /tmp/try`,
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.do(func(context.Context, []string) error {
			c, err := standard.LoadConfig(a.config, a.options())
			if err != nil {
				return err
			}
			type setting struct {
				Key    string `json:"key"`
				Value  string `json:"value"`
				Origin string `json:"origin"`
				Secret bool   `json:"secret,omitempty"`
			}
			settings := []setting{}
			t := &table{header: []string{"KEY", "ORIGIN", "VALUE"}}
			for _, s := range c.Effective() {
				settings = append(settings, setting{s.Key, s.Value, s.Origin, s.Secret})
				t.add(s.Key, s.Origin, s.Value)
			}
			if a.format == formatJSON {
				return a.writeValue(settings)
			}
			return a.writeTable(t, "nothing is set")
		}),
	}
}
