package batch

import (
	"errors"
	"fmt"
	"time"
)

// Phase is where a call stands. Persisted: names are never reused.
type Phase string

// The call phases: requested → executing → completed | indeterminate, and
// requested → awaiting → executing | completed.
const (
	PhaseUnknown       Phase = ""
	PhaseRequested     Phase = "requested"
	PhaseAwaiting      Phase = "awaiting"
	PhaseExecuting     Phase = "executing"
	PhaseCompleted     Phase = "completed"
	PhaseIndeterminate Phase = "indeterminate"
)

// Terminal reports whether the phase is final.
func (p Phase) Terminal() bool { return p == PhaseCompleted || p == PhaseIndeterminate }

// BatchPhase is where a batch stands.
type BatchPhase string

// The batch phases.
const (
	BatchUnknown   BatchPhase = ""
	BatchOpen      BatchPhase = "open"
	BatchFinalized BatchPhase = "finalized"
)

// Answer says who produced the terminal output of a call.
type Answer string

// The answers. Only AnswerTool means that the tool ran.
const (
	AnswerUnknown   Answer = ""
	AnswerTool      Answer = "tool"      // the executor returned it
	AnswerPolicy    Answer = "policy"    // set_result
	AnswerBlocked   Answer = "blocked"   // block
	AnswerDenied    Answer = "denied"    // a person denied the ticket
	AnswerExpired   Answer = "expired"   // the ticket's deadline passed
	AnswerInvalid   Answer = "invalid"   // unknown tool, invalid arguments
	AnswerPlacement Answer = "placement" // no place that may run it
	AnswerChanged   Answer = "changed"   // the tool's digest changed meanwhile
	AnswerFailed    Answer = "failed"    // unavailable before dispatch, attempts exhausted
	AnswerExternal  Answer = "external"  // a client supplied the result
	AnswerCancelled Answer = "cancelled" // the run was cancelled before the call ran
)

// Pin is what is fixed for a call when its batch is requested.
type Pin struct {
	ToolDigest     string             `json:"tool_digest,omitempty"` // empty: the tool was unknown
	Plugin         string             `json:"plugin,omitempty"`      // owner of the tool's state keys
	Target         Target             `json:"target,omitempty"`
	Capability     RecoveryCapability `json:"capability,omitempty"`
	Policy         RecoveryPolicy     `json:"policy,omitempty"`
	MaxAttempts    int                `json:"max_attempts,omitempty"`
	PolicyRevision string             `json:"policy_revision,omitempty"`
	Client         bool               `json:"client,omitempty"`   // executed by the client, not by an Executor
	Delegate       bool               `json:"delegate,omitempty"` // starts a child run; see Delegator
}

// CallState is a call with its pin, which never change, and the phase it has
// reached. Only the Batch's transitions change it.
type CallState struct {
	Call Call
	Pin  Pin

	Phase     Phase
	Attempt   int      // attempts committed, 0: none
	Ticket    TicketID // the ticket it awaits, or last awaited
	Grant     *Grant   // narrowing of the decision that let it execute
	Answer    Answer
	Output    *Output // set when terminal
	Reason    string  // for a person; indeterminate: why, executing: see Withdrawn
	StartedAt time.Time
	EndedAt   time.Time
}

// Batch is one assistant message's tool calls and how far they have come. It is
// a value with rules: methods that move it either apply a legal transition or
// return an error that wraps ErrTransition and leave it unchanged. It holds no
// clock and does no I/O, and is not safe for concurrent use.
type Batch struct {
	Run                RunID
	Step               int
	Phase              BatchPhase
	Digest             string // of the submitted content, for idempotent submission
	Dialect            string // form of Message
	Message            []byte // the assistant message as received
	CatalogFingerprint string
	RequestedAt        time.Time
	FinalizedAt        time.Time
	Calls              []CallState
}

// Errors of a batch, to be compared with errors.Is.
var (
	ErrTransition = errors.New("illegal transition")
	ErrInvalid    = errors.New("invalid batch")
)

// MaxCalls bounds the calls of one batch.
const MaxCalls = 1024

// ID returns "<run>/<step>".
func (b *Batch) ID() BatchID { return NewBatchID(b.Run, b.Step) }

