package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/awaken-agents/awaken-host/batch"
)

// Memory is a batch.Store that lives as long as the process. It copies
// everything on its way in and out.
type Memory struct {
	data   *memoryData
	closed bool // guarded by data.mu
}

var _ batch.Store = (*Memory)(nil)

type memoryData struct {
	mu      sync.Mutex
	runs    map[batch.RunID]*memoryRun
	tickets map[batch.TicketID]*batch.Ticket
}

type memoryRun struct {
	head      *batch.Run
	batches   map[int]*batch.Batch
	decisions []*batch.DecisionRecord
	events    []batch.Event
	state     map[string]json.RawMessage
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{data: &memoryData{
		runs:    map[batch.RunID]*memoryRun{},
		tickets: map[batch.TicketID]*batch.Ticket{},
	}}
}

// Reopen closes m and returns a new store over the same records, as after a
// restart of the process.
func (m *Memory) Reopen() *Memory {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	m.closed = true
	return &Memory{data: m.data}
}

// enter locks the data for one call; the caller runs the returned function.
func (m *Memory) enter(ctx context.Context, subject string) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	m.data.mu.Lock()
	if m.closed {
		m.data.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", subject, batch.ErrClosed)
	}
	return m.data.mu.Unlock, nil
}

// Commit implements batch.Store.
func (m *Memory) Commit(ctx context.Context, c *batch.Commit) error {
	if c.Run == nil {
		return fmt.Errorf("commit without a run: %w", batch.ErrInvalid)
	}
	if err := c.Run.ID.Validate(); err != nil {
		return err
	}
	leave, err := m.enter(ctx, "run "+string(c.Run.ID))
	if err != nil {
		return err
	}
	defer leave()
	next, err := m.data.prepare(c)
	if err != nil {
		return fmt.Errorf("run %s: %w", c.Run.ID, err)
	}
	m.data.runs[c.Run.ID] = next
	for _, t := range c.Tickets {
		m.data.tickets[t.ID] = clone(t)
	}
	return nil
}

// prepare returns the run as it stands after c and changes nothing.
func (d *memoryData) prepare(c *batch.Commit) (*memoryRun, error) {
	old, exists := d.runs[c.Run.ID]
	switch {
	case c.Expect == 0 && exists:
		return nil, fmt.Errorf("it exists already, at version %d: %w", old.head.Version, batch.ErrConflict)
	case c.Expect != 0 && !exists:
		return nil, fmt.Errorf("expected version %d, it does not exist: %w", c.Expect, batch.ErrConflict)
	case !exists:
		old = &memoryRun{head: &batch.Run{}}
	case old.head.Fence != c.Run.Fence:
		return nil, fmt.Errorf("fence is %v, the committer has %v: %w", old.head.Fence, c.Run.Fence, batch.ErrFenced)
	case old.head.Version != c.Expect:
		return nil, fmt.Errorf("version is %d, expected %d: %w", old.head.Version, c.Expect, batch.ErrConflict)
	}
	next := &memoryRun{
		head:      clone(c.Run),
		batches:   maps.Clone(old.batches),
		decisions: slices.Clone(old.decisions),
		events:    slices.Clone(old.events),
		state:     maps.Clone(old.state),
	}
	next.head.Version = c.Expect + 1
	if err := next.putBatch(c); err != nil {
		return nil, err
	}
	if err := next.append(c, old.head.LastSeq); err != nil {
		return nil, err
	}
	for _, t := range c.Tickets {
		if err := t.ID.Validate(); err != nil {
			return nil, err
		}
		if t.Run != c.Run.ID {
			return nil, fmt.Errorf("ticket %s belongs to run %s: %w", t.ID, t.Run, batch.ErrInvalid)
		}
		if was, ok := d.tickets[t.ID]; ok && was.Run != t.Run {
			return nil, fmt.Errorf("ticket %s exists already, for run %s: %w", t.ID, was.Run, batch.ErrConflict)
		}
	}
	return next, nil
}

