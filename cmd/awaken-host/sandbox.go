package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) sandboxCommand() *cobra.Command {
	cmd := a.onHost(group(&cobra.Command{
		Use:   "sandbox",
		Short: "See what boundaries this machine can enforce",
	}))
	cmd.AddCommand(a.sandboxCheckCommand())
	return cmd
}

func (a *app) sandboxCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [TIER]",
		Short: "Run something in a tier and say what its boundary really enforces",
		Long: `Starts a throw-away sandbox of the tier, looks around in it, and reads back from
outside what is in force: for each property whether it is enforced, not enforced or
unknown, what was seen, and what would make it enforced. Without TIER all tiers are
looked at: local, namespace, docker, podman and k8s.

Network, limits, images and engines are those of the host file; without one, those
of an empty [sandbox]. Mounts are left out. Nothing else is executed and the ledger
is not opened. The exit status is 0 when the tier that is named, without TIER the
host's own, works and holds what [sandbox.require] demands, else 1.`,
		Example: `  awaken-host sandbox check
  awaken-host sandbox check namespace -c host.toml
  awaken-host sandbox check docker -o json`,
		Args:              arguments(0, 1, "the name of a tier, or nothing for all of them"),
		ValidArgsFunction: cobra.FixedCompletions(standard.SandboxTiers(), cobra.ShellCompDirectiveNoFileComp),
	}
	run := a.do(func(ctx context.Context, tiers []string) error {
		// A machine can be looked at before there is a host.
		optional := !cmd.Flags().Changed("config")
		reports, err := standard.CheckSandbox(ctx, a.config, optional, tiers, a.options())
		if err != nil {
			return err
		}
		if a.format == formatJSON {
			err = a.writeValue(reports)
		} else {
			err = a.writeTiers(reports)
		}
		if err != nil {
			return err
		}
		var bad []string
		for i := range reports {
			// That others are not there is news, and no fault of the host's.
			if asked := len(tiers) > 0 || reports[i].Configured; asked && !reports[i].OK() {
				bad = append(bad, reports[i].Tier)
			}
		}
		if len(bad) > 0 {
			return fmt.Errorf("calls would not run in: %s", strings.Join(bad, ", "))
		}
		return nil
	})
	cmd.RunE = run
	return cmd
}

func (a *app) writeTiers(reports []standard.TierReport) error {
	var b strings.Builder
	for i := range reports {
		r := &reports[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		head := &table{}
		name := r.Tier
		if r.Configured {
			name += " (configured)"
		}
		head.add("tier", name)
		if !r.Usable {
			head.add("usable", "no: "+r.Error)
			b.WriteString(head.render(a.width))
			continue
		}
		head.add("usable", fmt.Sprintf("yes, the Hand answered after %.0f ms", r.TookMS))
		if r.Image != "" {
			head.add("image", r.Image)
		}
		for _, u := range r.Unmet {
			head.add("unmet", u)
		}
		b.WriteString(head.render(a.width) + "\n")
		t := &table{header: []string{"PROPERTY", "STATE", "LEVEL", "SEEN", "REMEDY"}}
		for _, p := range r.Properties {
			t.add(p.Property, p.State, p.Level, p.Detail, p.Remedy)
		}
		b.WriteString(t.render(a.width))
	}
	return a.write([]byte(b.String()))
}
