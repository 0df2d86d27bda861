package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) policyBenchCommand() *cobra.Command {
	var b standard.PolicyBench
	cmd := &cobra.Command{
		Use:   "bench [FILE|-|OPERATION]",
		Short: "Measure what a decision of the policy costs",
		Long: `Measures what one decision costs: an input read from JSON, the policy evaluated, the
answer checked. The same modules and the same inputs are put to OPA's rego package in turns,
so that a busy machine slows both alike, and the ratio says what the host adds.

The argument is as in awaken-host policy eval. Without it a call without arguments of each tool
in force is asked about; with --stored what the ledger keeps, newest runs first. Nothing is
executed, and nothing is written to the ledger.`,
		Example: `  awaken-host policy bench
  awaken-host policy bench call.json --policy candidate/ --time 5s
  awaken-host policy bench --stored --limit 1000 -o json`,
		Args: arguments(0, 1, "at most one file, - for standard input, or operation id"),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&b.Paths, "policy", nil, "a file or folder to measure in place of the policy in the host file; repeatable")
	flags.DurationVar(&b.Time, "time", time.Second, "how long to measure")
	flags.BoolVar(&b.Stored, "stored", false, "ask what the ledger keeps")
	flags.IntVar(&b.Replay.Limit, "limit", 1000, "with --stored, at most so many decisions")
	_ = cmd.MarkFlagDirname("policy")
	freeText(cmd, "time", "limit")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error { return a.benchPolicy(ctx, b, args) })
	return cmd
}

func (a *app) benchPolicy(ctx context.Context, b standard.PolicyBench, args []string) error {
	b.File = a.config
	switch {
	case b.Stored && len(args) > 0:
		return usagef("--stored takes the place of %s: leave one of them out", args[0])
	case b.Time <= 0:
		return usagef("--time %v: a duration above 0 is needed", b.Time)
	case len(args) == 0:
	case isOperation(args[0]):
		b.Operation = args[0]
	default:
		var err error
		if b.Document, b.Name, err = a.readInput(ctx, args[0]); err != nil {
			return err
		}
	}
	r, err := standard.BenchPolicy(ctx, b, a.options())
	if err != nil {
		return err
	}
	if a.format == formatJSON {
		return a.writeValue(r)
	}
	t := &table{header: []string{"", "DECISIONS", "MEAN", "P50", "P99", "ALLOCS", "BYTES"}}
	row := func(name string, c standard.PolicyCost) {
		us := func(d time.Duration) string { return fmt.Sprintf("%.1fµs", float64(d)/1e3) }
		t.add(name, strconv.Itoa(c.N), us(c.Mean), us(c.P50), us(c.P99), strconv.FormatInt(c.Allocs, 10), strconv.FormatInt(c.Bytes, 10))
	}
	row("the gate", r.Gate)
	row("plain rego", r.Bare)
	return a.write(fmt.Appendf([]byte(t.render(a.width)), "\nratio %.2f, over %s\n", r.Ratio, counted(r.Questions, "input")))
}