// Validate reports what makes the batch illegal, as submitted or as loaded; the
// error wraps ErrInvalid.
func (b *Batch) Validate() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("batch %s: %s: %w", b.ID(), fmt.Sprintf(format, a...), ErrInvalid)
	}
	if err := b.Run.Validate(); err != nil {
		return fail("%v", err)
	}
	if b.Step < 1 {
		return fail("step is %d, the first is 1", b.Step)
	}
	if b.Phase != BatchOpen && b.Phase != BatchFinalized {
		return fail("unknown phase %q", string(b.Phase))
	}
	if len(b.Calls) == 0 {
		return fail("it has no calls")
	}
	if len(b.Calls) > MaxCalls {
		return fail("it has %d calls, at most %d are allowed", len(b.Calls), MaxCalls)
	}
	seen := make(map[CallID]int, len(b.Calls))
	awaiting := -1
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.Call.Run != b.Run || c.Call.Step != b.Step || c.Call.Index != i {
			return fail("call %d says it is %s", i, c.Call.Operation())
		}
		if err := c.Call.ID.Validate(); err != nil {
			return fail("call %d: %v", i, err)
		}
		if j, dup := seen[c.Call.ID]; dup {
			return fail("calls %d and %d have the same id %q", j, i, string(c.Call.ID))
		}
		seen[c.Call.ID] = i
		if err := c.validate(); err != nil {
			return fail("call %q: %v", string(c.Call.ID), err)
		}
		if c.Phase == PhaseAwaiting {
			if awaiting >= 0 {
				return fail("calls %d and %d are both awaiting, one may be", awaiting, i)
			}
			awaiting = i
		}
		if b.Phase == BatchFinalized && !c.Phase.Terminal() {
			return fail("it is finalized but call %q is %s", string(c.Call.ID), c.Phase)
		}
	}
	return nil
}

func (c *CallState) validate() error {
	if c.Attempt < 0 || c.Attempt > c.Pin.MaxAttempts {
		return fmt.Errorf("attempt %d is outside the budget of %d", c.Attempt, c.Pin.MaxAttempts)
	}
	if c.Pin.ToolDigest != "" && c.Pin.MaxAttempts < 1 {
		return fmt.Errorf("max_attempts is %d, at least 1 is needed", c.Pin.MaxAttempts)
	}
	switch c.Phase {
	case PhaseRequested:
		if c.Attempt != 0 {
			return fmt.Errorf("requested with attempt %d", c.Attempt)
		}
	case PhaseAwaiting:
		if c.Ticket == "" {
			return errors.New("awaiting without a ticket")
		}
	case PhaseExecuting:
		if c.Attempt < 1 {
			return errors.New("executing with attempt 0")
		}
	case PhaseCompleted:
		if c.Answer == AnswerUnknown {
			return errors.New("completed without an answer")
		}
		if c.Answer == AnswerTool && c.Attempt < 1 {
			return errors.New("completed by the tool with attempt 0")
		}
	case PhaseIndeterminate:
		if c.Reason == "" {
			return errors.New("indeterminate without a reason")
		}
	default:
		return fmt.Errorf("unknown phase %q", string(c.Phase))
	}
	if !c.Phase.Terminal() {
		if c.Output != nil {
			return fmt.Errorf("output or state in phase %s", c.Phase)
		}
		return nil
	}
	return c.checkOutput(c.Output)
}

func (c *CallState) checkOutput(out *Output) error {
	if out == nil {
		return errors.New("terminal without an output")
	}
	if out.CallID != c.Call.ID {
		return fmt.Errorf("output names call %q", string(out.CallID))
	}
	if out.IsError && len(out.State) > 0 {
		return errors.New("an error output carries state")
	}
	for i, blk := range out.Content {
		if err := blk.Validate(); err != nil {
			return fmt.Errorf("content block %d: %w", i, err)
		}
	}
	return nil
}

// Next returns the index of the first call that is not terminal, -1 when all are.
func (b *Batch) Next() int {
	for i := range b.Calls {
		if !b.Calls[i].Phase.Terminal() {
			return i
		}
	}
	return -1
}

