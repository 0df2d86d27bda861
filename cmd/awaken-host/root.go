package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "awaken-host",
		Short: "A host for the tools that AI agents call",
		Long: `awaken-host runs the tool calls of AI agents. Tools are signed WebAssembly
plugins; every call is made durable, decided by Rego policy, run, and published
when its whole batch is done.

Standard output is the result and nothing else. Exit status: 0 published,
3 parked (a call waits for a decision, a result or its time), 2 wrong usage or
configuration, 130 ended by a second interrupt, 1 anything else.`,
		Example: `  awaken-host init demo
  awaken-host run -c demo/host.toml demo/batch.json
  awaken-host tickets list -c demo/host.toml`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	group(root)

	flags := root.PersistentFlags()
	flags.StringVarP(&a.format, "output", "o", formatDefault, "how results are printed: json or table (default depends on the command)")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "log more, down to debug level")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "log errors only")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatTable}, cobra.ShellCompDirectiveNoFileComp))

	root.AddCommand(
		a.initCommand(),
		a.runCommand(),
		a.runsCommand(),
		a.ticketsCommand(),
		a.toolsCommand(),
		a.pluginCommand(),
		a.policyCommand(),
		a.sandboxCommand(),
		a.configCommand(),
		a.doctorCommand(),
		a.backupCommand(),
		a.restoreCommand(),
		a.versionCommand(),
	)
	root.SetHelpCommand(helpCommand())
	root.Version = buildInfo().Version
	root.SetVersionTemplate(buildInfo().line())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
		}
	}
	return root
}

// onHost gives cmd, and the commands below it, the flags that name a host file.
func (a *app) onHost(cmd *cobra.Command) *cobra.Command {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&a.config, "config", "c", "host.toml", "the host file")
	flags.StringVar(&a.dataDir, "data-dir", "", "the data folder, instead of the host file's data_dir")
	_ = cmd.MarkPersistentFlagFilename("config", "toml")
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	return cmd
}

// mayBeEmpty are the flags that say nothing about what is done.
var mayBeEmpty = []string{"reason", "note"}

// zeroIsAll marks a flag whose 0 stands for all, since its default is a number.
const zeroIsAll = "awaken-host: 0 is all"

// checkValues refuses flags that are given and say nothing, as a shell makes them
// of a variable that is not set: what they were to guard would go on unguarded.
func checkValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err != nil || slices.Contains(mayBeEmpty, f.Name) {
			return
		}
		var values []string
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			values = v.GetSlice()
		default:
			values = []string{v.String()}
		}
		for _, v := range values {
			if strings.TrimSpace(v) == "" {
				err = usagef("--%s is empty: give it a value, or leave it out", f.Name)
			}
		}
		if n, convErr := strconv.Atoi(f.Value.String()); f.Value.Type() == "int" && (convErr != nil || n < 0 || n == 0 && f.Annotations[zeroIsAll] == nil) {
			err = usagef("--%s %s: a number from 1 is needed, or leave it out", f.Name, f.Value)
		}
	})
	return err
}

func (a *app) checkFlags(cmd *cobra.Command) error {
	if err := checkValues(cmd); err != nil {
		return err
	}
	if a.format != formatDefault && a.format != formatJSON && a.format != formatTable {
		return usagef("-o %s: json and table are known", a.format)
	}
	if a.verbose && a.quiet {
		return usagef("-v and -q exclude each other: leave one out")
	}
	return nil
}

// group makes cmd a mere parent of commands, which refuses what is none of them
// with the nearest ones. Cobra alone does so for the root only.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = ". Did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("there is no command %q in %q%s", args[0], cmd.CommandPath(), hint)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// helpCommand is cobra's, but for refusing topics that there are not.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			parent, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, c := range parent.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if topic.HasSubCommands() {
				if err := topic.ValidateArgs(rest); err != nil {
					return err
				}
			}
			return topic.Help()
		},
	}
}

// flagError adds the nearest flag to a complaint about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%w. Did you mean --%s?", err, near)
		}
	}
	return fmt.Errorf("%w. See: %s --help", err, cmd.CommandPath())
}

func nearestFlag(cmd *cobra.Command, name string) string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := levenshtein.ComputeDistance(name, f.Name); d <= 2 && d < len(f.Name) || strings.HasPrefix(f.Name, name) {
			near = append(near, candidate{f.Name, d})
		}
	})
	if len(near) == 0 {
		return ""
	}
	return slices.MinFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) }).name
}

// arguments replaces cobra's terse complaints about the number of arguments.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s takes %s, %d arguments were given. Usage: %s", cmd.CommandPath(), what, len(args), cmd.UseLine())
		}
		if slices.Contains(args, "") {
			return fmt.Errorf("%s takes %s: an argument is empty. Usage: %s", cmd.CommandPath(), what, cmd.UseLine())
		}
		return nil
	}
}