func (r *memoryRun) putBatch(c *batch.Commit) error {
	if c.Batch == nil {
		if c.NewBatch || len(c.Changed) > 0 {
			return fmt.Errorf("calls changed without a batch: %w", batch.ErrInvalid)
		}
		return nil
	}
	if c.Batch.Run != c.Run.ID {
		return fmt.Errorf("batch %s belongs to another run: %w", c.Batch.ID(), batch.ErrInvalid)
	}
	if r.batches == nil {
		r.batches = map[int]*batch.Batch{}
	}
	stored, exists := r.batches[c.Batch.Step]
	if c.NewBatch {
		if exists {
			return fmt.Errorf("batch %s exists already: %w", c.Batch.ID(), batch.ErrConflict)
		}
		b := clone(c.Batch)
		for i := range b.Calls {
			call := &b.Calls[i].Call
			call.Attempt, call.ToolDigest, call.Grant, call.State = 0, "", nil, nil
		}
		r.batches[b.Step] = b
		return b.Validate()
	}
	if !exists {
		return fmt.Errorf("batch %s: %w", c.Batch.ID(), batch.ErrNotFound)
	}
	if len(stored.Calls) != len(c.Batch.Calls) {
		return fmt.Errorf("batch %s has %d calls, not %d: %w", c.Batch.ID(), len(stored.Calls), len(c.Batch.Calls), batch.ErrInvalid)
	}
	b := clone(stored)
	b.Phase, b.FinalizedAt = c.Batch.Phase, c.Batch.FinalizedAt
	for _, i := range c.Changed {
		if i < 0 || i >= len(b.Calls) {
			return fmt.Errorf("batch %s has no call %d: %w", b.ID(), i, batch.ErrInvalid)
		}
		call, pin := b.Calls[i].Call, b.Calls[i].Pin
		b.Calls[i] = clone(c.Batch.Calls[i])
		b.Calls[i].Call, b.Calls[i].Pin = call, pin
	}
	r.batches[b.Step] = b
	return b.Validate()
}

func (r *memoryRun) append(c *batch.Commit, lastSeq uint64) error {
	for i, e := range c.Events {
		if want := lastSeq + 1 + uint64(i); e.Seq != want {
			return fmt.Errorf("event %d follows %d: %w", e.Seq, want-1, batch.ErrInvalid)
		}
		r.events = append(r.events, clone(e))
	}
	if want := lastSeq + uint64(len(c.Events)); c.Run.LastSeq != want {
		return fmt.Errorf("last_seq is %d, the last event is %d: %w", c.Run.LastSeq, want, batch.ErrInvalid)
	}
	for _, rec := range c.Decisions {
		run, _, _, err := splitOperation(rec.Operation)
		if err != nil || run != c.Run.ID || rec.Seq < 1 {
			return fmt.Errorf("decision %d on operation %q is not one of this run: %w", rec.Seq, rec.Operation, batch.ErrInvalid)
		}
		for _, was := range r.decisions {
			if was.Operation == rec.Operation && was.Seq == rec.Seq {
				return fmt.Errorf("decision %d on operation %s exists already: %w", rec.Seq, rec.Operation, batch.ErrConflict)
			}
		}
		r.decisions = append(r.decisions, clone(rec))
	}
	for _, w := range c.State {
		if w.Key == "" {
			return fmt.Errorf("state write without a key: %w", batch.ErrInvalid)
		}
		if r.state == nil {
			r.state = map[string]json.RawMessage{}
		}
		if w.Value == nil {
			delete(r.state, w.Key)
			continue
		}
		r.state[w.Key] = slices.Clone(w.Value)
	}
	return nil
}

func splitOperation(op batch.OperationID) (run batch.RunID, step, index int, err error) {
	i := len(op)
	for i > 0 && op[i-1] != '/' {
		i--
	}
	if i == 0 {
		return "", 0, 0, batch.ErrBadID
	}
	if run, step, err = batch.ParseBatchID(batch.BatchID(op[:i-1])); err != nil {
		return "", 0, 0, err
	}
	if _, err := fmt.Sscanf(string(op[i:]), "%d", &index); err != nil || batch.NewOperationID(run, step, index) != op {
		return "", 0, 0, batch.ErrBadID
	}
	return run, step, index, nil
}

// Claim implements batch.Store.
func (m *Memory) Claim(ctx context.Context, run batch.RunID, owner string, epoch uint64) (*batch.Run, error) {
	leave, err := m.enter(ctx, "run "+string(run))
	if err != nil {
		return nil, err
	}
	defer leave()
	r, ok := m.data.runs[run]
	if !ok {
		return nil, fmt.Errorf("run %s: %w", run, batch.ErrNotFound)
	}
	want := batch.Fence{Owner: owner, Epoch: epoch}
	switch {
	case r.head.Fence == want:
	case epoch > r.head.Fence.Epoch:
		r.head.Fence = want
		r.head.Version++
	default:
		return nil, fmt.Errorf("run %s: fence is %v, %v may not claim it: %w", run, r.head.Fence, want, batch.ErrFenced)
	}
	return clone(r.head), nil
}

// Run implements batch.Store.
func (m *Memory) Run(ctx context.Context, run batch.RunID) (*batch.Run, error) {
	leave, err := m.enter(ctx, "run "+string(run))
	if err != nil {
		return nil, err
	}
	defer leave()
	r, ok := m.data.runs[run]
	if !ok {
		return nil, fmt.Errorf("run %s: %w", run, batch.ErrNotFound)
	}
	return clone(r.head), nil
}

// Runs implements batch.Store.
func (m *Memory) Runs(ctx context.Context, after batch.RunID, limit int) ([]*batch.Run, error) {
	leave, err := m.enter(ctx, "runs")
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []*batch.Run
	for _, id := range slices.Sorted(maps.Keys(m.data.runs)) {
		if id > after && (limit <= 0 || len(out) < limit) {
			out = append(out, clone(m.data.runs[id].head))
		}
	}
	return out, nil
}

