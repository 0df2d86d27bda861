package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a working host file, policy, key and plugin",
		Long: `Writes into DIR (default: the current folder) a host file, a starter policy, a
fresh key, a small plugin signed with it, and a message to run. Nothing that exists
is overwritten.`,
		Example: `  awaken-host init demo
  awaken-host run -c demo/host.toml demo/batch.json`,
		Args:              arguments(0, 1, "one folder"),
		ValidArgsFunction: directories,
		RunE: a.do(func(_ context.Context, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			r, err := standard.Init(dir)
			if err != nil {
				return err
			}
			if a.format == formatJSON {
				return a.writeValue(r)
			}
			if !a.quiet {
				a.say("made %s. Next:\n  %s", r.Dir, strings.Join(r.Next, "\n  "))
			}
			t := &table{}
			for _, f := range r.Files {
				t.add(f)
			}
			return a.write([]byte(t.render(a.width)))
		}),
	}
}
