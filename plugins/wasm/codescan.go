package wasm

// shape is what one function costs to compile, as far as it can be told without
// compiling it. The compiler's effort grows with the code, and faster than that
// with what is alive at once in many places.
type shape struct {
	body    int // bytes
	locals  int // parameters too
	depth   int // blocks within blocks
	blocks  int // places where control flow parts or meets
	pairs   int // of blocks, in a sum over functions
	targets int // labels of all br_table
	loops   int
	nested  int // loops within loops
	moved   int // values handed over by blocks, branches and calls
	live    int // sum over blocks: locals and operands there
	carried int // sum over loops: locals and operands there, times the loops around
	checked int // sum over blocks: memory accesses that came before on every way to it
}

// arity is a function type by number.
type arity struct{ params, results int }

// control is a structured instruction that is open.
type control struct {
	arity
	base    int // operands below its parameters
	loop    bool
	entered int // accesses before the then of an if without an else; else -1
	left    int // accesses before any branch to its end; -1: nothing branches there
	dueIn   int // calls before the then of an if; see codeScanner.due
	dueOut  int // the same before a branch to its end
}

// codeScanner walks over code sections. It follows how the runtime reads them to
// the byte, so that nothing can be hidden from it; what is not valid it may
// misjudge, because the runtime refuses that before it compiles anything.
type codeScanner struct {
	types     []arity
	functions []uint32 // type of every function, imported ones first
	globals   int
	imported  int // functions
	open      []control
	known     int  // memory accesses before here
	nested    int  // open loops
	dead      bool // nothing gets here
	calls     int  // of functions of the module
	due       int  // of those since the last checkpoint, on the way here that has most
	checks    []checkpoint
}

// function reads one entry of a code section, whose type is t.
func (c *codeScanner) function(r *reader, t arity) shape {
	s := shape{body: len(r.b), locals: t.params, moved: t.params + t.results}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		// In 64 bits: many groups of the largest number must not wrap around.
		s.locals = min(s.locals+int(r.u32()), maxCount)
		r.valueType()
	}
	c.open = append(c.open[:0], control{arity: arity{results: t.results}, entered: -1, left: -1})
	c.known, c.nested, c.dead = 0, 0, false
	c.calls, c.due, c.checks = 0, 0, nil
	start := r.at
	height := 0
	for r.err == nil && len(c.open) > 0 {
		height = c.step(r, &s, height)
	}
	c.checks = c.checkpoints(start, len(r.b)-start)
	if r.err == nil && r.at < len(r.b) {
		r.fail("it goes on after its last end")
	}
	return s
}

// maxCount keeps sums of sizes that a module only claims far from overflow.
const maxCount = 1 << 40

// step reads one instruction and returns the height of the operand stack after it.
func (c *codeScanner) step(r *reader, s *shape, height int) int {
	at := r.at
	op := uint32(r.byte())
	ins := plainOpcodes[op]
	switch op {
	case opMisc:
		op = r.u32()
		if ins = (instruction{imm: immUnknown}); int(op) < len(miscOpcodes) {
			ins = miscOpcodes[op]
		}
		op |= opMisc << 8
	case opVector:
		// The runtime reads one byte here, and the second byte of a longer opcode,
		// which is 1, as a nop.
		op = uint32(r.byte())
		ins = vectorOpcodes[op]
		op |= opVector << 8
	}
	index := r.immediate(ins.imm, op)
	c.weigh(at, op, index)
	top := &c.open[len(c.open)-1]
	switch op {
	case opUnreachable, opReturn:
		c.dead = true
		return top.base
	case opBlock, opLoop, opIf:
		return c.enter(r, s, op, height)
	case opElse:
		c.reach(top)
		c.known, c.due, c.dead = top.entered, top.dueIn, false
		top.entered = -1
		c.meet(s, top.base+top.params, top.results)
		return top.base + top.params
	case opEnd:
		return c.leave(s, top)
	case opBr:
		s.moved += c.branch(r, index)
		c.dead = true
		return top.base
	case opBrIf:
		height = max(height-1, top.base)
		c.meet(s, height, c.branch(r, index))
		return height
	case opBrTable:
		n := int(r.count()) + 1
		s.targets += n
		for ; n > 0 && r.err == nil; n-- {
			// Every target is a block of its own to the compiler.
			c.meet(s, height, c.branch(r, r.u32()))
		}
		c.dead = true
		return top.base
	case opCall:
		if int64(index) >= int64(len(c.functions)) {
			r.fail("it calls function %d, which does not exist", index)
			return height
		}
		return c.call(r, s, c.functions[index], height)
	case opCallIndirect:
		return c.call(r, s, index, height-1)
	case opGlobalGet, opGlobalSet:
		if int64(index) >= int64(c.globals) {
			r.fail("it uses global %d, which does not exist", index)
		}
	case opMisc<<8 | 11, opMisc<<8 | 17: // memory.fill and table.fill are compiled to a loop
		s.loops++
		for range 3 {
			c.meet(s, height, 0)
		}
	case opRefFunc:
		if int64(index) >= int64(len(c.functions)) {
			r.fail("it refers to function %d, which does not exist", index)
		}
	}
	if ins.imm == immMemory || ins.imm == immMemoryLane {
		c.known++
	}
	return max(height+ins.delta, top.base)
}

