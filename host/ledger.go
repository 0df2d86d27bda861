package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Ledger is the read-only view on a store: it lists and shows what is committed
// and never executes or changes anything. Safe for concurrent use.
type Ledger struct {
	store batch.Store
}

// NewLedger returns a view on store, which the caller keeps.
func NewLedger(store batch.Store) *Ledger { return &Ledger{store: store} }

// RunSummary is one line of a list of runs.
type RunSummary struct {
	Run       batch.RunID `json:"run"`
	Status    RunStatus   `json:"status"`
	Steps     int         `json:"steps"` // highest step requested
	Principal string      `json:"principal,omitempty"`
	Agent     string      `json:"agent,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`

	Parent    batch.OperationID   `json:"parent,omitempty"` // the delegation call it is the child of
	Cancelled *batch.Cancellation `json:"cancelled,omitempty"`
}

// RunStatus is where a run stands.
type RunStatus string

// The run statuses.
const (
	RunIdle        RunStatus = "idle"        // every step is published
	RunParked      RunStatus = "parked"      // a call waits on a ticket
	RunCancelled   RunStatus = "cancelled"   // ended for good
	RunInterrupted RunStatus = "interrupted" // a step is open and waits on nothing: in progress, or left by a process that stopped
)

// Runs lists all runs, newest first.
func (l *Ledger) Runs(ctx context.Context) ([]RunSummary, error) {
	out, err := l.RunsPage(ctx, "", 0)
	sortNewest(out)
	return out, err
}

// waiting are the runs that wait on an open ticket: their own, or one of a child's.
func (l *Ledger) waiting(ctx context.Context) (map[batch.RunID]bool, error) {
	open, err := l.store.Tickets(ctx, batch.TicketFilter{Open: true})
	if err != nil {
		return nil, err
	}
	waiting := map[batch.RunID]bool{}
	for _, t := range open {
		for id := t.Run; id != "" && !waiting[id]; {
			waiting[id] = true
			r, err := l.store.Run(ctx, id)
			if err != nil {
				return nil, err
			}
			parent, _, _ := strings.Cut(string(r.Parent), "/")
			id = batch.RunID(parent)
		}
	}
	return waiting, nil
}

func summarize(r *batch.Run, waiting bool) RunSummary {
	s := RunSummary{
		Run: r.ID, Status: RunIdle, Steps: r.LastStep, Principal: r.Principal, Agent: r.Agent,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Parent: r.Parent, Cancelled: r.Cancelled,
	}
	if r.Cancelled != nil {
		s.Status = RunCancelled
	}
	if r.OpenStep != 0 {
		s.Status = RunInterrupted
		if waiting {
			s.Status = RunParked
		}
	}
	return s
}

// RunView is a run with everything that is committed of it.
type RunView struct {
	RunSummary
	Labels  map[string]string          `json:"labels,omitempty"`
	Batches []BatchView                `json:"batches"`
	State   map[string]json.RawMessage `json:"state"` // published, by "<plugin>/<key>"

	// Amendments are what people found out about indeterminate calls, in order.
	Amendments []EventView `json:"amendments,omitempty"`
}

// BatchView is a batch with its calls.
type BatchView struct {
	Batch       batch.BatchID    `json:"batch"`
	Phase       batch.BatchPhase `json:"phase"`
	RequestedAt time.Time        `json:"requested_at"`
	PublishedAt time.Time        `json:"published_at,omitzero"`
	Catalog     string           `json:"catalog"`
	Calls       []CallView       `json:"calls"`
}

// CallView is a call with its decisions and, for the operator, its outcome also
// while the batch is still open.
type CallView struct {
	CallResult
	Operation batch.OperationID       `json:"operation"`
	Arguments string                  `json:"arguments"`
	Answer    batch.Answer            `json:"answer,omitempty"`
	Attempt   int                     `json:"attempt"`
	Recovery  batch.RecoveryPolicy    `json:"recovery,omitempty"`
	Reason    string                  `json:"reason,omitempty"`
	StartedAt time.Time               `json:"started_at,omitzero"`
	EndedAt   time.Time               `json:"ended_at,omitzero"`
	Decisions []*batch.DecisionRecord `json:"decisions"`
	Ticket    *batch.Ticket           `json:"ticket,omitempty"`
	Child     batch.RunID             `json:"child,omitempty"` // the run that a delegation is executing
}

// Took is how long the last attempt ran; zero when none ended.
func (c *CallView) Took() time.Duration {
	if c.StartedAt.IsZero() || c.EndedAt.IsZero() {
		return 0
	}
	return c.EndedAt.Sub(c.StartedAt)
}

// Text is the plain-text view of the outcome, or of why there is none yet.
func (c *CallView) Text() string {
	if c.Phase.Terminal() {
		return (&batch.Output{Content: c.Content}).Text()
	}
	if c.Ticket != nil && c.Phase == batch.PhaseAwaiting {
		return "waits on ticket " + string(c.Ticket.ID)
	}
	return ""
}

