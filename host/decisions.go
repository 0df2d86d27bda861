package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// DecisionFilter selects decision records. Zero fields do not filter.
type DecisionFilter struct {
	Run     batch.RunID
	Since   time.Time // not before
	Tool    batch.ToolID
	Outcome batch.Outcome
	Code    string // of one of the reasons
	Limit   int    // the newest so many
}

func (f *DecisionFilter) fits(r *batch.DecisionRecord) bool {
	return !r.Time.Before(f.Since) &&
		(f.Tool == "" || r.Tool == f.Tool) &&
		(f.Outcome == "" || r.Outcome == f.Outcome) &&
		(f.Code == "" || slices.ContainsFunc(r.Reasons, func(why batch.Reason) bool { return why.Code == f.Code }))
}

// Decisions lists decision records in the order they were made, and whether the limit
// left older ones out. A run that is named and not there is batch.ErrNotFound.
func (l *Ledger) Decisions(ctx context.Context, f DecisionFilter) (records []*batch.DecisionRecord, more bool, err error) {
	keep := func(all []*batch.DecisionRecord) []*batch.DecisionRecord {
		slices.SortStableFunc(all, func(a, b *batch.DecisionRecord) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Seq, b.Seq))
		})
		if n := len(all) - f.Limit; f.Limit > 0 && n > 0 {
			more = true
			all = slices.Delete(all, 0, n)
		}
		return all
	}
	add := func(r *batch.Run) error {
		if r.UpdatedAt.Before(f.Since) {
			return nil
		}
		of, err := l.store.Decisions(ctx, r.ID)
		if errors.Is(err, batch.ErrNotFound) && f.Run == "" {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		for _, d := range of {
			if f.fits(d) {
				records = append(records, d)
			}
		}
		if f.Limit > 0 && len(records) > 2*f.Limit+1000 {
			records = keep(records)
		}
		return nil
	}
	if f.Run != "" {
		r, err := l.store.Run(ctx, f.Run)
		if err == nil {
			err = add(r)
		}
		records = keep(records)
		return records, more, err
	}
	for after := batch.RunID(""); ; {
		page, err := l.store.Runs(ctx, after, 256)
		if err != nil {
			return nil, false, err
		}
		if len(page) == 0 {
			records = keep(records)
			return records, more, nil
		}
		after = page[len(page)-1].ID
		for _, r := range page {
			if err := add(r); err != nil {
				return nil, false, err
			}
		}
	}
}
