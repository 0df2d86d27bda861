package badgerstore

import "sync"

// timeline gives the times of Badger's versions. Readers see the store as of the
// last commit that is durable, never one that a power cut could still take back;
// and what an active reader sees is not discarded by compactions. Safe for
// concurrent use.
type timeline struct {
	mu      sync.Mutex
	durable uint64
	readers map[uint64]int // by the time they read at
}

func newTimeline(now uint64) *timeline {
	return &timeline{durable: now, readers: map[uint64]int{}}
}

// begin returns the time to read at until end is called with it.
func (t *timeline) begin() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[t.durable]++
	return t.durable
}

func (t *timeline) end(at uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readers[at]--; t.readers[at] == 0 {
		delete(t.readers, at)
	}
}

// advance shows readers what was committed up to now.
func (t *timeline) advance(now uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.durable = now
}

// oldest is the time up to which nobody needs older versions.
func (t *timeline) oldest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.durable
	for r := range t.readers {
		at = min(at, r)
	}
	return at
}