// Show returns a run with its batches; the error wraps batch.ErrNotFound when
// there is no such run.
func (l *Ledger) Show(ctx context.Context, id batch.RunID) (*RunView, error) {
	r, err := l.store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	tickets, err := l.store.Tickets(ctx, batch.TicketFilter{Run: id})
	if err != nil {
		return nil, err
	}
	decisions, err := l.store.Decisions(ctx, id)
	if err != nil {
		return nil, err
	}
	v := &RunView{Labels: r.Labels, Batches: []BatchView{}}
	if v.State, err = l.store.State(ctx, id); err != nil {
		return nil, err
	}
	waiting, err := l.waiting(ctx)
	if err != nil {
		return nil, err
	}
	byTicket, byOp := map[batch.TicketID]*batch.Ticket{}, map[batch.OperationID][]*batch.DecisionRecord{}
	for _, t := range tickets {
		byTicket[t.ID] = t
	}
	for _, d := range decisions {
		byOp[d.Operation] = append(byOp[d.Operation], d)
	}
	v.RunSummary = summarize(r, waiting[id])
	for step := 1; step <= r.LastStep; step++ {
		b, err := l.store.Batch(ctx, id, step)
		if err != nil {
			return nil, err
		}
		view := viewBatch(b, byTicket, byOp)
		if step == r.OpenStep {
			if err := l.addChildren(ctx, &view); err != nil {
				return nil, err
			}
		}
		v.Batches = append(v.Batches, view)
	}
	if !v.indeterminate() {
		return v, nil
	}
	events, err := l.Events(ctx, id, 0, 0)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		if ev.Kind == batch.EventCallAmended {
			v.Amendments = append(v.Amendments, ev)
		}
	}
	return v, nil
}

// addChildren names the runs that executing calls wait for.
func (l *Ledger) addChildren(ctx context.Context, v *BatchView) error {
	for i := range v.Calls {
		c := &v.Calls[i]
		if c.Phase != batch.PhaseExecuting {
			continue
		}
		child, err := l.store.Run(ctx, batch.ChildRunID(c.Operation))
		switch {
		case errors.Is(err, batch.ErrNotFound):
		case err != nil:
			return err
		case child.Parent == c.Operation:
			c.Child = child.ID
		}
	}
	return nil
}

func (v *RunView) indeterminate() bool {
	for _, b := range v.Batches {
		for i := range b.Calls {
			if b.Calls[i].Phase == batch.PhaseIndeterminate {
				return true
			}
		}
	}
	return false
}

func viewBatch(b *batch.Batch, tickets map[batch.TicketID]*batch.Ticket, decisions map[batch.OperationID][]*batch.DecisionRecord) BatchView {
	v := BatchView{
		Batch: b.ID(), Phase: b.Phase, RequestedAt: b.RequestedAt, PublishedAt: b.FinalizedAt,
		Catalog: b.CatalogFingerprint, Calls: make([]CallView, len(b.Calls)),
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		cv := CallView{
			CallResult: CallResult{
				CallID: c.Call.ID, Tool: c.Call.Tool, Phase: c.Phase,
				Content: []batch.ContentBlock{}, Executed: executed(c),
			},
			Operation: c.Call.Operation(), Arguments: string(c.Call.Arguments), Answer: c.Answer, Attempt: c.Attempt,
			Recovery: c.Pin.Policy, Reason: c.Reason, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
			Decisions: decisions[c.Call.Operation()], Ticket: tickets[c.Ticket],
		}
		var kind batch.TicketKind
		if cv.Ticket != nil {
			kind = cv.Ticket.Kind
		}
		cv.Disposition = c.Disposition(kind)
		if c.Output != nil {
			cv.IsError = c.Output.IsError
			cv.Content = append(cv.Content, c.Output.Content...)
		}
		if cv.Decisions == nil {
			cv.Decisions = []*batch.DecisionRecord{}
		}
		v.Calls[i] = cv
	}
	return v
}

// Tickets lists tickets by creation time; open only unless all is set.
func (l *Ledger) Tickets(ctx context.Context, all bool) ([]*batch.Ticket, error) {
	return l.store.Tickets(ctx, batch.TicketFilter{Open: !all})
}

// Ticket returns one ticket.
func (l *Ledger) Ticket(ctx context.Context, id batch.TicketID) (*batch.Ticket, error) {
	return l.store.Ticket(ctx, id)
}

// OpenStep returns the open step of a run when its batch has the very calls of m,
// else 0. A caller that starts a host on behalf of a message looks here first:
// Start may publish the step that the message belongs to, and a message without a
// step would then be taken for the run's next one and run once more.
func (l *Ledger) OpenStep(ctx context.Context, run batch.RunID, m *Message) (int, error) {
	r, err := l.store.Run(ctx, run)
	if errors.Is(err, batch.ErrNotFound) || err == nil && r.OpenStep == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	b, err := l.store.Batch(ctx, run, r.OpenStep)
	if err != nil {
		return 0, err
	}
	if (&batch.Request{Calls: m.Calls}).Digest() != b.Digest {
		return 0, nil
	}
	return r.OpenStep, nil
}

// Batch returns what a batch has come to, as the run that submitted it saw it.
func (l *Ledger) Batch(ctx context.Context, run batch.RunID, step int) (*Result, error) {
	b, err := l.store.Batch(ctx, run, step)
	if err != nil {
		return nil, err
	}
	return l.result(ctx, b)
}

func sortNewest(runs []RunSummary) {
	slices.SortStableFunc(runs, func(a, b RunSummary) int { return b.CreatedAt.Compare(a.CreatedAt) })
}
