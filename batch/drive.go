package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Reason codes of decisions the Engine makes itself; gates have their own.
const (
	ReasonUnknownTool      = "unknown_tool"
	ReasonInvalidArguments = "invalid_arguments"
	ReasonToolChanged      = "tool_changed"
	ReasonGateFailed       = "gate_failed"
	ReasonOddShape         = "odd_shape"
	ReasonAskedAgain       = "asked_again"
)

// drive takes the calls in model order from the phase each has reached, until the
// batch is finalized or a call is parked. It runs nothing that the committed
// phase does not allow: an executing call found here was left by a process that
// stopped, or by a commit that failed.
func (s *session) drive(ctx context.Context) error {
	for s.b.Phase == BatchOpen {
		if err := ctx.Err(); err != nil {
			return err
		}
		i := s.b.Next()
		if i < 0 { // every outcome committed, publication was not
			if err := s.settle(ctx, &Commit{}); err != nil {
				return err
			}
			continue
		}
		var err error
		parked := false
		switch s.b.Calls[i].Phase {
		case PhaseRequested:
			if parked, err = s.parallel(ctx); !parked && err == nil && s.b.Calls[i].Phase == PhaseRequested {
				err = s.decide(ctx, i, nil, nil)
			}
		case PhaseAwaiting:
			parked, err = s.resume(ctx, i)
		case PhaseExecuting:
			parked, err = s.recoverCall(ctx, i)
		default:
			err = fmt.Errorf("operation %s: phase %q: %w", s.b.Calls[i].Call.Operation(), s.b.Calls[i].Phase, ErrCorrupt)
		}
		if err != nil || parked {
			return err
		}
	}
	return nil
}

// settle commits what the session's batch has reached. When that makes every call
// terminal, the same commit finalizes the batch and publishes results and state.
// An outcome is recorded also when ctx has ended meanwhile: it is known, and
// dropping it would make the call indeterminate.
func (s *session) settle(ctx context.Context, c *Commit) error {
	ctx = context.WithoutCancel(ctx)
	c.Batch = s.b
	if s.b.Next() < 0 {
		st, err := s.state(ctx)
		if err != nil {
			return err
		}
		if err := s.b.Finalize(s.e.now()); err != nil {
			return err
		}
		c.State = st.writes()
		c.Events = append(c.Events, Event{Kind: EventBatchPublished, Step: s.b.Step, Index: -1})
		s.run.OpenStep = 0
	}
	return s.commit(ctx, c)
}

// complete makes call i terminal and commits it.
func (s *session) complete(ctx context.Context, i int, out *Output, by Answer, c *Commit) error {
	if c == nil {
		c = &Commit{}
	}
	cs := &s.b.Calls[i]
	// The outcome is staged from the next read on; what was loaded before has to
	// be told.
	if s.st != nil && len(out.State) > 0 {
		if err := s.st.stage(cs.Pin.Plugin, out.State, nil); err != nil {
			return err
		}
	}
	if err := s.b.Complete(i, out, by, s.e.now()); err != nil {
		return err
	}
	c.Changed = []int{i}
	c.Events = append(c.Events, Event{Kind: EventCallCompleted, Step: s.b.Step, Index: i, Attempt: cs.Attempt, Note: string(by)})
	return s.settle(ctx, c)
}

// decide asks the gate about call i and carries out the answer. Approval and
// ticket are set when a parked call comes back; the ticket, closed, is committed
// together with what the gate now says.
func (s *session) decide(ctx context.Context, i int, approval *Approval, ticket *Ticket) error {
	cs := &s.b.Calls[i]
	c := &Commit{}
	if ticket != nil {
		c.Tickets = []*Ticket{ticket}
		c.Events = append(c.Events, Event{Kind: EventTicketDecided, Step: s.b.Step, Index: i, Ticket: ticket.ID, Note: string(ticket.Status)})
	}
	d, out, by, tool := s.precheck(cs)
	if d == nil {
		d, out, by = s.ask(ctx, cs, tool, approval)
		if err := ctx.Err(); err != nil {
			// The host is stopping: a gate cut short has not decided anything.
			return err
		}
		if out == nil {
			d, out, by = s.requireLogged(ctx, cs, d)
		}
	}
	c.Decisions = []*DecisionRecord{s.record(cs, d, approval)}
	if out != nil {
		return s.complete(ctx, i, out, by, c)
	}
	switch d.Outcome {
	case OutcomeAllow:
		if cs.Pin.Client {
			s.e.recent.forget(s.run.Principal, cs.Call.Operation())
			return s.parkExternal(ctx, i, d, c)
		}
		if s.e.o.Executors[cs.Pin.Target] == nil {
			s.e.recent.forget(s.run.Principal, cs.Call.Operation())
			return s.complete(ctx, i, ErrorOutput(cs.Call.ID, noTargetText(cs)), AnswerPlacement, c)
		}
		return s.execute(ctx, i, tool, d.Grant, c)
	case OutcomeRequireConfirmation, OutcomeSchedule:
		return s.park(ctx, i, d, c)
	}
	return fmt.Errorf("operation %s: outcome %q has no way forward: %w", cs.Call.Operation(), string(d.Outcome), ErrInvalid)
}

