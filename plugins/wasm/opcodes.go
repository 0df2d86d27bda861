package wasm

// immediate is what follows an opcode in the binary format.
type immediate byte

const (
	immNone immediate = iota
	immByte
	immIndex      // one u32
	immTwoIndexes // two u32
	immMemory     // alignment and offset
	immMemoryLane // alignment, offset and a lane
	imm4
	imm8
	imm16
	immInt     // a signed LEB128 number of at most 10 bytes
	immType    // a value type
	immTypes   // a list of value types
	immBlock   // a block type
	immTargets // a list of labels and one more
	immUnknown
)

// instruction says how to read past an instruction, and by how many values it
// changes the height of the operand stack. The structured instructions and the
// calls change it by what their type says.
type instruction struct {
	imm   immediate
	delta int
}

const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd
)

type opcodeRange struct {
	first, last uint32
	instruction
}

// plainOpcodes, miscOpcodes and vectorOpcodes are the instructions of WebAssembly
// 2.0 (core specification, section 5.4), which is what the runtime is told to
// accept. An opcode that is in none is one of a later proposal.
var (
	plainOpcodes = expand(256, []opcodeRange{
		{0x00, 0x01, instruction{}},
		{opBlock, opIf, instruction{immBlock, 0}},
		{opElse, opElse, instruction{}}, {opEnd, opEnd, instruction{}},
		{opBr, opBrIf, instruction{immIndex, 0}}, {opBrTable, opBrTable, instruction{immTargets, 0}},
		{opReturn, opReturn, instruction{}},
		{opCall, opCall, instruction{immIndex, 0}}, {opCallIndirect, opCallIndirect, instruction{immTwoIndexes, 0}},
		{0x1a, 0x1a, instruction{immNone, -1}}, {0x1b, 0x1b, instruction{immNone, -2}}, {0x1c, 0x1c, instruction{immTypes, -2}}, // drop, select
		{0x20, 0x20, instruction{immIndex, 1}}, {0x21, 0x21, instruction{immIndex, -1}}, {0x22, 0x22, instruction{immIndex, 0}}, // local
		{0x23, 0x23, instruction{immIndex, 1}}, {0x24, 0x24, instruction{immIndex, -1}}, // global
		{0x25, 0x25, instruction{immIndex, 0}}, {0x26, 0x26, instruction{immIndex, -2}}, // table
		{0x28, 0x35, instruction{immMemory, 0}}, {0x36, 0x3e, instruction{immMemory, -2}}, // load, store
		{0x3f, 0x3f, instruction{immByte, 1}}, {0x40, 0x40, instruction{immByte, 0}}, // memory.size, memory.grow
		{0x41, 0x42, instruction{immInt, 1}}, {0x43, 0x43, instruction{imm4, 1}}, {0x44, 0x44, instruction{imm8, 1}}, // const
		{0x45, 0x45, instruction{}}, {0x46, 0x4f, instruction{immNone, -1}}, // i32 tests
		{0x50, 0x50, instruction{}}, {0x51, 0x66, instruction{immNone, -1}}, // i64, f32, f64 tests
		{0x67, 0x69, instruction{}}, {0x6a, 0x78, instruction{immNone, -1}}, // i32
		{0x79, 0x7b, instruction{}}, {0x7c, 0x8a, instruction{immNone, -1}}, // i64
		{0x8b, 0x91, instruction{}}, {0x92, 0x98, instruction{immNone, -1}}, // f32
		{0x99, 0x9f, instruction{}}, {0xa0, 0xa6, instruction{immNone, -1}}, // f64
		{0xa7, 0xc4, instruction{}},                                                                                // conversions
		{0xd0, 0xd0, instruction{immType, 1}}, {0xd1, 0xd1, instruction{}}, {0xd2, 0xd2, instruction{immIndex, 1}}, // ref
	})
	miscOpcodes = expand(18, []opcodeRange{
		{0, 7, instruction{}},                                                    // saturating conversions
		{8, 8, instruction{immTwoIndexes, -3}}, {9, 9, instruction{immIndex, 0}}, // memory.init, data.drop
		{10, 10, instruction{immTwoIndexes, -3}}, {11, 11, instruction{immIndex, -3}}, // memory.copy, memory.fill
		{12, 12, instruction{immTwoIndexes, -3}}, {13, 13, instruction{immIndex, 0}}, // table.init, elem.drop
		{14, 14, instruction{immTwoIndexes, -3}}, {15, 15, instruction{immIndex, -1}}, // table.copy, table.grow
		{16, 16, instruction{immIndex, 1}}, {17, 17, instruction{immIndex, -3}}, // table.size, table.fill
	})
	vectorOpcodes = expand(256, []opcodeRange{
		{0, 10, instruction{immMemory, 0}}, {11, 11, instruction{immMemory, -2}}, // load, store
		{12, 12, instruction{imm16, 1}}, {13, 13, instruction{imm16, -1}}, {14, 14, instruction{immNone, -1}}, // const, shuffle, swizzle
		{15, 20, instruction{}}, // splat
		// Extracting a lane replaces one value, replacing one takes two.
		{21, 22, instruction{immByte, 0}}, {23, 23, instruction{immByte, -1}}, {24, 25, instruction{immByte, 0}}, {26, 26, instruction{immByte, -1}},
		{27, 27, instruction{immByte, 0}}, {28, 28, instruction{immByte, -1}}, {29, 29, instruction{immByte, 0}}, {30, 30, instruction{immByte, -1}},
		{31, 31, instruction{immByte, 0}}, {32, 32, instruction{immByte, -1}}, {33, 33, instruction{immByte, 0}}, {34, 34, instruction{immByte, -1}},
		{35, 76, instruction{immNone, -1}},                          // comparisons
		{77, 77, instruction{}}, {78, 81, instruction{immNone, -1}}, // not; and, andnot, or, xor
		{82, 82, instruction{immNone, -2}}, {83, 83, instruction{}}, // bitselect, any_true
		{84, 87, instruction{immMemoryLane, -1}}, {88, 91, instruction{immMemoryLane, -2}}, {92, 93, instruction{immMemory, 0}},
		// What takes one operand is counted as it is; all others of the arithmetic
		// take two.
		{94, 95, instruction{}}, {96, 100, instruction{}}, {101, 102, instruction{immNone, -1}}, {103, 106, instruction{}},
		{107, 115, instruction{immNone, -1}}, {116, 117, instruction{}}, {118, 121, instruction{immNone, -1}}, {122, 122, instruction{}},
		{123, 123, instruction{immNone, -1}}, {124, 129, instruction{}}, {130, 130, instruction{immNone, -1}}, {131, 132, instruction{}},
		{133, 134, instruction{immNone, -1}}, {135, 138, instruction{}}, {139, 147, instruction{immNone, -1}}, {148, 148, instruction{}},
		{149, 153, instruction{immNone, -1}}, {155, 159, instruction{immNone, -1}},
		{160, 161, instruction{}}, {163, 164, instruction{}}, {167, 170, instruction{}}, {171, 174, instruction{immNone, -1}},
		{177, 177, instruction{immNone, -1}}, {181, 186, instruction{immNone, -1}}, {188, 191, instruction{immNone, -1}},
		{192, 193, instruction{}}, {195, 196, instruction{}}, {199, 202, instruction{}}, {203, 206, instruction{immNone, -1}},
		{209, 209, instruction{immNone, -1}}, {213, 223, instruction{immNone, -1}},
		{224, 225, instruction{}}, {227, 227, instruction{}}, {228, 235, instruction{immNone, -1}},
		{236, 237, instruction{}}, {239, 239, instruction{}}, {240, 247, instruction{immNone, -1}}, {248, 255, instruction{}},
	})
)

func expand(size int, ranges []opcodeRange) []instruction {
	list := make([]instruction, size)
	for i := range list {
		list[i].imm = immUnknown
	}
	for _, r := range ranges {
		for op := r.first; op <= r.last; op++ {
			list[op] = r.instruction
		}
	}
	return list
}