func (c *codeScanner) enter(r *reader, s *shape, op uint32, height int) int {
	t := c.blockType(r)
	if op == opIf {
		height--
	}
	base := max(height-t.params, c.open[len(c.open)-1].base)
	block := control{arity: t, base: base, loop: op == opLoop, entered: -1, left: -1, dueIn: c.due}
	switch op {
	case opIf:
		block.entered = c.known
	case opLoop:
		c.due = 0 // its head is a checkpoint
	}
	c.open = append(c.open, block)
	s.depth = max(s.depth, len(c.open)-1)
	if op == opLoop {
		c.nested++
		s.loops++
		s.nested = max(s.nested, c.nested)
		s.carried = min(s.carried+c.nested*(s.locals+base+t.params+1), maxCount)
	}
	c.meet(s, base+t.params, t.params+t.results)
	return base + t.params
}

func (c *codeScanner) leave(s *shape, top *control) int {
	if top.entered >= 0 { // an if without an else
		top.left = least(top.left, top.entered)
		top.dueOut = max(top.dueOut, top.dueIn)
	}
	c.reach(top)
	c.known, c.due, c.dead = max(top.left, 0), top.dueOut, top.left < 0
	if top.loop {
		c.nested--
	}
	height := top.base + top.results
	c.open = c.open[:len(c.open)-1]
	c.meet(s, height, top.results)
	return height
}

// reach notes that control may get from here to the end of block b.
func (c *codeScanner) reach(b *control) {
	if !c.dead {
		b.left = least(b.left, c.known)
		b.dueOut = max(b.dueOut, c.due)
	}
}

// least is the smaller of a and b, where a negative a is none.
func least(a, b int) int {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// meet counts one more block, which begins with so many operands.
func (c *codeScanner) meet(s *shape, height, moved int) {
	s.blocks++
	s.moved += moved
	s.live = min(s.live+s.locals+height+1, maxCount)
	s.checked = min(s.checked+c.known, maxCount)
}

func (c *codeScanner) call(r *reader, s *shape, typ uint32, height int) int {
	if int(typ) >= len(c.types) {
		r.fail("it calls a function of type %d, which does not exist", typ)
		return height
	}
	t := c.types[typ]
	// A call may change every global, and the compiler reads them all again.
	s.moved += t.params + t.results + c.globals
	return max(height-t.params, c.open[len(c.open)-1].base) + t.results
}

// branch follows a branch and returns how many values it takes along.
func (c *codeScanner) branch(r *reader, depth uint32) int {
	if int64(depth) >= int64(len(c.open)) {
		r.fail("it branches out of %d blocks and is in %d", depth, len(c.open))
		return 0
	}
	to := &c.open[len(c.open)-1-int(depth)]
	if to.loop {
		return to.params
	}
	c.reach(to)
	return to.results
}

// blockType reads what a block takes and leaves: nothing, a value, or a type.
func (c *codeScanner) blockType(r *reader) arity {
	switch n := r.s33(); {
	case n == -64:
		return arity{}
	case n < 0:
		if valueTypeName(byte(n&0x7f)) == "" || n < -64 {
			r.fail("a block has a type of a later proposal of WebAssembly (%d)", n)
		}
		return arity{results: 1}
	case n >= int64(len(c.types)):
		r.fail("a block has type %d, which does not exist", n)
		return arity{}
	default:
		return c.types[n]
	}
}

// immediate reads past the immediates of op, and returns the first index. Block
// types and labels are left to the caller.
func (r *reader) immediate(kind immediate, op uint32) (index uint32) {
	switch kind {
	case immByte:
		r.byte()
	case immIndex:
		index = r.u32()
	case immTwoIndexes:
		index = r.u32()
		r.u32()
	case immMemory:
		r.u32()
		r.u32()
	case immMemoryLane:
		r.u32()
		r.u32()
		r.byte()
	case imm4:
		r.bytes(4)
	case imm8:
		r.bytes(8)
	case imm16:
		r.bytes(16)
	case immInt:
		for n := 1; r.byte() >= 0x80 && r.err == nil; n++ {
			if n == 10 {
				r.fail("a number is larger than 64 bits")
			}
		}
	case immType:
		r.valueType()
	case immTypes:
		for n := r.count(); n > 0 && r.err == nil; n-- {
			r.valueType()
		}
	case immUnknown:
		r.fail("the instruction 0x%02x is not one of WebAssembly 2.0 (threads, tail calls, exceptions and other later proposals are not offered: build without them)", op)
	}
	return index
}
