package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// policyDiff is one run of "policy diff".
type policyDiff struct {
	what    standard.PolicyDiff
	since   string
	show    int
	reasons bool
}

func (a *app) policyDiffCommand() *cobra.Command {
	var d policyDiff
	cmd := &cobra.Command{
		Use:   "diff [OLD] NEW",
		Short: "Show which decisions of the ledger another policy would make otherwise",
		Long: `Puts every question that the ledger keeps to two policies, and lists the decisions that
would be others. OLD and NEW are files or folders of policy; without OLD the policy that the
host file names is the old one. With --recorded the old answers are those that were given
then, and NEW may be left out: then it is the policy that the host file names.

Each decision is made again from its own full input: what a changed decision would have led
to, such as other counts of calls, is not followed. A decision that differs in its reasons
only counts as the same; --reasons lists it too.

Nothing is executed, and nothing is written to the ledger. Exit status: 0 no decision would
be another, 1 some would, 2 wrong usage, or a policy that does not compile.`,
		Example: `  awaken-host policy diff candidate/
  awaken-host policy diff policy-v1/ policy-v2/ --since 7d --tool notes__add
  awaken-host policy diff --recorded -o json`,
		Args: arguments(0, 2, "one or two policies"),
	}
	flags := cmd.Flags()
	flags.BoolVar(&d.what.Recorded, "recorded", false, "hold NEW against the decisions as they were made")
	flags.StringVar(&d.since, "since", "", "only decisions made since, a time as in 2026-01-31T08:00:00Z or an age such as 7d")
	flags.StringVar((*string)(&d.what.Replay.Tool), "tool", "", "only calls of this tool")
	flags.StringVar((*string)(&d.what.Replay.Run), "run", "", "only calls of this run")
	flags.IntVar(&d.what.Replay.Limit, "limit", 0, "at most so many decisions, those of the runs that changed last (default: all)")
	flags.IntVar(&d.show, "show", 50, "list at most so many; all are counted")
	flags.BoolVar(&d.reasons, "reasons", false, "list decisions that differ in their reasons only, too")
	_ = cmd.RegisterFlagCompletionFunc("run", a.completeRuns)
	_ = cmd.RegisterFlagCompletionFunc("tool", a.completeTools)
	freeText(cmd, "since", "limit", "show")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error { return a.diffPolicies(ctx, d, args) })
	return cmd
}

// since reads a time, or an age before now.
func since(flag string, now time.Time) (time.Time, error) {
	if flag == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, flag); err == nil {
		return t, nil
	}
	age, err := standard.ParseDuration(flag)
	if err != nil || age < 0 {
		return time.Time{}, usagef("--since %s: a time as in 2026-01-31T08:00:00Z or an age such as 7d is needed", flag)
	}
	return now.Add(-age), nil
}

func (d *policyDiff) policies(args []string) error {
	switch {
	case d.what.Recorded && len(args) > 1:
		return usagef("--recorded takes the place of OLD: name NEW alone, or nothing for the policy that the host file names")
	case d.what.Recorded && len(args) == 1:
		d.what.New = args
	case d.what.Recorded:
	case len(args) == 0:
		return usagef("name a policy to hold against the one in the host file, or say --recorded")
	case len(args) == 1:
		d.what.New = args
	default:
		d.what.Old, d.what.New = args[:1], args[1:]
	}
	return nil
}

func (a *app) diffPolicies(ctx context.Context, d policyDiff, args []string) error {
	err := d.policies(args)
	if err != nil {
		return err
	}
	d.what.File = a.config
	if d.what.Replay.Since, err = since(d.since, time.Now()); err != nil {
		return err
	}
	changes, left := []standard.PolicyChange{}, 0
	d.what.Change = func(c standard.PolicyChange) error {
		switch {
		case c.What == standard.DifferentReasons && !d.reasons:
		case len(changes) == d.show:
			left++
		default:
			changes = append(changes, c)
		}
		return nil
	}
	clear := func() {}
	if a.errOnTerminal && !a.quiet {
		d.what.Progress, clear = a.countDown("runs replayed")
	}
	r, err := standard.DiffPolicies(ctx, d.what, a.options())
	clear()
	if err != nil {
		return err
	}
	if a.format == formatJSON {
		err = a.writeValue(struct {
			*standard.PolicyDiffReport
			Changes []standard.PolicyChange `json:"changes"`
			LeftOut int                     `json:"left_out"` // of changes
		}{r, changes, left})
	} else {
		err = a.writeDiff(r, changes, left)
	}
	if err == nil && r.Changed > 0 {
		err = status(exitFailed)
	}
	return err
}

// countDown shows how far something is on one line of a terminal, not more than ten
// times a second, and gives what clears the line.
func (a *app) countDown(what string) (show func(done, of int), clear func()) {
	var last time.Time
	width := 0
	write := func(line string) {
		_, _ = fmt.Fprintf(a.stderr, "\r%-*s", width, line)
		width = len(line)
	}
	show = func(done, of int) {
		if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
			last = now
			write(fmt.Sprintf("%d of %d %s", done, of, what))
		}
	}
	return show, func() {
		if width > 0 {
			write("")
			write("")
		}
	}
}

func (a *app) writeDiff(r *standard.PolicyDiffReport, changes []standard.PolicyChange, left int) error {
	var b strings.Builder
	t := &table{header: []string{"CALL", "DECIDED", "TOOL", "OLD", "NEW", "WHY"}, cut: true, times: []int{1}}
	for i := range changes {
		c := &changes[i]
		was, now := string(c.Old.Outcome), string(c.New.Outcome)
		if c.What != standard.DifferentOutcome {
			now = "other " + string(c.What)
		}
		var why []string
		for _, reason := range c.New.Reasons {
			if reason.Detail != "" { // it says more, and the line is short
				reason.Message, reason.Detail = reason.Detail, ""
			}
			why = append(why, reasonText(reason))
		}
		t.add(string(c.Operation), clock(c.Time), string(c.Tool), was, now, strings.Join(why, "; "))
	}
	if len(changes) > 0 {
		b.WriteString(t.render(a.width))
		if left > 0 {
			fmt.Fprintf(&b, "and %d more, left out\n", left)
		}
		b.WriteByte('\n')
	}
	if len(r.Transitions) > 0 {
		t := &table{header: []string{"COUNT", "OLD", "NEW"}}
		for _, n := range r.Transitions {
			now := string(n.New)
			if n.Old == n.New {
				now = "other terms"
			}
			t.add(strconv.Itoa(n.Count), string(n.Old), now)
		}
		b.WriteString(t.render(a.width))
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "replayed %s, %d would be others", counted(r.Replayed, "decision"), r.Changed)
	for _, n := range []struct {
		n    int
		what string
	}{
		{r.Reasons, "differ in their reasons only"},
		{r.NotAsked, "decided without asking policy"},
		{r.Unknown, "cannot be made again, since input.history.principal was not recorded"},
	} {
		if n.n > 0 {
			fmt.Fprintf(&b, "; %s: %d", n.what, n.n)
		}
	}
	b.WriteByte('\n')
	return a.write([]byte(b.String()))
}
