package wasm

import (
	"math/bits"
	"sync"
)

// Memory of ended instances is used again. A fresh instance needs at least a MiB,
// and without this most of the time of a short call goes to the garbage collector.
//
// A buffer comes back only from an instance whose last call ended in order, never
// from one that was closed while its code might still run, and it is cleared
// before it is kept.

// buffersBySize holds []byte by size class; the garbage collector empties it.
var buffersBySize [4 * 33]sync.Pool

// sizeClass rounds n up to a quarter of a power of two, so that at most a quarter
// is wasted. Class is out of range where n is more than a memory can be.
func sizeClass(n uint64) (class int, size uint64) {
	n = max(n, pageBytes)
	exp := bits.Len64(n-1) - 1 // 2^exp < n <= 2^(exp+1)
	whole := uint64(1) << exp
	for steps := 1; steps < 4; steps++ {
		if size = whole + whole/4*uint64(steps); n <= size {
			return 4*exp + steps - 1, size
		}
	}
	return 4*exp + 3, 2 * whole
}

// newBuffer returns size zero bytes with a capacity of at least room.
func newBuffer(size, room uint64) []byte {
	class, full := sizeClass(max(size, room))
	if class >= len(buffersBySize) {
		return make([]byte, size, room)
	}
	if b, ok := buffersBySize[class].Get().(*[]byte); ok {
		return (*b)[:size]
	}
	return make([]byte, size, full)
}

// recycleBuffer takes a buffer of newBuffer back. Beyond its length it was never
// written.
func recycleBuffer(b []byte) {
	class, full := sizeClass(uint64(cap(b)))
	if class >= len(buffersBySize) || full != uint64(cap(b)) {
		return
	}
	clear(b)
	b = b[:0]
	buffersBySize[class].Put(&b)
}
