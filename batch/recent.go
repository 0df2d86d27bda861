package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// RecentHorizon is how far back Query.Recent can look.
const RecentHorizon = 24 * time.Hour

// recentPage is how many runs or events are read at once.
const recentPage = 500

// recent knows what each principal had executed within the horizon, over all runs.
// It is built from the store when it is first asked, and kept up by every commit
// from then on; until then it costs nothing.
type recent struct {
	token chan struct{} // held by who builds

	mu      sync.Mutex
	collect bool // commits are noted: built, or being built
	built   bool
	// began is in order of time. held are calls that a gate was told about and that
	// may have begun since: they count for others, so that two calls asked about at
	// the same moment cannot both be the last one allowed.
	began map[string][]beginning
	held  map[string]map[OperationID]beginning
	swept time.Time
}

// beginning is the first attempt of a call.
type beginning struct {
	at   time.Time
	op   OperationID
	tool ToolID
}

func newRecent() *recent {
	return &recent{token: make(chan struct{}, 1), began: map[string][]beginning{}, held: map[string]map[OperationID]beginning{}}
}

// recently answers Query.Recent for a call, and holds a place for it.
func (s *session) recently(cs *CallState, now time.Time) func(context.Context, ...time.Duration) ([]map[ToolID]int, error) {
	return func(ctx context.Context, windows ...time.Duration) ([]map[ToolID]int, error) {
		for _, w := range windows {
			if w <= 0 || w > RecentHorizon {
				return nil, fmt.Errorf("window %v: it must be above 0 and at most %v: %w", w, RecentHorizon, ErrInvalid)
			}
		}
		r := s.e.recent
		if err := r.build(ctx, s.e.o.Store, now); err != nil {
			return nil, fmt.Errorf("calls of %q in the last %v: %w", s.run.Principal, RecentHorizon, err)
		}
		return r.count(s.run.Principal, beginning{now, cs.Call.Operation(), cs.Call.Tool}, windows), nil
	}
}

// build reads the store once. Others wait for who builds; after an error the next
// one tries again.
func (r *recent) build(ctx context.Context, store Store, now time.Time) error {
	if r.ready() {
		return nil
	}
	select {
	case r.token <- struct{}{}:
		defer func() { <-r.token }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.ready() {
		return nil
	}
	r.mu.Lock()
	r.collect = true
	r.mu.Unlock()
	read, err := readBeginnings(ctx, store, now.Add(-RecentHorizon))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.collect = false
		clear(r.began)
		return err
	}
	for principal, old := range read {
		// What was committed meanwhile may have been read as well.
		meanwhile := map[OperationID]bool{}
		for _, b := range r.began[principal] {
			meanwhile[b.op] = true
		}
		all := slices.DeleteFunc(old, func(b beginning) bool { return meanwhile[b.op] })
		all = append(all, r.began[principal]...)
		slices.SortStableFunc(all, func(a, b beginning) int { return a.at.Compare(b.at) })
		r.began[principal] = all
	}
	r.built = true
	return nil
}

func (r *recent) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.built
}

// note hears of a commit.
func (r *recent) note(principal string, b *Batch, events []Event) {
	for _, ev := range events {
		if !ev.beginsCall() {
			continue
		}
		call := &b.Calls[ev.Index].Call
		r.mu.Lock()
		if r.collect {
			r.began[principal] = append(r.began[principal], beginning{ev.Time, call.Operation(), call.Tool})
			r.sweep(ev.Time)
		}
		r.release(principal, call.Operation())
		r.mu.Unlock()
	}
}

// beginsCall reports the first attempt of a call, and that once.
func (ev *Event) beginsCall() bool {
	return ev.Kind == EventCallExecuting && ev.Attempt == 1 && ev.Note != noteBegunAgain
}

// sweep drops what is past the horizon, of principals too that nobody asks about any
// more. The caller holds mu.
func (r *recent) sweep(now time.Time) {
	if now.Sub(r.swept) < RecentHorizon/24 {
		return
	}
	r.swept = now
	for principal := range r.began {
		r.trim(principal, now)
	}
}

// trim returns what is within the horizon. The caller holds mu.
func (r *recent) trim(principal string, now time.Time) []beginning {
	all := r.began[principal]
	old := 0
	for old < len(all) && now.Sub(all[old].at) >= RecentHorizon {
		old++
	}
	if old == len(all) {
		delete(r.began, principal)
		return nil
	}
	if old > len(all)/2 { // let go of the memory too
		all, old = slices.Clone(all[old:]), 0
	}
	r.began[principal] = all[old:]
	return all[old:]
}

// forget gives up the place of a call that will not begin now.
func (r *recent) forget(principal string, op OperationID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(principal, op)
}

func (r *recent) release(principal string, op OperationID) {
	delete(r.held[principal], op)
	if len(r.held[principal]) == 0 {
		delete(r.held, principal)
	}
}

// count answers for each window and holds a place for the call that is asked about,
// which is not counted itself.
func (r *recent) count(principal string, call beginning, windows []time.Duration) []map[ToolID]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]map[ToolID]int, len(windows))
	for i := range out {
		out[i] = map[ToolID]int{}
	}
	add := func(b beginning) {
		for i, w := range windows {
			if b.op != call.op && call.at.Sub(b.at) < w {
				out[i][b.tool]++
			}
		}
	}
	for _, b := range r.trim(principal, call.at) {
		add(b)
	}
	held := r.held[principal]
	if held == nil {
		held = map[OperationID]beginning{}
		r.held[principal] = held
	}
	maps.DeleteFunc(held, func(_ OperationID, b beginning) bool { return call.at.Sub(b.at) >= RecentHorizon })
	for _, b := range held {
		add(b)
	}
	held[call.op] = call
	return out
}

// readBeginnings reads by principal, in no order, what began at or after since.
// Every commit moves a run's UpdatedAt, so that older runs need not be looked into.
func readBeginnings(ctx context.Context, store Store, since time.Time) (map[string][]beginning, error) {
	out := map[string][]beginning{}
	var after RunID
	for {
		runs, err := store.Runs(ctx, after, recentPage)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			after = r.ID
			if r.UpdatedAt.Before(since) || len(r.Counts) == 0 {
				continue
			}
			bs, err := runBeginnings(ctx, store, r.ID, since)
			if errors.Is(err, ErrNotFound) { // pruned meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			if len(bs) > 0 {
				out[r.Principal] = append(out[r.Principal], bs...)
			}
		}
		if len(runs) < recentPage {
			return out, nil
		}
	}
}

func runBeginnings(ctx context.Context, store Store, run RunID, since time.Time) ([]beginning, error) {
	var out []beginning
	var b *Batch
	var after uint64
	for {
		events, err := store.Events(ctx, run, after, recentPage)
		if err != nil {
			return nil, err
		}
		for _, ev := range events {
			after = ev.Seq
			if !ev.beginsCall() || ev.Time.Before(since) {
				continue
			}
			if b == nil || b.Step != ev.Step {
				if b, err = store.Batch(ctx, run, ev.Step); err != nil {
					return nil, err
				}
			}
			if ev.Index < 0 || ev.Index >= len(b.Calls) {
				return nil, fmt.Errorf("run %s: event %d names call %d of %d: %w", run, ev.Seq, ev.Index, len(b.Calls), ErrCorrupt)
			}
			call := &b.Calls[ev.Index].Call
			out = append(out, beginning{ev.Time, call.Operation(), call.Tool})
		}
		if len(events) < recentPage {
			return out, nil
		}
	}
}
