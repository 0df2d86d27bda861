package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/awaken-agents/awaken-host/batch"
)

// ErrInjected is wrapped by every error that Faulty makes up.
var ErrInjected = errors.New("injected fault")

// Fault is how a call goes wrong.
type Fault int

// The faults. A crash also fails every later call, as if the process had died;
// reopen the store below to go on.
const (
	FaultNone        Fault = iota
	FaultBefore            // the call fails and has no effect
	FaultAfter             // the call takes effect, then reports an error
	FaultCrashBefore       // crash with no effect
	FaultCrashAfter        // crash after the effect
)

// Op describes a call that is about to reach the store.
type Op struct {
	N       int           // ordinal among all calls, from 1
	Commits int           // ordinal among the changing calls (Commit and Claim) when this is one, from 1; else 0
	Method  string        // "Commit", "Claim", "Run", …
	Commit  *batch.Commit // Commit only; may not be retained or changed
}

// Plan chooses the fault of a call. It is never called concurrently.
type Plan func(Op) Fault

// FailCommit faults the n-th changing call (Commit or Claim), counted from 1.
func FailCommit(n int, f Fault) Plan {
	return func(op Op) Fault {
		if op.Commits == n {
			return f
		}
		return FaultNone
	}
}

// FailCall faults the n-th call of any kind, counted from 1.
func FailCall(n int, f Fault) Plan {
	return func(op Op) Fault {
		if op.N == n {
			return f
		}
		return FaultNone
	}
}

// FailWhen faults every commit for which the predicate is true.
func FailWhen(match func(*batch.Commit) bool, f Fault) Plan {
	return func(op Op) Fault {
		if op.Commit != nil && match(op.Commit) {
			return f
		}
		return FaultNone
	}
}

// Faulty is a store that goes wrong by plan. Close is never faulted.
type Faulty struct {
	store batch.Store

	mu      sync.Mutex
	plan    Plan
	calls   int
	commits int
	dead    bool
}

var _ batch.Store = (*Faulty)(nil)

// NewFaulty decorates store; a nil plan faults nothing and still counts.
func NewFaulty(store batch.Store, plan Plan) *Faulty {
	return &Faulty{store: store, plan: plan}
}

// SetPlan replaces the plan and restarts the counts.
func (f *Faulty) SetPlan(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.calls, f.commits = plan, 0, 0
}

// Calls returns how many calls were made since the last plan was set, and how
// many of them were changing ones.
func (f *Faulty) Calls() (all, commits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls, f.commits
}

// Crashed reports whether a crash fault has happened.
func (f *Faulty) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *Faulty) choose(method string, c *batch.Commit) (Fault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return FaultNone, fmt.Errorf("%s after a crash: %w", method, ErrInjected)
	}
	f.calls++
	op := Op{N: f.calls, Method: method, Commit: c}
	if method == "Commit" || method == "Claim" || method == "Delete" {
		f.commits++
		op.Commits = f.commits
	}
	if f.plan == nil {
		return FaultNone, nil
	}
	fault := f.plan(op)
	f.dead = fault == FaultCrashBefore || fault == FaultCrashAfter
	return fault, nil
}

// do runs one call of the store under the plan.
func do[T any](f *Faulty, method string, c *batch.Commit, call func() (T, error)) (T, error) {
	var zero T
	fault, err := f.choose(method, c)
	if err != nil {
		return zero, err
	}
	if fault == FaultBefore || fault == FaultCrashBefore {
		return zero, fmt.Errorf("%s: %w", method, ErrInjected)
	}
	v, err := call()
	if err == nil && (fault == FaultAfter || fault == FaultCrashAfter) {
		return zero, fmt.Errorf("%s, after it took effect: %w", method, ErrInjected)
	}
	return v, err
}

// Commit implements batch.Store.
func (f *Faulty) Commit(ctx context.Context, c *batch.Commit) error {
	_, err := do(f, "Commit", c, func() (struct{}, error) { return struct{}{}, f.store.Commit(ctx, c) })
	return err
}

// Claim implements batch.Store.
func (f *Faulty) Claim(ctx context.Context, run batch.RunID, owner string, epoch uint64) (*batch.Run, error) {
	return do(f, "Claim", nil, func() (*batch.Run, error) { return f.store.Claim(ctx, run, owner, epoch) })
}

// Run implements batch.Store.
func (f *Faulty) Run(ctx context.Context, run batch.RunID) (*batch.Run, error) {
	return do(f, "Run", nil, func() (*batch.Run, error) { return f.store.Run(ctx, run) })
}

// Runs implements batch.Store.
func (f *Faulty) Runs(ctx context.Context, after batch.RunID, limit int) ([]*batch.Run, error) {
	return do(f, "Runs", nil, func() ([]*batch.Run, error) { return f.store.Runs(ctx, after, limit) })
}

// Open implements batch.Store.
func (f *Faulty) Open(ctx context.Context) ([]batch.BatchID, error) {
	return do(f, "Open", nil, func() ([]batch.BatchID, error) { return f.store.Open(ctx) })
}

// Batch implements batch.Store.
func (f *Faulty) Batch(ctx context.Context, run batch.RunID, step int) (*batch.Batch, error) {
	return do(f, "Batch", nil, func() (*batch.Batch, error) { return f.store.Batch(ctx, run, step) })
}

// Ticket implements batch.Store.
func (f *Faulty) Ticket(ctx context.Context, id batch.TicketID) (*batch.Ticket, error) {
	return do(f, "Ticket", nil, func() (*batch.Ticket, error) { return f.store.Ticket(ctx, id) })
}

// Tickets implements batch.Store.
func (f *Faulty) Tickets(ctx context.Context, filter batch.TicketFilter) ([]*batch.Ticket, error) {
	return do(f, "Tickets", nil, func() ([]*batch.Ticket, error) { return f.store.Tickets(ctx, filter) })
}

// Decisions implements batch.Store.
func (f *Faulty) Decisions(ctx context.Context, run batch.RunID) ([]*batch.DecisionRecord, error) {
	return do(f, "Decisions", nil, func() ([]*batch.DecisionRecord, error) { return f.store.Decisions(ctx, run) })
}

// Events implements batch.Store.
func (f *Faulty) Events(ctx context.Context, run batch.RunID, after uint64, limit int) ([]batch.Event, error) {
	return do(f, "Events", nil, func() ([]batch.Event, error) { return f.store.Events(ctx, run, after, limit) })
}

// State implements batch.Store.
func (f *Faulty) State(ctx context.Context, run batch.RunID) (map[string]json.RawMessage, error) {
	return do(f, "State", nil, func() (map[string]json.RawMessage, error) { return f.store.State(ctx, run) })
}

// Delete implements batch.Store.
func (f *Faulty) Delete(ctx context.Context, run batch.RunID, expect uint64) error {
	_, err := do(f, "Delete", nil, func() (struct{}, error) { return struct{}{}, f.store.Delete(ctx, run, expect) })
	return err
}

// Close closes the store below.
func (f *Faulty) Close() error { return f.store.Close() }
