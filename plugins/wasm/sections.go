package wasm

const (
	customSection   = 0
	typeSection     = 1
	functionSection = 3
	globalSection   = 6
	exportSection   = 7
	elementSection  = 9
	codeSection     = 10
	dataSection     = 11
	countSection    = 12
	tagSection      = 13
)

// passive walks through the sections that decide nothing. It is done because the
// runtime makes room for as many entries as a section claims to have before it
// reads the first, and the process ends when there is not as much memory.
func (p *moduleParser) passive(id byte, s *reader) {
	switch id {
	case customSection:
		if s.name() == "name" {
			names(s)
		}
		return // whatever else is in one
	case globalSection:
		n := s.count()
		for p.globals += int(n); n > 0 && s.err == nil; n-- {
			s.valueType()
			s.byte()
			s.constant()
		}
	case elementSection:
		for n := s.count(); n > 0 && s.err == nil; n-- {
			s.element()
		}
	case codeSection:
		p.code = s.b
		return
	case dataSection:
		for n := s.count(); n > 0 && s.err == nil; n-- {
			kind := s.u32()
			if kind == 2 {
				s.u32()
			}
			if kind != 1 {
				s.constant()
			}
			s.bytes(int(s.u32()))
		}
	case countSection:
		s.u32()
	default:
		s.fail("it belongs to a later proposal of WebAssembly")
	}
	s.done()
}

// names walks through the section of that name, whose maps are read with it.
func names(s *reader) {
	for s.at < len(s.b) && s.err == nil {
		id := s.byte()
		sub := &reader{b: s.bytes(int(s.u32()))}
		switch id {
		case 0:
			sub.name()
		case 1:
			sub.nameMap()
		case 2:
			for n := sub.count(); n > 0 && sub.err == nil; n-- {
				sub.u32()
				sub.nameMap()
			}
		default:
			continue
		}
		sub.done()
		if sub.err != nil {
			s.fail("its list %d: %w", id, sub.err)
		}
	}
}

func (r *reader) nameMap() {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		r.u32()
		r.name()
	}
}

// element reads one element segment (core specification, section 5.5.12).
func (r *reader) element() {
	kind := r.u32()
	if kind > 7 {
		r.fail("unknown kind of element segment %d", kind)
	}
	if kind&1 == 0 {
		if kind&2 != 0 {
			r.u32()
		}
		r.constant()
	}
	if kind&3 != 0 {
		r.byte() // what the elements are
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		if kind&4 == 0 {
			r.u32()
		} else {
			r.constant()
		}
	}
}

// constant reads a constant expression up to its end.
func (r *reader) constant() {
	for r.err == nil {
		op := uint32(r.byte())
		ins := plainOpcodes[op]
		switch op {
		case opEnd:
			return
		case 0x23, 0x41, 0x42, 0x43, 0x44, 0xd0, 0xd2: // global.get, const, ref
		case opVector:
			if op = uint32(r.byte()); op != 12 {
				r.fail("the vector instruction %d is not constant", op)
			}
			ins = vectorOpcodes[12]
		default:
			r.fail("the instruction 0x%02x is not constant", op)
		}
		r.immediate(ins.imm, op)
	}
}

// done refuses what is left.
func (r *reader) done() {
	if r.err == nil && r.at < len(r.b) {
		r.fail("%d bytes too many", len(r.b)-r.at)
	}
}
