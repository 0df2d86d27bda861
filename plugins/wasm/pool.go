package wasm

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// pool keeps the live instances of one loaded plugin between calls.
type pool struct {
	mu     sync.Mutex
	warm   []*instance // made ahead, never used
	shared []*instance // idle, the last used at the end
	runs   map[batch.RunID]*runSlot
}

// runSlot is a run's one instance of a plugin. Calls of the run take turns.
type runSlot struct {
	turn  chan struct{} // holds one token while nobody has the instance
	inst  *instance     // nil: the next call makes one
	users int           // who has it or waits for it; guarded by pool.mu
	used  time.Time     // guarded by pool.mu
}

// takeRun waits for the run's turn. The slot must be given back with giveRun.
func (p *pool) takeRun(ctx context.Context, run batch.RunID) (slot *runSlot, err error) {
	p.mu.Lock()
	slot = p.runs[run]
	if slot == nil {
		slot = &runSlot{turn: make(chan struct{}, 1)}
		slot.turn <- struct{}{}
		if p.runs == nil {
			p.runs = map[batch.RunID]*runSlot{}
		}
		p.runs[run] = slot
	}
	slot.users++
	p.mu.Unlock()
	select {
	case <-slot.turn:
		return slot, nil
	case <-ctx.Done():
		p.leave(run, slot)
		return nil, ctx.Err()
	}
}

// giveRun ends a turn; inst is nil when it may not be used again.
func (p *pool) giveRun(run batch.RunID, slot *runSlot, inst *instance) {
	slot.inst = inst
	slot.turn <- struct{}{}
	p.leave(run, slot)
}

func (p *pool) leave(run batch.RunID, slot *runSlot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot.users--
	slot.used = time.Now()
	if slot.users == 0 && slot.inst == nil && p.runs[run] == slot {
		delete(p.runs, run)
	}
}

func (p *pool) takeShared() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.shared)
	if n == 0 {
		return nil
	}
	inst := p.shared[n-1]
	p.shared[n-1] = nil
	p.shared = p.shared[:n-1]
	return inst
}

func (p *pool) hasShared() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.shared) > 0
}

// giveShared keeps inst, or returns false when there are most idle ones already.
func (p *pool) giveShared(inst *instance, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shared) >= most {
		return false
	}
	inst.idle = time.Now()
	p.shared = append(p.shared, inst)
	return true
}

// idleRuns returns how many instances wait for their run and when the oldest was
// last used.
func (p *pool) idleRuns() (n int, oldest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.runs {
		if s.users > 0 {
			continue
		}
		if n++; n == 1 || s.used.Before(oldest) {
			oldest = s.used
		}
	}
	return n, oldest
}

// evict closes the instances of runs that were last used at or before the given time.
func (p *pool) evict(before time.Time) {
	var old []*instance
	p.mu.Lock()
	for run, s := range p.runs {
		if s.users == 0 && !s.used.After(before) {
			old = append(old, s.inst)
			delete(p.runs, run)
		}
	}
	p.mu.Unlock()
	for _, i := range old {
		i.discard()
	}
}

// idlest returns since when the instance has been idle that has been so longest.
func (p *pool) idlest() (since time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, since, ok = p.findIdlest()
	return since, ok
}

// takeIdlest takes that instance away, nil when there is none any more.
func (p *pool) takeIdlest() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	run, _, ok := p.findIdlest()
	if !ok {
		return nil
	}
	if run != "" {
		i := p.runs[run].inst
		delete(p.runs, run)
		return i
	}
	i := p.shared[0]
	p.shared = slices.Delete(p.shared, 0, 1)
	return i
}

// findIdlest returns the run whose instance has been idle longest, none if it is
// the first of the shared ones. p.mu is held.
func (p *pool) findIdlest() (run batch.RunID, since time.Time, ok bool) {
	if len(p.shared) > 0 {
		since, ok = p.shared[0].idle, true
	}
	for id, s := range p.runs {
		if s.users == 0 && s.inst != nil && (!ok || s.used.Before(since)) {
			run, since, ok = id, s.used, true
		}
	}
	return run, since, ok
}

// takeWarm takes an instance that was made ahead, nil when there is none.
func (p *pool) takeWarm() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.warm)
	if n == 0 {
		return nil
	}
	i := p.warm[n-1]
	p.warm[n-1] = nil
	p.warm = p.warm[:n-1]
	return i
}

// giveWarm keeps an instance made ahead.
func (p *pool) giveWarm(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warm = append(p.warm, i)
}

func (p *pool) warmCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.warm)
}

// drain closes every instance; nobody may be using one.
func (p *pool) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range slices.Concat(p.warm, p.shared) {
		i.discard()
	}
	for _, s := range p.runs {
		if s.inst != nil {
			s.inst.discard()
		}
	}
	p.warm, p.shared, p.runs = nil, nil, nil
}