// Awaiting returns the index of the awaiting call, -1 when none is.
func (b *Batch) Awaiting() int {
	for i := range b.Calls {
		if b.Calls[i].Phase == PhaseAwaiting {
			return i
		}
	}
	return -1
}

// step checks that call i exists, is the next in model order, and may leave its
// phase for to.
func (b *Batch) step(i int, to Phase, from ...Phase) (*CallState, error) {
	if b.Phase != BatchOpen {
		return nil, fmt.Errorf("batch %s is %s: %w", b.ID(), b.Phase, ErrTransition)
	}
	if i < 0 || i >= len(b.Calls) {
		return nil, fmt.Errorf("batch %s has no call %d: %w", b.ID(), i, ErrTransition)
	}
	c := &b.Calls[i]
	ok := false
	for _, p := range from {
		ok = ok || c.Phase == p
	}
	if !ok {
		return nil, fmt.Errorf("operation %s: %s → %s: %w", c.Call.Operation(), c.Phase, to, ErrTransition)
	}
	if n := b.Next(); n != i && !b.Delegations() {
		return nil, fmt.Errorf("operation %s: %s → %s before call %d is terminal: %w", c.Call.Operation(), c.Phase, to, n, ErrTransition)
	}
	return c, nil
}

// Delegations reports whether the batch has nothing but delegation calls: the one
// kind that model order does not bind.
func (b *Batch) Delegations() bool {
	for i := range b.Calls {
		if !b.Calls[i].Pin.Delegate {
			return false
		}
	}
	return true
}

// Start moves call i to executing with its next attempt. From executing it is
// another attempt, or the same one where that was withdrawn; whether another is
// allowed is for MayReplay and the caller.
func (b *Batch) Start(i int, grant *Grant, at time.Time) error {
	c, err := b.step(i, PhaseExecuting, PhaseRequested, PhaseAwaiting, PhaseExecuting)
	if err != nil {
		return err
	}
	if c.Withdrawn() {
		c.Reason, c.StartedAt = "", at
		return nil
	}
	if c.Attempt+1 > c.Pin.MaxAttempts {
		return fmt.Errorf("operation %s: attempt %d is above the budget of %d: %w", c.Call.Operation(), c.Attempt+1, c.Pin.MaxAttempts, ErrTransition)
	}
	if c.Attempt == 0 {
		c.Grant = grant
	}
	c.Phase, c.Attempt, c.StartedAt = PhaseExecuting, c.Attempt+1, at
	return nil
}

// Withdraw takes back the attempt of an executing call that was proven not to have
// been dispatched, because its host was stopped before; reason says so to a person.
// The attempt is not used up. Where an attempt before it may have been dispatched the
// call is left as that one left it, otherwise it is Withdrawn.
func (b *Batch) Withdraw(i int, reason string) error {
	c, err := b.step(i, PhaseExecuting, PhaseExecuting)
	if err != nil {
		return err
	}
	if reason == "" || c.Withdrawn() {
		return fmt.Errorf("operation %s: withdrawing an attempt needs a reason, once: %w", c.Call.Operation(), ErrTransition)
	}
	// After a dispatched attempt there is another only under a policy that replays.
	if c.Attempt > 1 && c.Pin.Policy.Replays() {
		c.Attempt--
		return nil
	}
	c.Reason = reason
	return nil
}

// Withdrawn reports that the call is executing and nothing of it was ever dispatched:
// it was about to be when its host was stopped. Starting it again is no replay.
func (c *CallState) Withdrawn() bool { return c.Phase == PhaseExecuting && c.Reason != "" }

// Await parks call i on a ticket; from awaiting it replaces a ticket that was
// closed.
func (b *Batch) Await(i int, ticket TicketID) error {
	c, err := b.step(i, PhaseAwaiting, PhaseRequested, PhaseAwaiting)
	if err != nil {
		return err
	}
	if ticket == "" || ticket == c.Ticket {
		return fmt.Errorf("operation %s: awaiting needs a new ticket: %w", c.Call.Operation(), ErrTransition)
	}
	c.Phase, c.Ticket = PhaseAwaiting, ticket
	return nil
}

