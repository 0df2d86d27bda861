package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) runCommand() *cobra.Command {
	var s submission
	cmd := a.onHost(&cobra.Command{
		Use:   "run FILE|-",
		Short: "Run the tool calls of an assistant message and print the results",
		Long: `Runs the tool calls of an assistant message as one batch and prints the ordered
results. The message is in Anthropic form (content with tool_use blocks), in
OpenAI form (tool_calls) or in our own,

  {"calls":[{"id":"c1","tool":"text__word_count","arguments":{"text":"a b"}}]}

and the answer is in the same one. First, whatever an earlier process left
unfinished is continued.

A call that waits for a person, a client or its time parks the batch: exit status 3, and
standard error tells the ticket and how to decide it. The same message again under
the same --run and --step runs nothing twice: it continues or shows what is there.
Ctrl-C stops between two commits and cancels nothing: the next awaken-host run
continues. Standard error says whether this message was accepted, and the exit
status is 1; a second Ctrl-C exits at once, with 130. SIGTERM and SIGHUP do the
same. To end a run for good: awaken-host runs cancel.`,
		Example: `  awaken-host run batch.json
  awaken-host run -c host.toml --run chat-7 --principal alice batch.json
  agent | awaken-host run -o table -`,
		Args:              arguments(1, 1, "one message file, or - for standard input"),
		ValidArgsFunction: cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
	})
	s.flags(a, cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		msg, err := a.readMessage(ctx, args[0])
		if err != nil {
			return err
		}
		s.again = args[0]
		return a.submit(ctx, &s, msg, a.writeResult)
	})
	return cmd
}

// submission is for whom a message runs.
type submission struct {
	run       string
	step      int
	principal string
	agent     string
	labels    []string

	again string // the message's file, to tell how to continue; empty: there is none
}

func (s *submission) flags(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.run, "run", "", "the run to continue or to begin (default: a fresh id)")
	flags.IntVar(&s.step, "step", 0, "the step of the run (default: its next one)")
	flags.StringVar(&s.principal, "principal", "", "on whose behalf; may not decide the run's tickets")
	flags.StringVar(&s.agent, "agent", "", "which agent submits")
	flags.StringArrayVar(&s.labels, "label", nil, "a label of the run as key=value, for policy; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("run", a.completeRuns)
	freeText(cmd, "step", "principal", "agent", "label")
}

func (s *submission) request(msg *standard.Message) (standard.Request, error) {
	r := standard.Request{
		Run: standard.RunID(s.run), Step: s.step, Principal: s.principal, Agent: s.agent, Message: msg,
	}
	if s.step > 0 && s.run == "" {
		return r, usagef("--step %d: the step of which run? Say so with --run", s.step)
	}
	for _, l := range s.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return r, usagef("--label %q: key=value is needed", l)
		}
		if _, twice := r.Labels[k]; twice {
			return r, usagef("--label %s is given twice", k)
		}
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[k] = v
	}
	return r, nil
}

// submit runs msg and shows its result.
func (a *app) submit(ctx context.Context, s *submission, msg *standard.Message, show func(context.Context, *standard.Host, *standard.Result) error) error {
	req, err := s.request(msg)
	if err != nil {
		return err
	}
	p := a.newProgress(msg)
	o := a.options()
	o.Observe = p.observe
	h, err := standard.Open(ctx, a.config, o)
	if err != nil {
		return a.interrupted(ctx, err, notAccepted)
	}
	defer a.close(h)
	if req.Run != "" && req.Step == 0 {
		// Before Start publishes it: the same message again is the same step.
		if req.Step, err = h.OpenStep(ctx, req.Run, msg); err != nil {
			return err
		}
	}
	if err := h.Start(ctx); err != nil {
		return a.interrupted(ctx, err, a.howToContinue(ctx, h, s, req.Run, req.Step))
	}
	p.follow(req.Run)
	res, err := h.Run(ctx, req)
	if err != nil {
		return a.interrupted(ctx, err, a.howToContinue(ctx, h, s, p.run(), max(req.Step, p.at())))
	}
	werr := show(ctx, h, res)
	a.tellUnbounded(res)
	if err := a.settled(ctx, h, res, s.again); werr == nil {
		return err
	}
	return werr
}

// settled is the exit status of a batch: nil when it is published, else status 3
// after telling what it waits for.
func (a *app) settled(ctx context.Context, h *standard.Host, res *standard.Result, again string) error {
	if !res.Parked() {
		if res.Phase == standard.BatchFinalized {
			return nil
		}
		return fmt.Errorf("batch %s is %s and waits on nothing: run its message again to continue it", res.Batch, res.Phase)
	}
	a.explainTickets(ctx, h, res, again)
	return status(exitParked)
}

// interrupted adds to an error of a stopped batch how to go on.
func (a *app) interrupted(ctx context.Context, err error, next string) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("interrupted: what was committed stays; %s", next)
}

const notAccepted = "this message was NOT accepted: send it again"

// howToContinue names the step: a message without one is the run's next step once
// this one is published, and would be run once more.
func (a *app) howToContinue(ctx context.Context, h *standard.Host, s *submission, run standard.RunID, step int) string {
	switch {
	case !accepted(ctx, h, run, step):
		return notAccepted
	case s.again == "":
		return fmt.Sprintf("see it with: %s", a.command("runs show", string(run)))
	case s.again == "-":
		return fmt.Sprintf("continue with the same message on standard input of: %s", a.command("run", "--run", string(run), "--step", strconv.Itoa(step), "-"))
	}
	return fmt.Sprintf("continue with: %s", a.command("run", "--run", string(run), "--step", strconv.Itoa(step), s.again))
}

// accepted reports whether the step is in the ledger, also when ctx has ended.
func accepted(ctx context.Context, h *standard.Host, run standard.RunID, step int) bool {
	if run == "" || step == 0 {
		return false
	}
	view, err := h.Show(context.WithoutCancel(ctx), run)
	return err == nil && step <= len(view.Batches)
}

// close releases a host. What is published is published, so that a failure is
// told and does not change the exit status.
func (a *app) close(h *standard.Host) {
	if err := h.Close(); err != nil {
		a.say("closing: %v", err)
	}
}

// command is a command line to paste, with the flags that name the host file.
func (a *app) command(name string, args ...string) string {
	words := []string{"awaken-host", name, "-c", standard.ShellWord(a.config)}
	if a.dataDir != "" {
		words = append(words, "--data-dir", standard.ShellWord(a.dataDir))
	}
	for _, arg := range args {
		words = append(words, standard.ShellWord(arg))
	}
	return strings.Join(words, " ")
}
