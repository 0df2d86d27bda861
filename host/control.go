package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Cancel ends a run for good; see batch.Engine.Cancel. The result is that of the
// batch it sealed, nil when no step was open.
func (h *Host) Cancel(ctx context.Context, run batch.RunID, by, reason string) (*Result, error) {
	b, err := h.engine.Cancel(ctx, run, by, reason)
	return h.settled(ctx, b, err)
}

// Supply records the result of a client-executed call and continues its batch.
func (h *Host) Supply(ctx context.Context, id batch.TicketID, x batch.ExternalResult) (*Result, error) {
	b, err := h.engine.Supply(ctx, id, x)
	return h.settled(ctx, b, err)
}

// settled is what an engine call came to: the result of its batch, which there may
// be beside an error, and none where there is no batch.
func (h *Host) settled(ctx context.Context, b *batch.Batch, err error) (*Result, error) {
	if b == nil {
		return nil, err
	}
	r, rerr := h.result(ctx, b)
	return r, errors.Join(err, rerr)
}

// Amend records what a person found out about an indeterminate call of a run. Call
// is its call id, or its operation id where several steps have that call id.
func (h *Host) Amend(ctx context.Context, run batch.RunID, call string, a batch.Amendment) error {
	step, index, err := h.findIndeterminate(ctx, run, call)
	if err != nil {
		return err
	}
	return h.engine.Amend(ctx, run, step, index, a)
}

// findIndeterminate resolves what a person calls a call.
func (l *Ledger) findIndeterminate(ctx context.Context, run batch.RunID, call string) (step, index int, err error) {
	r, err := l.store.Run(ctx, run)
	if err != nil {
		return 0, 0, err
	}
	if rest, ok := strings.CutPrefix(call, string(run)+"/"); ok {
		s, i, _ := strings.Cut(rest, "/")
		step, serr := strconv.Atoi(s)
		index, ierr := strconv.Atoi(i)
		if errors.Join(serr, ierr) == nil {
			return step, index, nil
		}
	}
	var found []batch.OperationID
	for s := 1; s <= r.LastStep; s++ {
		b, err := l.store.Batch(ctx, run, s)
		if err != nil {
			return 0, 0, err
		}
		for i := range b.Calls {
			if c := &b.Calls[i]; string(c.Call.ID) == call && c.Phase == batch.PhaseIndeterminate {
				found = append(found, c.Call.Operation())
				step, index = s, i
			}
		}
	}
	switch len(found) {
	case 1:
		return step, index, nil
	case 0:
		return 0, 0, fmt.Errorf("run %s has no indeterminate call %q: %w", run, call, batch.ErrNotFound)
	}
	return 0, 0, fmt.Errorf("run %s has %d indeterminate calls %q: name one of %v: %w", run, len(found), call, found, batch.ErrNotFound)
}

// EventView is an event with the names of the call it is about.
type EventView struct {
	batch.Event
	Run         batch.RunID       `json:"run"`
	CallID      batch.CallID      `json:"call_id,omitempty"`
	Tool        batch.ToolID      `json:"tool,omitempty"`
	Disposition batch.Disposition `json:"disposition,omitempty"` // of the call after the event
}

// Events lists the history of a run: at most limit events (0: all) after the
// sequence number after. A reader continues with the last number it has seen.
func (l *Ledger) Events(ctx context.Context, run batch.RunID, after uint64, limit int) ([]EventView, error) {
	if _, err := l.store.Run(ctx, run); err != nil {
		return nil, err
	}
	events, err := l.store.Events(ctx, run, after, limit)
	if err != nil {
		return nil, err
	}
	batches := map[int]*batch.Batch{}
	out := make([]EventView, len(events))
	for i, ev := range events {
		out[i] = EventView{Event: ev, Run: run, Disposition: dispositionAfter(ev)}
		if ev.Index < 0 {
			continue
		}
		b := batches[ev.Step]
		if b == nil {
			if b, err = l.store.Batch(ctx, run, ev.Step); err != nil {
				return nil, err
			}
			batches[ev.Step] = b
		}
		if ev.Index < len(b.Calls) {
			out[i].CallID, out[i].Tool = b.Calls[ev.Index].Call.ID, b.Calls[ev.Index].Call.Tool
		}
	}
	return out, nil
}

func dispositionAfter(ev batch.Event) batch.Disposition {
	switch ev.Kind {
	case batch.EventCallCompleted, batch.EventCallIndeterminate, batch.EventCallAmended:
		return batch.DispositionExecuted
	case batch.EventCallAwaiting:
		if batch.TicketKind(ev.Note) == batch.TicketExternalResult {
			return batch.DispositionPendingClient
		}
		return batch.DispositionPendingBuiltin
	}
	return batch.DispositionNone
}

// RunsPage lists at most limit runs in byte order of id, after the id after.
func (l *Ledger) RunsPage(ctx context.Context, after batch.RunID, limit int) ([]RunSummary, error) {
	runs, err := l.store.Runs(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	waiting, err := l.waiting(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]RunSummary, len(runs))
	for i, r := range runs {
		out[i] = summarize(r, waiting[r.ID])
	}
	return out, nil
}

const (
	pruneEvery = time.Hour
	prunePage  = 256
)

// PruneReport says what Prune removed, or would remove.
type PruneReport struct {
	Runs   []batch.RunID `json:"runs"`
	DryRun bool          `json:"dry_run"`
}

// Prune removes runs that are finished and have not changed for olderThan, with
// everything that belongs to them. A run with an open step stays, and so does the
// child of a run that has one. With dryRun nothing is removed.
func (h *Host) Prune(ctx context.Context, olderThan time.Duration, dryRun bool) (*PruneReport, error) {
	rep := &PruneReport{Runs: []batch.RunID{}, DryRun: dryRun}
	cutoff := now().Add(-olderThan)
	if h.o.Owed != nil {
		if owed := h.o.Owed(); !owed.IsZero() && owed.Before(cutoff) {
			cutoff = owed
			h.o.Logger.Warn("runs are kept that the decision log needs before they can be removed", "since", owed)
		}
	}
	var errs []error
	for after := batch.RunID(""); ; {
		page, err := h.store.Runs(ctx, after, prunePage)
		if err != nil {
			return rep, errors.Join(append(errs, err)...)
		}
		if len(page) == 0 {
			return rep, errors.Join(errs...)
		}
		after = page[len(page)-1].ID
		for _, r := range page {
			if r.OpenStep != 0 || r.UpdatedAt.After(cutoff) {
				continue
			}
			needed, err := h.parentOpen(ctx, r)
			if err != nil || needed {
				errs = append(errs, err)
				continue
			}
			if !dryRun {
				err := h.store.Delete(ctx, r.ID, r.Version)
				if errors.Is(err, batch.ErrConflict) || errors.Is(err, batch.ErrNotFound) {
					continue // it moved, or somebody else removed it
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
			}
			rep.Runs = append(rep.Runs, r.ID)
		}
	}
}

func (h *Host) parentOpen(ctx context.Context, r *batch.Run) (bool, error) {
	if r.Parent == "" {
		return false, nil
	}
	id, _, _ := strings.Cut(string(r.Parent), "/")
	parent, err := h.store.Run(ctx, batch.RunID(id))
	if errors.Is(err, batch.ErrNotFound) {
		return false, nil
	}
	return err == nil && parent.OpenStep != 0, err
}
