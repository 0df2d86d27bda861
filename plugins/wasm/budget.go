package wasm

import (
	"math"

	"github.com/tetratelabs/wazero/experimental"
)

// kernelPages is the memory Extism's own module starts with. It is not charged to
// the plugin: it is a fixed cost and never filled.
const kernelPages = 16

// budget holds an instance to its memory limit over all of its memories together:
// wazero's own limit is per memory, and a refusal there leaves no trace but an
// "unreachable". It is used by one call at a time.
type budget struct {
	limit  uint64 // bytes
	used   uint64
	kernel *linearMemory // Extism's memory; nil for a WASI command
	guest  *linearMemory
	extism bool // the first memory to come is Extism's

	refused       bool // a growth was refused
	kernelRefused bool // in Extism's memory, which does not always notice
}

func newBudget(limitBytes uint64, extism bool) *budget {
	return &budget{limit: limitBytes, extism: extism}
}

// Allocate implements experimental.MemoryAllocator.
func (b *budget) Allocate(uint64, uint64) experimental.LinearMemory {
	m := &linearMemory{budget: b}
	if b.extism && b.kernel == nil {
		b.kernel, m.free = m, kernelPages*pageBytes
	} else {
		b.guest = m
	}
	return m
}

// room is how many bytes may still be allocated, at most; -1 is none.
func (b *budget) room() int64 {
	most := b.limit + kernelPages*pageBytes
	if b.used >= most {
		return -1
	}
	return int64(min(most-b.used, math.MaxInt32))
}

// footprint is what the memories have now, in bytes.
func (b *budget) footprint() uint64 {
	n := 0
	for _, m := range []*linearMemory{b.kernel, b.guest} {
		if m != nil {
			n += len(m.buf)
		}
	}
	return uint64(n)
}

// reset forgets the refusals of the call before.
func (b *budget) reset() { b.refused, b.kernelRefused = false, false }

// recycle gives the memories back. No code of the instance may run any more, nor
// ever again.
func (b *budget) recycle() {
	for _, m := range []*linearMemory{b.kernel, b.guest} {
		if m != nil && m.buf != nil {
			recycleBuffer(m.buf)
			m.buf = nil
		}
	}
}

// linearMemory is a Go slice, so that a module which is closed while its code
// still runs never leaves a dangling page behind.
type linearMemory struct {
	budget  *budget
	buf     []byte
	free    uint64 // bytes at the start that are not charged
	started bool
}

func (m *linearMemory) charge(size uint64) uint64 {
	if size <= m.free {
		return 0
	}
	return size - m.free
}

// Reallocate implements experimental.LinearMemory.
func (m *linearMemory) Reallocate(size uint64) []byte {
	b := m.budget
	used := b.used - m.charge(uint64(len(m.buf))) + m.charge(size)
	if used > b.limit {
		b.refused = true
		b.kernelRefused = b.kernelRefused || m == b.kernel
		// The first size was compared with the limit before instantiation, and
		// wazero does not survive a refusal here.
		if m.started {
			return nil
		}
	}
	m.started = true
	b.used = used
	if size <= uint64(cap(m.buf)) {
		m.buf = m.buf[:size]
		return m.buf
	}
	room := size
	if len(m.buf) > 0 {
		// Growing in larger steps keeps a guest that grows page by page from
		// copying its memory each time.
		room = max(size, min(size+size/2, b.limit+m.free))
	}
	grown := newBuffer(size, room)
	copy(grown, m.buf)
	m.buf = grown
	return m.buf
}

// Free implements experimental.LinearMemory. It does nothing: wazero may call it
// while the guest still runs. See budget.recycle.
func (m *linearMemory) Free() {}
