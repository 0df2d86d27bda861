package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// policyEval is one run of "policy eval": the calls of a document, and who makes them.
type policyEval struct {
	what   standard.PolicyEval
	labels []string
	called []string
	now    string
}

var explanations = []string{"fails", "notes", "full"}

func (a *app) policyEvalCommand() *cobra.Command {
	var e policyEval
	cmd := &cobra.Command{
		Use:   "eval FILE|-|OPERATION",
		Short: "Ask the policy about a call, without running it",
		Long: `Asks the policy what it says of a call, and shows the decision and the rules that
made it. Nothing is executed, and nothing is written to the ledger.

FILE has a call, {"tool":"text__word_count","arguments":{"text":"a b"}}, or a message of
calls as awaken-host run takes it: each call is asked about for itself, of a tool that
the host file names. Flags say who calls, and when. Or FILE has a whole input document, as
a policy sees it: then tools need not be there.

OPERATION is a call of the ledger, RUN/STEP/INDEX. The policy is asked the very question that
was last asked about it, and what was decided then is shown beside.`,
		Example: `  awaken-host policy eval call.json --principal alice --label environment=production
  echo '{"tool":"notes__add","arguments":{}}' | awaken-host policy eval - --approved-by bob
  awaken-host policy eval chat-7/2/0 --policy candidate/ --explain fails
  awaken-host policy eval input.json -o json`,
		Args: arguments(1, 1, "one file, - for standard input, or an operation id"),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&e.what.Paths, "policy", nil, "a file or folder to ask in place of the policy in the host file; repeatable")
	flags.StringVar(&e.what.Explain, "explain", "", "trace the evaluation: fails (what was not true), notes (trace() in policies) or full")
	flags.BoolVar(&e.what.Coverage, "coverage", false, "show which lines of the policy were reached")
	flags.StringVar(&e.what.Caller.Run, "run", "", "the run the call belongs to")
	flags.StringVar(&e.what.Caller.Principal, "principal", "", "on whose behalf")
	flags.StringVar(&e.what.Caller.Agent, "agent", "", "which agent submits")
	flags.StringArrayVar(&e.labels, "label", nil, "a label of the run as key=value; repeatable")
	flags.StringVar(&e.now, "now", "", "when, as in 2026-01-31T08:00:00Z (default: now)")
	flags.StringArrayVar(&e.called, "called", nil, "how often a tool ran before, in the run and within the last minute, as tool=count; repeatable")
	flags.StringArrayVar(&e.what.Caller.Approved, "approved-by", nil, "who approved: the call comes back from waiting; repeatable")
	flags.BoolVar(&e.what.Caller.Due, "due", false, "the call comes back at its scheduled time")
	_ = cmd.MarkFlagDirname("policy")
	_ = cmd.RegisterFlagCompletionFunc("explain", cobra.FixedCompletions(explanations, cobra.ShellCompDirectiveNoFileComp))
	freeText(cmd, "run", "principal", "agent", "label", "now", "called", "approved-by")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		asked, err := e.read(ctx, a, args[0])
		if err != nil {
			return err
		}
		r, err := standard.EvalPolicy(ctx, *asked, a.options())
		if err != nil {
			return err
		}
		if a.format == formatJSON {
			return a.writeValue(r)
		}
		return a.writeEval(r)
	})
	return cmd
}

// read makes the question of flags and argument.
func (e *policyEval) read(ctx context.Context, a *app, from string) (*standard.PolicyEval, error) {
	asked := e.what
	asked.File = a.config
	if asked.Explain != "" && !slices.Contains(explanations, asked.Explain) {
		return nil, usagef("--explain %s: known are %s", asked.Explain, strings.Join(explanations, ", "))
	}
	if asked.Caller.Due && len(asked.Caller.Approved) > 0 {
		return nil, usagef("--due and --approved-by exclude each other: a call waits for a person or for its time")
	}
	s := submission{run: asked.Caller.Run, labels: e.labels}
	req, err := s.request(nil)
	if err != nil {
		return nil, err
	}
	asked.Caller.Labels = req.Labels
	if e.now != "" {
		if asked.Caller.Now, err = time.Parse(time.RFC3339, e.now); err != nil {
			return nil, usagef("--now %s: a time as in 2026-01-31T08:00:00Z is needed", e.now)
		}
	}
	for _, c := range e.called {
		tool, count, ok := strings.Cut(c, "=")
		n, err := strconv.Atoi(count)
		if !ok || tool == "" || err != nil || n < 0 {
			return nil, usagef("--called %q: tool=count is needed", c)
		}
		if asked.Caller.Counts == nil {
			asked.Caller.Counts = map[standard.ToolID]int{}
		}
		asked.Caller.Counts[standard.ToolID(tool)] = n
	}
	if isOperation(from) {
		if !asked.Caller.IsZero() {
			return nil, usagef("%s is a call of the ledger, which says itself who called, when and after which approval: leave out the flags that would say it again", from)
		}
		asked.Operation = from
		return &asked, nil
	}
	asked.Document, asked.Name, err = a.readInput(ctx, from)
	return &asked, err
}