// Open implements batch.Store.
func (m *Memory) Open(ctx context.Context) ([]batch.BatchID, error) {
	leave, err := m.enter(ctx, "open batches")
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []batch.BatchID
	for _, id := range slices.Sorted(maps.Keys(m.data.runs)) {
		r := m.data.runs[id]
		for _, step := range slices.Sorted(maps.Keys(r.batches)) {
			if r.batches[step].Phase != batch.BatchFinalized {
				out = append(out, batch.NewBatchID(id, step))
			}
		}
	}
	return out, nil
}

// Batch implements batch.Store.
func (m *Memory) Batch(ctx context.Context, run batch.RunID, step int) (*batch.Batch, error) {
	id := batch.NewBatchID(run, step)
	leave, err := m.enter(ctx, "batch "+string(id))
	if err != nil {
		return nil, err
	}
	defer leave()
	r, ok := m.data.runs[run]
	if !ok || r.batches[step] == nil {
		return nil, fmt.Errorf("batch %s: %w", id, batch.ErrNotFound)
	}
	b := clone(r.batches[step])
	if err := b.Validate(); err != nil {
		return nil, errors.Join(batch.ErrCorrupt, err)
	}
	return b, nil
}

// Ticket implements batch.Store.
func (m *Memory) Ticket(ctx context.Context, id batch.TicketID) (*batch.Ticket, error) {
	leave, err := m.enter(ctx, "ticket "+string(id))
	if err != nil {
		return nil, err
	}
	defer leave()
	t, ok := m.data.tickets[id]
	if !ok {
		return nil, fmt.Errorf("ticket %s: %w", id, batch.ErrNotFound)
	}
	return clone(t), nil
}

// Tickets implements batch.Store.
func (m *Memory) Tickets(ctx context.Context, f batch.TicketFilter) ([]*batch.Ticket, error) {
	leave, err := m.enter(ctx, "tickets")
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []*batch.Ticket
	for _, t := range m.data.tickets {
		if (f.Run == "" || f.Run == t.Run) && (!f.Open || t.Status == batch.TicketOpen) {
			out = append(out, clone(t))
		}
	}
	slices.SortFunc(out, func(a, b *batch.Ticket) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Decisions implements batch.Store.
func (m *Memory) Decisions(ctx context.Context, run batch.RunID) ([]*batch.DecisionRecord, error) {
	leave, err := m.enter(ctx, "run "+string(run))
	if err != nil {
		return nil, err
	}
	defer leave()
	r, ok := m.data.runs[run]
	if !ok {
		return nil, nil
	}
	out := clone(r.decisions)
	slices.SortFunc(out, func(a, b *batch.DecisionRecord) int {
		_, sa, ia, _ := splitOperation(a.Operation)
		_, sb, ib, _ := splitOperation(b.Operation)
		return cmp.Or(cmp.Compare(sa, sb), cmp.Compare(ia, ib), cmp.Compare(a.Seq, b.Seq))
	})
	return out, nil
}

// Events implements batch.Store.
func (m *Memory) Events(ctx context.Context, run batch.RunID, after uint64, limit int) ([]batch.Event, error) {
	leave, err := m.enter(ctx, "run "+string(run))
	if err != nil {
		return nil, err
	}
	defer leave()
	r, ok := m.data.runs[run]
	if !ok || after >= uint64(len(r.events)) {
		return nil, nil
	}
	out := clone(r.events[after:])
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out, nil
}

// State implements batch.Store.
func (m *Memory) State(ctx context.Context, run batch.RunID) (map[string]json.RawMessage, error) {
	leave, err := m.enter(ctx, "run "+string(run))
	if err != nil {
		return nil, err
	}
	defer leave()
	out := map[string]json.RawMessage{}
	if r, ok := m.data.runs[run]; ok {
		maps.Copy(out, clone(r.state))
	}
	return out, nil
}

// Delete implements batch.Store.
func (m *Memory) Delete(ctx context.Context, run batch.RunID, expect uint64) error {
	leave, err := m.enter(ctx, "run "+string(run))
	if err != nil {
		return err
	}
	defer leave()
	r, ok := m.data.runs[run]
	switch {
	case !ok:
		return fmt.Errorf("run %s: %w", run, batch.ErrNotFound)
	case r.head.Version != expect:
		return fmt.Errorf("run %s: it is at version %d, expected %d: %w", run, r.head.Version, expect, batch.ErrConflict)
	case r.head.OpenStep != 0:
		return fmt.Errorf("run %s: step %d is open: %w", run, r.head.OpenStep, batch.ErrInvalid)
	}
	delete(m.data.runs, run)
	maps.DeleteFunc(m.data.tickets, func(_ batch.TicketID, t *batch.Ticket) bool { return t.Run == run })
	return nil
}

// Close implements batch.Store.
func (m *Memory) Close() error {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	m.closed = true
	return nil
}
