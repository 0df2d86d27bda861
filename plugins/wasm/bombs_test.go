package wasm

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// bomb builds small modules that are expensive to compile.
type bomb struct {
	types   [][2]int // parameters and results, all i32; function 0 has type 0
	globals int
	locals  int
	code    []byte
}

func (b *bomb) op(code ...byte) *bomb { b.code = append(b.code, code...); return b }

// with appends an instruction with an index.
func (b *bomb) with(op byte, index int) *bomb { b.code = append(b.code, op); return b.number(index) }

func (b *bomb) number(n int) *bomb { b.code = binary.AppendUvarint(b.code, uint64(n)); return b }

// times repeats what f appends.
func (b *bomb) times(n int, f func(i int)) *bomb {
	for i := range n {
		f(i)
	}
	return b
}

// body is the function's entry in the code section.
func (b *bomb) body() []byte {
	var body []byte
	if b.locals > 0 {
		body = append(binary.AppendUvarint([]byte{1}, uint64(b.locals)), 0x7f)
	} else {
		body = []byte{0}
	}
	body = slices.Concat(body, b.code, []byte{opEnd})
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// module has the function copies times, and is a command.
func (b *bomb) module(copies int) []byte {
	types := b.types
	if types == nil {
		types = [][2]int{{0, 0}}
	}
	list := binary.AppendUvarint(nil, uint64(len(types)))
	for _, t := range types {
		list = append(list, 0x60)
		for _, n := range t {
			list = append(binary.AppendUvarint(list, uint64(n)), bytes.Repeat([]byte{0x7f}, n)...)
		}
	}
	n := binary.AppendUvarint(nil, uint64(copies))
	globals := binary.AppendUvarint(nil, uint64(b.globals))
	globals = append(globals, bytes.Repeat([]byte{0x7f, 1, 0x41, 0, opEnd}, b.globals)...)
	return assemble(
		rawSection{1, list},
		rawSection{3, append(slices.Clone(n), make([]byte, copies)...)},
		rawSection{5, []byte{1, 0, 1}},
		rawSection{globalSection, globals},
		rawSection{7, []byte("\x01\x06_start\x00\x00")},
		rawSection{codeSection, append(slices.Clone(n), bytes.Repeat(b.body(), copies)...)})
}

type rawSection struct {
	id   byte
	body []byte
}

func assemble(sections ...rawSection) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		out = append(binary.AppendUvarint(append(out, s.id), uint64(len(s.body))), s.body...)
	}
	return out
}

// What makes a compiler slow, each at a size of one's choice.

func sequentialLoops(loops, locals int) *bomb {
	b := &bomb{locals: locals}
	return b.times(loops, func(i int) {
		x, y := i%locals, i*7919%locals
		b.op(opLoop, 0x40).with(0x20, x).with(0x20, y).op(0x6a).with(0x22, x).op(opBrIf, 0, opEnd)
	})
}

func nestedLoops(groups, deep, locals int) *bomb {
	b := &bomb{locals: locals}
	return b.times(groups, func(g int) {
		b.times(deep, func(int) { b.op(opLoop, 0x40) })
		b.times(deep, func(i int) { b.with(0x20, (g*deep+i)%locals).with(opBrIf, i) })
		b.times(deep, func(int) { b.op(opEnd) })
	})
}

func ifs(n, locals int) *bomb {
	b := &bomb{locals: locals}
	return b.times(n, func(i int) {
		b.with(0x20, i%locals).op(opIf, 0x40).with(0x20, i*7919%locals).with(0x21, i*31%locals).op(opEnd)
	})
}

func emptyBlocks(n int) *bomb {
	b := &bomb{}
	return b.times(n, func(int) { b.op(opBlock, 0x40, opEnd) })
}

func deepBlocks(n int) *bomb {
	b := &bomb{}
	return b.times(n, func(int) { b.op(opBlock, 0x40) }).
		times(n, func(i int) { b.op(0x41, 0).with(opBrIf, i) }).times(n, func(int) { b.op(opEnd) })
}

func brTables(n, targets int) *bomb {
	b := &bomb{}
	return b.times(n, func(int) {
		b.op(opBlock, 0x40, 0x41, 0).with(opBrTable, targets).times(targets+1, func(int) { b.op(0) }).op(opEnd)
	})
}

// passedValues hands arity values over from block to block.
func passedValues(n, arity int) *bomb {
	b := &bomb{types: [][2]int{{0, 0}, {arity, arity}}}
	return b.times(arity, func(int) { b.op(0x41, 0, 0x28, 2, 0) }).
		times(n, func(int) { b.op(opBlock, 1, 0x41, 0, opBrIf, 0, opEnd) }).
		times(arity, func(int) { b.op(0x1a) })
}

// operands keeps some on the stack over many blocks.
func operands(n, blocks int) *bomb {
	b := &bomb{locals: 1}
	return b.times(n, func(int) { b.op(0x41, 0, 0x28, 2, 0) }).
		times(blocks, func(int) { b.op(0x20, 0, opIf, 0x40, 0x41, 1, 0x21, 0, opEnd) }).
		times(n, func(int) { b.op(0x1a) })
}

func accesses(n, blocks int) *bomb {
	b := &bomb{locals: 1}
	return b.times(n, func(int) { b.op(0x20, 0, 0x28, 2, 0, 0x21, 0) }).op(opBlock, 0x40).
		times(blocks, func(int) { b.op(0x20, 0, opBrIf, 0) }).op(opEnd)
}

func callsWithGlobals(calls, globals int) *bomb {
	b := &bomb{globals: globals}
	return b.times(calls, func(int) { b.op(opCall, 0) })
}

func straightLine(n int) *bomb {
	b := &bomb{locals: 20}
	return b.times(n, func(i int) { b.op(0x20, byte(i%20), 0x20, byte(i*7%20), 0x6a, 0x21, byte(i*3%20)) })
}
