// Command goguest is an Extism plugin in standard Go with imports written by hand.
package main

import (
	"time"
	"unsafe"
)

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u64
func inputLoad8(at uint64) uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoad(at uint64) uint32

//go:wasmimport extism:host/env alloc
func alloc(n uint64) uint64

//go:wasmimport extism:host/env store_u64
func store8(at, v uint64)

//go:wasmimport extism:host/env store_u8
func store(at uint64, v uint32)

//go:wasmimport extism:host/env output_set
func outputSet(at, n uint64)

func input() []byte {
	b := make([]byte, inputLength())
	i := 0
	for ; i+8 <= len(b); i += 8 {
		*(*uint64)(unsafe.Pointer(&b[i])) = inputLoad8(uint64(i))
	}
	for ; i < len(b); i++ {
		b[i] = byte(inputLoad(uint64(i)))
	}
	return b
}

func output(b []byte) {
	at := alloc(uint64(len(b)))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		store8(at+uint64(i), *(*uint64)(unsafe.Pointer(&b[i])))
	}
	for ; i < len(b); i++ {
		store(at+uint64(i), uint32(b[i]))
	}
	outputSet(at, uint64(len(b)))
}

var calls int

//go:wasmexport echo
func echo() int32 {
	calls++
	output(input())
	return 0
}

//go:wasmexport count
func count() int32 {
	calls++
	output([]byte{byte('0' + calls)})
	return 0
}

//go:wasmexport panics
func panics() int32 {
	var none []int
	return int32(none[len(input())])
}

//go:wasmexport naps
func naps() int32 {
	time.Sleep(time.Hour)
	return 0
}

var kept [][]byte

//go:wasmexport hoards
func hoards() int32 {
	for {
		kept = append(kept, make([]byte, 1<<20))
	}
}

func main() {}
