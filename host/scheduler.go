package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

const (
	// rescan bounds how long the scheduler trusts its timer: a wall clock that is
	// set, or a machine that slept, moves due times against monotonic timers.
	rescan = time.Minute
	// rest keeps a ticket that fails to settle from being tried in a tight loop.
	rest = time.Second
)

// scheduler resumes runs whose ticket settles by itself. One goroutine waits for
// the next due time; each due run is resumed on its own, so that a slow one does
// not delay the others.
type scheduler struct {
	engine *batch.Engine
	log    *slog.Logger
	wake   chan struct{}

	mu     sync.Mutex
	ctx    context.Context // of what start began; ended by cancel
	cancel context.CancelFunc
	busy   map[batch.RunID]bool
	wg     sync.WaitGroup
}

func newScheduler(e *batch.Engine, log *slog.Logger) *scheduler {
	return &scheduler{engine: e, log: log, wake: make(chan struct{}, 1), busy: map[batch.RunID]bool{}}
}

// poke makes the scheduler look again; it never blocks.
func (s *scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// start reports whether it had not been started before.
func (s *scheduler) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.ctx, s.cancel = ctx, cancel
	s.wg.Go(func() { s.loop(ctx) })
	return true
}

// beside runs f until stop ends its context; f returns then.
func (s *scheduler) beside(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := s.ctx
	s.wg.Go(func() { f(ctx) })
}

// every runs f now and then again and again, until stop.
func (s *scheduler) every(d time.Duration, f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return
	}
	ctx := s.ctx
	s.wg.Go(func() {
		for {
			f(ctx)
			t := time.NewTimer(d)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
		}
	})
}

func (s *scheduler) stop() {
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *scheduler) loop(ctx context.Context) {
	for {
		wait := rescan
		runs, next, err := s.engine.Due(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("cannot look for due tickets", "err", err)
		case len(runs) > 0:
			for _, r := range runs {
				s.resume(ctx, r)
			}
			wait = rest
		case !next.IsZero():
			wait = min(wait, max(time.Until(next), time.Millisecond))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-s.wake:
			t.Stop()
		case <-t.C:
		}
	}
}

func (s *scheduler) resume(ctx context.Context, run batch.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[run] {
		return
	}
	s.busy[run] = true
	s.wg.Go(func() {
		if _, err := s.engine.Resume(ctx, run); err != nil && ctx.Err() == nil {
			s.log.Error("cannot continue a run whose ticket is due", "run", run, "err", err)
		}
		s.mu.Lock()
		delete(s.busy, run)
		s.mu.Unlock()
	})
}

func now() time.Time { return time.Now() }