// precheck refuses what needs no gate: a tool that is unknown or has changed, and
// arguments that break the schema. It returns the decision with the answer, or a
// nil decision and the tool.
func (s *session) precheck(cs *CallState) (*Decision, *Output, Answer, Tool) {
	refuse := func(by Answer, code, msg string) (*Decision, *Output, Answer, Tool) {
		d := &Decision{Outcome: OutcomeBlock, Reasons: []Reason{{Code: code, Message: msg}}, PolicyRevision: s.e.o.Gate.Revision()}
		return d, ErrorOutput(cs.Call.ID, msg), by, nil
	}
	if cs.Pin.ToolDigest == "" {
		return refuse(AnswerInvalid, ReasonUnknownTool, fmt.Sprintf("there is no tool %q", string(cs.Call.Tool)))
	}
	tool, ok := s.catalog.Lookup(cs.Call.Tool)
	if !ok || tool.Descriptor().Digest != cs.Pin.ToolDigest {
		return refuse(AnswerChanged, ReasonToolChanged, changedText(cs))
	}
	if n := len(cs.Call.Arguments); n > s.e.o.MaxArgumentBytes {
		return refuse(AnswerInvalid, ReasonInvalidArguments, fmt.Sprintf(
			"the arguments are %d bytes, at most %d are allowed", n, s.e.o.MaxArgumentBytes))
	}
	if err := tool.CheckArguments(cs.Call.Arguments); err != nil {
		return refuse(AnswerInvalid, ReasonInvalidArguments, fmt.Sprintf("invalid arguments for %s: %v", cs.Call.Tool, err))
	}
	return nil, nil, AnswerUnknown, tool
}

func changedText(cs *CallState) string {
	return fmt.Sprintf("tool %s was changed or removed after the call was requested; nothing ran, call it again to use what is there now", cs.Call.Tool)
}

func noTargetText(cs *CallState) string {
	return fmt.Sprintf("placement: tool %s must run in target %q, and this host has none configured; nothing ran", cs.Call.Tool, string(cs.Pin.Target))
}

// ask puts the call to the gate. Whatever is not a well-formed decision blocks.
// The output is set when the decision itself answers the call.
func (s *session) ask(ctx context.Context, cs *CallState, tool Tool, approval *Approval) (*Decision, *Output, Answer) {
	call := cs.Call
	call.ToolDigest = cs.Pin.ToolDigest
	began := s.e.now()
	d, err := decideSafely(ctx, s.e.o.Gate, &Query{
		Call: &call, Tool: tool.Descriptor(), Run: s.run, Approval: approval, Now: began,
		Recent: s.recently(cs, began),
	})
	block := func(code, msg string) {
		n := &Decision{Outcome: OutcomeBlock, Reasons: []Reason{{Code: code, Message: msg}}, PolicyRevision: s.e.o.Gate.Revision()}
		if d != nil {
			n.PolicyRevision, n.Elapsed, n.Input = d.PolicyRevision, d.Elapsed, d.Input
		}
		d = n
	}
	switch {
	case err != nil:
		block(ReasonGateFailed, "the policy gate failed: "+err.Error())
	case d == nil:
		block(ReasonGateFailed, "the policy gate gave no decision")
	default:
		if err := d.validate(); err != nil {
			block(ReasonOddShape, err.Error())
		} else if approval != nil && (d.Outcome == OutcomeRequireConfirmation || d.Outcome == OutcomeSchedule) {
			block(ReasonAskedAgain, fmt.Sprintf("policy answered %s for a call that came back from a %s ticket", d.Outcome, approval.Kind))
		}
	}
	if d.Outcome != OutcomeAllow {
		s.e.recent.forget(s.run.Principal, cs.Call.Operation())
	}
	switch d.Outcome {
	case OutcomeBlock:
		return d, ErrorOutput(cs.Call.ID, blockedText(d.Reasons)), AnswerBlocked
	case OutcomeSetResult:
		return d, &Output{CallID: cs.Call.ID, Content: d.Result.Content, IsError: d.Result.IsError}, AnswerPolicy
	}
	return d, nil, AnswerUnknown
}

// decideSafely turns a panic of the gate into an error, so that it blocks.
func decideSafely(ctx context.Context, g Gate, q *Query) (d *Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return g.Decide(ctx, q)
}

