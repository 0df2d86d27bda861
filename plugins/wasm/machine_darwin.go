package wasm

import (
	"encoding/binary"
	"syscall"
)

func machineMemory() uint64 {
	s, err := syscall.Sysctl("hw.memsize")
	var b [8]byte // a zero at the end of the number is cut off
	if copy(b[:], s); err != nil || len(s) > len(b) {
		return unknownMemory
	}
	if n := binary.LittleEndian.Uint64(b[:]); n > 0 {
		return n
	}
	return unknownMemory
}