// Complete makes call i terminal with out. AnswerTool and AnswerFailed come from
// executing; every other answer from requested or awaiting, or also from
// executing where nothing crossed the boundary (placement, invalid, blocked; changed
// and cancelled where the attempt was withdrawn).
func (b *Batch) Complete(i int, out *Output, by Answer, at time.Time) error {
	from := []Phase{PhaseRequested, PhaseAwaiting}
	switch by {
	case AnswerTool, AnswerFailed:
		from = []Phase{PhaseExecuting}
	case AnswerPlacement, AnswerInvalid, AnswerBlocked:
		from = append(from, PhaseExecuting)
	case AnswerDenied, AnswerExpired, AnswerExternal:
		from = []Phase{PhaseAwaiting}
	case AnswerChanged, AnswerCancelled:
		if i >= 0 && i < len(b.Calls) && b.Calls[i].Withdrawn() {
			from = append(from, PhaseExecuting)
		}
	case AnswerPolicy:
	default:
		return fmt.Errorf("unknown answer %q: %w", string(by), ErrTransition)
	}
	c, err := b.step(i, PhaseCompleted, from...)
	if err != nil {
		return err
	}
	if err := c.checkOutput(out); err != nil {
		return fmt.Errorf("operation %s: %v: %w", c.Call.Operation(), err, ErrTransition)
	}
	c.Phase, c.Output, c.Answer, c.Reason, c.EndedAt = PhaseCompleted, out, by, "", at
	return nil
}

// GiveUp makes an executing call indeterminate: it was dispatched, its outcome is
// not known, and it may not be replayed. Reason is for a person and for the model.
func (b *Batch) GiveUp(i int, reason string, at time.Time) error {
	c, err := b.step(i, PhaseIndeterminate, PhaseExecuting)
	if err != nil {
		return err
	}
	if reason == "" {
		return fmt.Errorf("operation %s: indeterminate needs a reason: %w", c.Call.Operation(), ErrTransition)
	}
	c.Phase, c.Reason, c.EndedAt = PhaseIndeterminate, reason, at
	c.Output = ErrorOutput(c.Call.ID, "outcome unknown: "+reason)
	return nil
}

// Finalize closes the batch; every call must be terminal.
func (b *Batch) Finalize(at time.Time) error {
	if b.Phase != BatchOpen {
		return fmt.Errorf("batch %s is %s already: %w", b.ID(), b.Phase, ErrTransition)
	}
	if n := b.Next(); n >= 0 {
		return fmt.Errorf("batch %s: call %d is %s: %w", b.ID(), n, b.Calls[n].Phase, ErrTransition)
	}
	b.Phase, b.FinalizedAt = BatchFinalized, at
	return nil
}

// MayReplay reports whether a dispatched call with unknown outcome may be invoked
// again: nil, or why not.
func (c *CallState) MayReplay() error {
	switch {
	case !c.Pin.Policy.Replays():
		return fmt.Errorf("the pinned recovery policy is %s (the tool's capability is %s)", c.Pin.Policy, c.Pin.Capability)
	case c.Pin.Policy.AllowedBy(c.Pin.Capability) != nil:
		return fmt.Errorf("the pinned recovery policy %s is wider than the capability %s", c.Pin.Policy, c.Pin.Capability)
	case c.Attempt >= c.Pin.MaxAttempts:
		return fmt.Errorf("all %d attempts are used", c.Pin.MaxAttempts)
	}
	return nil
}

// Disposition is how protocol consumers see a call: a projection of its committed
// phase that never selects placement.
type Disposition string

// The dispositions; DispositionNone is a call that is requested or executing.
const (
	DispositionNone           Disposition = ""
	DispositionExecuted       Disposition = "executed"
	DispositionPendingClient  Disposition = "pending_client"
	DispositionPendingBuiltin Disposition = "pending_builtin"
)

// Disposition derives the projection; kind is the kind of the ticket an awaiting
// call waits on and is ignored otherwise.
func (c *CallState) Disposition(kind TicketKind) Disposition {
	switch {
	case c.Phase.Terminal():
		return DispositionExecuted
	case c.Phase == PhaseAwaiting && kind == TicketExternalResult:
		return DispositionPendingClient
	case c.Phase == PhaseAwaiting:
		return DispositionPendingBuiltin
	}
	return DispositionNone
}