// isOperation reports whether an argument names a call of the ledger: it has the
// form, and there is no file of that name.
func isOperation(s string) bool {
	if s == "-" || !standard.IsOperation(s) {
		return false
	}
	_, err := os.Stat(s)
	return errors.Is(err, os.ErrNotExist)
}

func (a *app) writeEval(r *standard.PolicyEvalReport) error {
	var b strings.Builder
	for i := range r.Calls {
		if i > 0 {
			b.WriteByte('\n')
		}
		a.describeEval(&b, &r.Calls[i])
	}
	return a.write([]byte(b.String()))
}

func (a *app) describeEval(b *strings.Builder, c *standard.PolicyCall) {
	t := &table{}
	add := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	add("call", strings.TrimSpace(c.ID+" "+string(c.Operation)))
	add("tool", string(c.Tool))
	add("outcome", string(c.Answer.Outcome))
	if !c.Asked {
		t.add("asked", "no: the host refuses this call by itself")
	}
	describeAnswer(t, c.Answer)
	for _, r := range c.Rules {
		at := fmt.Sprintf("%s:%d %s", r.File, r.Line, r.Rule)
		if len(r.Entry) > 0 {
			at += " " + string(r.Entry)
		}
		if !r.Decided {
			at += " (moot)"
		}
		t.add("rule", at)
	}
	if c.Recorded != nil {
		t.add("recorded", string(c.Recorded.Outcome)+" on "+clock(c.Recorded.Time)+" under "+short(c.Recorded.PolicyRevision))
		for _, reason := range c.Recorded.Reasons {
			t.add("recorded", reasonText(reason))
		}
	}
	for _, p := range c.Printed {
		t.add("print", p)
	}
	if c.Asked {
		t.add("time", c.Elapsed.Round(time.Microsecond).String())
	}
	b.WriteString(t.render(a.width))
	if c.Coverage != nil {
		b.WriteByte('\n')
		b.WriteString(a.coverageTable(c.Coverage))
	}
	if len(c.Trace) > 0 {
		b.WriteByte('\n')
	}
	for _, line := range c.Trace {
		b.WriteString(visibleText(line))
		b.WriteByte('\n')
	}
}

// describeAnswer adds what belongs to an outcome.
func describeAnswer(t *table, d *standard.PolicyAnswer) {
	for _, r := range d.Reasons {
		t.add("reason", reasonText(r))
	}
	if k := d.Confirmation; k != nil {
		t.add("prompt", k.Prompt)
		t.add("approvals", strconv.Itoa(k.Quorum))
		if len(k.Approvers) > 0 {
			t.add("from", strings.Join(k.Approvers, ", "))
		}
		if k.Timeout > 0 {
			t.add("within", k.Timeout.String())
		}
	}
	if r := d.Result; r != nil {
		name := "result"
		if r.IsError {
			name = "error"
		}
		t.add(name, (&standard.Output{Content: r.Content}).Text())
	}
	if !d.At.IsZero() {
		t.add("at", clock(d.At))
	}
	for _, g := range grantLines(d) {
		t.add("grant", g)
	}
}

func grantLines(d *standard.PolicyAnswer) []string {
	g := d.Grant
	if g == nil {
		return nil
	}
	var out []string
	some := func(name string, list []string) {
		if list != nil {
			out = append(out, strings.TrimSpace(name+": "+strings.Join(list, ", ")))
		}
	}
	some("hosts", g.Hosts)
	some("commands", g.Commands)
	if g.Paths != nil {
		var paths []string
		for p, mode := range g.Paths {
			paths = append(paths, p+" "+mode)
		}
		slices.Sort(paths)
		some("paths", append([]string{}, paths...))
	}
	if g.MemoryMiB > 0 {
		out = append(out, fmt.Sprintf("memory: %d MiB", g.MemoryMiB))
	}
	if g.Timeout > 0 {
		out = append(out, "timeout: "+g.Timeout.String())
	}
	return out
}

func reasonText(r standard.PolicyReason) string {
	text := r.Code
	if r.Message != "" {
		text += ": " + r.Message
	}
	if r.Detail != "" {
		text += " (" + r.Detail + ")"
	}
	return text
}

// short is the beginning of a digest, which is enough to tell two apart.
func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}
