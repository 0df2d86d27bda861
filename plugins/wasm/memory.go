package wasm

import (
	"context"
	"slices"
	"sync"
)

// quota bounds the memory of all instances together. Who wants more than is free
// waits, first come, first served, so that a large demand is not overtaken for ever
// by small ones. It is safe for concurrent use.
type quota struct {
	total uint64 // bytes

	mu      sync.Mutex
	used    uint64
	waiting []*demand
}

// demand is what somebody waits for.
type demand struct {
	bytes uint64        // guarded by quota.mu
	met   chan struct{} // closed when the bytes are theirs
}

func (d *demand) isMet() bool {
	select {
	case <-d.met:
		return true
	default:
		return false
	}
}

// try takes n bytes, or returns false when they are not free or others wait.
func (q *quota) try(n uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 || n > q.total-q.used {
		return false
	}
	q.used += n
	return true
}

// give returns n bytes that were taken.
func (q *quota) give(n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	q.meet()
}

// ask lines up for n bytes, which are at most the total. The caller waits for the
// demand to be met, or withdraws it.
func (q *quota) ask(n uint64) *demand {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := &demand{bytes: n, met: make(chan struct{})}
	q.waiting = append(q.waiting, d)
	q.meet()
	return d
}

// raise adds n bytes to a demand, unless it has been met.
func (q *quota) raise(d *demand, n uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.isMet() {
		return false
	}
	d.bytes += n
	return true
}

// withdraw ends a demand; what it was given meanwhile goes back.
func (q *quota) withdraw(d *demand) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.isMet() {
		q.used -= d.bytes
	} else if i := slices.Index(q.waiting, d); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.meet()
}

// meet gives to those in front what is free. q.mu is held.
func (q *quota) meet() {
	for len(q.waiting) > 0 && q.waiting[0].bytes <= q.total-q.used {
		q.used += q.waiting[0].bytes
		close(q.waiting[0].met)
		q.waiting = q.waiting[1:]
	}
}

// short reports whether somebody waits.
func (q *quota) short() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0
}

// reserve takes the memory that a call may use, with the instance that it would
// like to have, if any: that one's part is in it. It returns nil in its place when
// its memory was needed. Instances that nobody uses make room, and else the call
// waits; it then holds nothing, so that no two wait for each other.
func (r *Runtime) reserve(ctx context.Context, inst *instance, need uint64) (*instance, error) {
	have := uint64(0)
	if inst != nil {
		have = min(inst.held, need)
	}
	if r.quota.try(need - have) {
		inst.use(have)
		return inst, nil
	}
	d := r.quota.ask(need - have)
	r.makeRoom()
	if inst != nil && !d.isMet() && r.quota.raise(d, have) {
		inst.discard()
		inst = nil
	}
	select {
	case <-d.met:
		inst.use(have)
		return inst, nil
	case <-ctx.Done():
		r.quota.withdraw(d)
		if inst != nil {
			inst.discard()
		}
		return nil, ctx.Err()
	case <-r.base.Done():
		r.quota.withdraw(d)
		if inst != nil {
			inst.discard()
		}
		return nil, ErrClosed
	}
}

// use hands over n of the bytes that an instance held while it was idle to the call
// that takes it, and gives back the others.
func (i *instance) use(n uint64) {
	if i == nil {
		return
	}
	if i.held > n {
		i.quota.give(i.held - n)
	}
	i.held = 0
}

// park leaves with an idle instance what it really has of the bytes reserved for
// its call, and returns the others.
func (i *instance) park(reserved uint64) uint64 {
	i.held = min(reserved, i.budget.footprint())
	return reserved - i.held
}

// makeRoom closes instances that nobody uses until no call waits for memory: those
// made ahead first, then those idle longest.
func (r *Runtime) makeRoom() {
	for r.quota.short() {
		i := r.takeIdlest()
		if i == nil {
			return
		}
		i.discard()
	}
}

// takeIdlest takes an instance that nobody uses away from its plugin, nil when there
// is none.
func (r *Runtime) takeIdlest() *instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pick *loaded
	for _, l := range r.loaded {
		if i := l.pool.takeWarm(); i != nil {
			return i
		}
		at, idle := l.pool.idlest()
		if !idle {
			continue
		}
		if pick != nil {
			if best, still := pick.pool.idlest(); still && !at.Before(best) {
				continue
			}
		}
		pick = l
	}
	if pick == nil {
		return nil
	}
	return pick.pool.takeIdlest()
}
