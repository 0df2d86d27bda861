package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// session is one engine call's hold on a run: made under the run's lock, gone
// when the call returns. What it holds in memory is never ahead of the store for
// longer than one commit; after a failed commit it is dropped.
type session struct {
	e       *Engine
	run     *Run
	catalog Catalog
	b       *Batch
	st      *state

	fresh     bool // the run begins with this session, so that nothing of it is published
	canceller bool // commits although a cancel is under way: it is this one

	withdrawing bool // commits although a cancel is under way: nothing ran, which that is to know

	unlogged map[int]unlogged // of the last commit, by call
}

func (e *Engine) newSession(r *Run) *session {
	return &session{e: e, run: r, catalog: e.o.Catalog()}
}

// attach loads a run and makes this engine its owner.
func (e *Engine) attach(ctx context.Context, id RunID) (*session, error) {
	r, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.Fence.Owner != e.o.Owner {
		if r, err = e.o.Store.Claim(ctx, id, e.o.Owner, r.Fence.Epoch+1); err != nil {
			return nil, err
		}
	}
	return e.newSession(r), nil
}

// attachOpen attaches to a run and adopts its open batch; nil when it has none.
func (e *Engine) attachOpen(ctx context.Context, id RunID) (*session, error) {
	s, err := e.attach(ctx, id)
	if err != nil || s.run.OpenStep == 0 {
		return nil, err
	}
	b, err := e.o.Store.Batch(ctx, id, s.run.OpenStep)
	if err != nil {
		return nil, err
	}
	s.adopt(b)
	return s, nil
}

// adopt makes b the batch the session drives.
func (s *session) adopt(b *Batch) { s.b, s.st = b, nil }

// state loads published state once and replays on it what the batch has staged.
func (s *session) state(ctx context.Context) (*state, error) {
	if s.st != nil {
		return s.st, nil
	}
	var pub map[string]json.RawMessage
	if !s.fresh {
		var err error
		if pub, err = s.e.o.Store.State(ctx, s.run.ID); err != nil {
			return nil, err
		}
	}
	st := &state{published: pub}
	for i := range s.b.Calls {
		c := &s.b.Calls[i]
		if c.Phase != PhaseCompleted || len(c.Output.State) == 0 {
			continue
		}
		// What is committed was validated then, under the catalog of its time.
		if err := st.stage(c.Pin.Plugin, c.Output.State, nil); err != nil {
			return nil, fmt.Errorf("operation %s: %v: %w", c.Call.Operation(), err, ErrCorrupt)
		}
	}
	s.st = st
	return st, nil
}

const commitRetries = 3

// commit makes c durable with the run's expected version and fence. A store that
// fails without saying that it refused leaves the outcome open: the run is read
// again to learn whether the change is there, and tried again if it is not, so
// that one passing fault does not lose an outcome. After an error the session is
// not to be used again.
func (s *session) commit(ctx context.Context, c *Commit) error {
	if s.e.stops.asked(s.run.ID) && !s.canceller && !s.withdrawing {
		return fmt.Errorf("run %s: %w", s.run.ID, ErrCancelled) // an accepted cancel wins over a late outcome
	}
	now := s.e.now()
	run := *s.run
	run.Counts = maps.Clone(run.Counts)
	run.UpdatedAt = now
	for i := range c.Events {
		run.LastSeq++
		c.Events[i].Seq, c.Events[i].Time = run.LastSeq, now
	}
	c.Run, c.Expect = &run, s.run.Version
	s.e.announce(ctx, c)
	delay := s.e.o.RetryDelay
	for try := 1; ; try++ {
		err := s.e.o.Store.Commit(ctx, c)
		if err == nil {
			break
		}
		if refused(err) || try > commitRetries || ctx.Err() != nil {
			return fmt.Errorf("run %s: commit: %w", run.ID, err)
		}
		s.e.o.Logger.Warn("commit failed, reading the run again", "run", run.ID, "try", try, "err", err)
		if sleep(ctx, delay) != nil {
			return fmt.Errorf("run %s: commit: %w", run.ID, err)
		}
		delay *= 2
		there, rerr := s.e.o.Store.Run(ctx, run.ID)
		if rerr == nil && there.Version == c.Expect+1 && there.Fence == run.Fence {
			break
		}
		if rerr == nil && there.Version == c.Expect || errors.Is(rerr, ErrNotFound) && c.Expect == 0 {
			continue
		}
		return fmt.Errorf("run %s: commit: %w", run.ID, errors.Join(err, rerr))
	}
	run.Version = c.Expect + 1
	s.run = &run
	if c.Batch != nil {
		s.e.recent.note(run.Principal, c.Batch, c.Events)
	}
	if s.e.o.Observe != nil && len(c.Events) > 0 {
		s.e.o.Observe(run.ID, c.Events)
	}
	s.log(ctx, c)
	return nil
}

// refused reports an error by which a store says that nothing was written and
// that trying again will not help.
func refused(err error) bool {
	for _, e := range []error{ErrConflict, ErrFenced, ErrClosed, ErrCorrupt, ErrTooLarge, ErrDiskFull, ErrNotFound, ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// keyedLock is one lock per key, held by whoever took it until unlock. Waiting
// ends with the context. The zero value is ready.
type keyedLock struct {
	mu sync.Mutex
	m  map[string]*keyedEntry
}

type keyedEntry struct {
	sem  chan struct{}
	refs int
}

func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.m == nil {
		l.m = map[string]*keyedEntry{}
	}
	e := l.m[key]
	if e == nil {
		e = &keyedEntry{sem: make(chan struct{}, 1)}
		l.m[key] = e
	}
	e.refs++
	l.mu.Unlock()

	release := func() {
		l.mu.Lock()
		if e.refs--; e.refs == 0 {
			delete(l.m, key)
		}
		l.mu.Unlock()
	}
	select {
	case e.sem <- struct{}{}:
		return func() { <-e.sem; release() }, nil
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}