func (d *Decision) validate() error {
	switch d.Outcome {
	case OutcomeAllow, OutcomeBlock:
	case OutcomeSetResult:
		if d.Result == nil {
			return errors.New("set_result without a result")
		}
		for i, b := range d.Result.Content {
			if err := b.Validate(); err != nil {
				return fmt.Errorf("set_result: content block %d: %w", i, err)
			}
		}
	case OutcomeRequireConfirmation:
		if d.Confirmation == nil || d.Confirmation.Quorum < 0 || d.Confirmation.Timeout < 0 {
			return errors.New("require_confirmation without a usable confirmation")
		}
		if n := len(d.Confirmation.Approvers); n > 0 && n < d.Confirmation.Quorum {
			return fmt.Errorf("require_confirmation needs %d approvals of %d approvers", d.Confirmation.Quorum, n)
		}
	case OutcomeSchedule:
		if d.At.IsZero() {
			return errors.New("schedule without a time")
		}
	default:
		return fmt.Errorf("unknown outcome %q", string(d.Outcome))
	}
	if d.Grant != nil && (d.Grant.MemoryMiB < 0 || d.Grant.Timeout < 0) {
		return errors.New("grant with a negative limit")
	}
	return nil
}

func blockedText(reasons []Reason) string {
	parts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		if r.Message != "" {
			parts = append(parts, r.Message)
		} else if r.Code != "" {
			parts = append(parts, r.Code)
		}
	}
	if len(parts) == 0 {
		return "blocked by policy"
	}
	return "blocked by policy: " + strings.Join(parts, "; ")
}

func (s *session) record(cs *CallState, d *Decision, approval *Approval) *DecisionRecord {
	seq := 1
	if approval != nil {
		seq = 2
	}
	return &DecisionRecord{
		Operation: cs.Call.Operation(), Seq: seq, Time: s.e.now(),
		Principal: s.run.Principal, Agent: s.run.Agent,
		Tool: cs.Call.Tool, ToolDigest: cs.Pin.ToolDigest, ArgumentDigest: cs.Call.ArgumentDigest(),
		PolicyRevision: d.PolicyRevision, Outcome: d.Outcome, Reasons: d.Reasons, Grant: d.Grant,
		Approval: approval, Elapsed: d.Elapsed, Input: d.Input,
	}
}

// newTicket binds a ticket to call i as it stands.
func (s *session) newTicket(i int, d *Decision) *Ticket {
	cs := &s.b.Calls[i]
	return &Ticket{
		ID: TicketID(randomID("tk-")), Status: TicketOpen,
		Run: s.run.ID, Step: s.b.Step, Index: i, CallID: cs.Call.ID, Tool: cs.Call.Tool,
		ToolDigest: cs.Pin.ToolDigest, ArgumentDigest: cs.Call.ArgumentDigest(), PolicyRevision: d.PolicyRevision,
		CreatedAt: s.e.now(),
	}
}

// parkExternal commits a ticket for an allowed call that the client executes.
func (s *session) parkExternal(ctx context.Context, i int, d *Decision, c *Commit) error {
	t := s.newTicket(i, d)
	t.Kind, t.Deadline = TicketExternalResult, t.CreatedAt.Add(s.e.o.TicketTimeout)
	if err := s.await(ctx, i, t, c); err != nil {
		return err
	}
	_, err := s.withheld(ctx, i)
	return err
}

// park commits a ticket for call i.
func (s *session) park(ctx context.Context, i int, d *Decision, c *Commit) error {
	t := s.newTicket(i, d)
	if d.Outcome == OutcomeSchedule {
		t.Kind, t.DueAt = TicketSchedule, d.At.UTC().Round(0)
	} else {
		timeout := d.Confirmation.Timeout
		setDefault(&timeout, s.e.o.TicketTimeout)
		t.Kind, t.Prompt, t.Deadline = TicketPermission, d.Confirmation.Prompt, t.CreatedAt.Add(timeout)
		t.Approvers, t.Quorum = d.Confirmation.Approvers, max(1, d.Confirmation.Quorum)
	}
	return s.await(ctx, i, t, c)
}

func (s *session) await(ctx context.Context, i int, t *Ticket, c *Commit) error {
	if err := s.b.Await(i, t.ID); err != nil {
		return err
	}
	c.Tickets = append(c.Tickets, t)
	c.Changed = []int{i}
	c.Events = append(c.Events, Event{Kind: EventCallAwaiting, Step: s.b.Step, Index: i, Ticket: t.ID, Note: string(t.Kind)})
	return s.settle(ctx, c)
}

// due reports when the ticket settles by itself; zero: never.
func (t *Ticket) due() time.Time {
	if t.Kind == TicketSchedule {
		return t.DueAt
	}
	return t.Deadline
}
