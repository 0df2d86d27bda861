package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// policyTests is one run of "policy test".
type policyTests struct {
	what          standard.PolicyTests
	threshold     float64
	measured      bool // a threshold was given
	watch         bool
	skippedPasses bool
}

func (a *app) policyTestCommand() *cobra.Command {
	var t policyTests
	cmd := &cobra.Command{
		Use:   "test [PATH…]",
		Short: "Run the tests of the policy",
		Long: `Runs the tests of the policy, as opa test does: rules named test_… in files named
…_test.rego. The policy is compiled as the host compiles it, with the base policy and
without the built-ins that are not let in.

A PATH stands in place of the policy that the host file names, which then need not be
there; if it holds nothing but tests, those are run beside the policy's own.

A test passes when it is true, fails when it is not, and is an error when it cannot be
evaluated. One named todo_test_… is skipped. With -v every test is listed, and what does
not pass is traced.

Exit status: 0 every test passed, 1 one did not or was skipped, there were none, or
coverage is below the threshold, 2 the policy or its tests do not compile.`,
		Example: `  awaken-host policy test
  awaken-host policy test policy/ --run 'salary|production' -v
  awaken-host policy test --coverage --threshold 90 -o json
  awaken-host policy test --watch`,
		Args: arguments(0, 1000, "files and folders"),
	}
	flags := cmd.Flags()
	flags.StringVar(&t.what.Run, "run", "", "only tests whose name, as in data.awaken.policy_test.test_x, has this regular expression in it")
	flags.BoolVar(&t.what.Coverage, "coverage", false, "show which lines of the policy the tests reach")
	flags.Float64Var(&t.threshold, "threshold", 0, "fail when coverage is less than so many percent; measures it")
	flags.BoolVar(&t.watch, "watch", false, "run the tests again whenever a file changes")
	flags.BoolVarP(&t.skippedPasses, "exit-zero-on-skipped", "z", false, "a skipped test does not change the exit status")
	freeText(cmd, "run", "threshold")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t.measured = cmd.Flags().Changed("threshold")
		t.what.Optional = !cmd.Flags().Changed("config")
		return a.do(func(ctx context.Context, args []string) error { return a.testPolicy(ctx, t, args) })(cmd, args)
	}
	return cmd
}

func (a *app) testPolicy(ctx context.Context, t policyTests, paths []string) error {
	if t.measured && (t.threshold < 0 || t.threshold > 100) {
		return usagef("--threshold %v: a percentage from 0 to 100 is needed", t.threshold)
	}
	t.what.File, t.what.Paths, t.what.Trace = a.config, paths, a.verbose
	t.what.Coverage = t.what.Coverage || t.measured
	if !t.watch {
		r, err := standard.TestPolicy(ctx, t.what, a.options())
		if err != nil {
			return err
		}
		if err := a.writeTests(r); err != nil {
			return err
		}
		return a.judgeTests(t, r)
	}
	return standard.WatchPolicyTests(ctx, t.what, a.options(), func(r *standard.PolicyTestReport, err error) error {
		if err == nil {
			if err := a.writeTests(r); err != nil {
				return err
			}
			err = a.judgeTests(t, r)
		}
		var said status
		if err != nil && !errors.As(err, &said) {
			a.say("%v", err)
		}
		a.say("%s: waiting for a change", time.Now().Format(time.TimeOnly))
		return nil
	})
}

// judgeTests says what the report does not, and gives the exit status.
func (a *app) judgeTests(t policyTests, r *standard.PolicyTestReport) error {
	switch {
	case len(r.Tests) == 0 && t.what.Run != "":
		return fmt.Errorf("no test has %q in its name", t.what.Run)
	case len(r.Tests) == 0:
		return fmt.Errorf("there are no tests: write rules named test_… in a file named …_test.rego beside the policy")
	case r.Failed > 0 || r.Errors > 0 || r.Skipped > 0 && !t.skippedPasses:
		return status(exitFailed)
	case t.measured && r.Coverage.Percent < t.threshold:
		return fmt.Errorf("coverage is %.1f %%, and %v %% are wanted", r.Coverage.Percent, t.threshold)
	}
	return nil
}

func (a *app) writeTests(r *standard.PolicyTestReport) error {
	if a.format == formatJSON {
		return a.writeValue(r)
	}
	if len(r.Tests) == 0 {
		return nil
	}
	var b strings.Builder
	for i := range r.Tests {
		if t := &r.Tests[i]; a.verbose || t.Outcome != standard.PolicyTestPassed {
			describeTest(&b, t, a.verbose)
		}
	}
	total := r.Passed + r.Failed + r.Errors + r.Skipped
	fmt.Fprintf(&b, "passed %d of %d", r.Passed, total)
	for _, n := range []struct {
		what string
		n    int
	}{{"failed", r.Failed}, {"errors", r.Errors}, {"skipped", r.Skipped}} {
		if n.n > 0 {
			fmt.Fprintf(&b, ", %s %d", n.what, n.n)
		}
	}
	fmt.Fprintf(&b, ", in %v\n", r.Elapsed.Round(time.Millisecond))
	if r.Coverage != nil {
		b.WriteByte('\n')
		b.WriteString(a.coverageTable(r.Coverage))
	}
	return a.write([]byte(b.String()))
}

// coverageTable lists the files with the lines that were not reached.
func (a *app) coverageTable(c *standard.PolicyCoverage) string {
	t := &table{header: []string{"FILE", "COVERED", "NOT REACHED"}}
	for _, f := range c.Files {
		var missed []string
		for _, l := range f.Missed {
			if l.From == l.To {
				missed = append(missed, fmt.Sprint(l.From))
			} else {
				missed = append(missed, fmt.Sprintf("%d-%d", l.From, l.To))
			}
		}
		t.add(f.File, fmt.Sprintf("%.1f %%", f.Percent), strings.Join(missed, ", "))
	}
	t.add("all", fmt.Sprintf("%.1f %%", c.Percent), "")
	return t.render(a.width)
}

func describeTest(b *strings.Builder, t *standard.PolicyTestResult, all bool) {
	fmt.Fprintf(b, "%-5s %s", strings.ToUpper(string(t.Outcome)), visibleLine(t.Name))
	if t.Outcome != standard.PolicyTestSkipped {
		fmt.Fprintf(b, " (%v)", t.Elapsed.Round(time.Microsecond))
	}
	fmt.Fprintf(b, "\n  %s:%d\n", visibleLine(t.File), t.Line)
	for _, c := range t.Cases {
		if !c.Pass {
			fmt.Fprintf(b, "  case %s: FAIL\n", visibleLine(c.Name))
		} else if all {
			fmt.Fprintf(b, "  case %s: PASS\n", visibleLine(c.Name))
		}
	}
	if t.Error != "" {
		fmt.Fprintf(b, "  %s\n", visibleLine(t.Error))
	}
	if f := t.FailedAt; f != nil {
		fmt.Fprintf(b, "  not true, line %d: %s\n", f.Line, visibleLine(f.Message))
	}
	for line := range strings.Lines(t.Output) {
		fmt.Fprintf(b, "  print: %s\n", visibleText(strings.TrimSuffix(line, "\n")))
	}
	for _, line := range t.Trace {
		fmt.Fprintf(b, "  | %s\n", visibleText(line))
	}
}
