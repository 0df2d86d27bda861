package standard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/policy"
)

// PolicyReplay selects decisions of the ledger. Zero fields do not filter.
type PolicyReplay struct {
	Since time.Time // made then or later
	Tool  ToolID
	Run   RunID
	Limit int // at most so many, those of the runs that changed last
}

// replayed is a decision of the ledger with the question it answered; without q,
// policy was not asked.
type replayed struct {
	record *batch.DecisionRecord
	q      *policy.Question
}

// replayChunk is how many decisions are worked on at a time.
const replayChunk = 256

// runsPage is how many runs are listed at a time.
const runsPage = 500

// each hands on the decisions in chunks: runs that changed last come first, and
// decisions of a run in their order.
func (f *PolicyReplay) each(ctx context.Context, store batch.Store, progress func(done, of int), use func([]replayed) error) error {
	runs, err := f.runs(ctx, store)
	if err != nil {
		return err
	}
	var chunk []replayed
	taken := 0
	for i, id := range runs {
		found, err := f.decisions(ctx, store, id)
		if err != nil {
			return err
		}
		for _, p := range found {
			if f.Limit > 0 && taken == f.Limit {
				break
			}
			taken++
			if chunk = append(chunk, p); len(chunk) == replayChunk {
				if err := use(chunk); err != nil {
					return err
				}
				chunk = chunk[:0]
			}
		}
		if progress != nil {
			progress(i+1, len(runs))
		}
		if f.Limit > 0 && taken == f.Limit {
			break
		}
	}
	return use(chunk)
}

func (f *PolicyReplay) runs(ctx context.Context, store batch.Store) ([]batch.RunID, error) {
	if f.Run != "" {
		r, err := store.Run(ctx, f.Run)
		if err != nil {
			return nil, err
		}
		return []batch.RunID{r.ID}, nil
	}
	type seen struct {
		id      batch.RunID
		changed time.Time
	}
	var all []seen
	for after := batch.RunID(""); ; {
		page, err := store.Runs(ctx, after, runsPage)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if !r.UpdatedAt.Before(f.Since) {
				all = append(all, seen{r.ID, r.UpdatedAt})
			}
		}
		if len(page) < runsPage {
			break
		}
		after = page[len(page)-1].ID
	}
	slices.SortStableFunc(all, func(a, b seen) int { return b.changed.Compare(a.changed) })
	ids := make([]batch.RunID, len(all))
	for i, s := range all {
		ids[i] = s.id
	}
	return ids, nil
}

// decisions are those of a run, with their questions. A run that was removed
// meanwhile has none.
func (f *PolicyReplay) decisions(ctx context.Context, store batch.Store, run batch.RunID) ([]replayed, error) {
	records, err := store.Decisions(ctx, run)
	if err != nil {
		return nil, err
	}
	var (
		out  []replayed
		at   int // step of b
		step *batch.Batch
	)
	for _, d := range records {
		if f.Tool != "" && d.Tool != f.Tool || d.Time.Before(f.Since) {
			continue
		}
		_, n, index, err := batch.ParseOperationID(d.Operation)
		if err != nil {
			return nil, err
		}
		if len(d.Input) == 0 {
			out = append(out, replayed{record: d})
			continue
		}
		if n != at {
			if step, err = store.Batch(ctx, run, n); err != nil {
				return nil, err
			}
			at = n
		}
		if index >= len(step.Calls) {
			return nil, fmt.Errorf("decision on %s: %w: its batch has %d calls", d.Operation, batch.ErrCorrupt, len(step.Calls))
		}
		p := replayed{record: d}
		// Policy was not asked about arguments that it could not be shown.
		p.q, err = policy.RecordedQuestion(d.Input, step.Calls[index].Call.Arguments)
		if err != nil && !errors.Is(err, policy.ErrArguments) {
			return nil, fmt.Errorf("decision %d on %s: %w: %w", d.Seq, d.Operation, batch.ErrCorrupt, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// inParallel does work for each item, as many at a time as there are processors, and
// returns what came of it in the order of the items, or the first error.
func inParallel[T, R any](ctx context.Context, items []T, work func(context.Context, *T) (R, error)) ([]R, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := make([]R, len(items))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(items) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if out[i], err = work(ctx, &items[i]); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return out, context.Cause(ctx)
}
