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
			p.readNames(s)
		}
		return // whatever else is in one
	case globalSection:
		n := p.list(s, "globals", maxGlobals)
		for p.globals += int(n); n > 0 && s.err == nil; n-- {
			s.valueType()
			s.byte()
			s.constant()
		}
	case elementSection:
		for n := p.list(s, "element segments", maxSegments); n > 0 && s.err == nil && p.over == nil; n-- {
			p.element(s)
		}
	case codeSection:
		p.code = s.b
		return
	case dataSection:
		for n := p.list(s, "data segments", maxSegments); n > 0 && s.err == nil; n-- {
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

// readNames walks through the section of that name, whose maps are read with it.
func (p *moduleParser) readNames(s *reader) {
	for s.at < len(s.b) && s.err == nil && p.over == nil {
		id := s.byte()
		sub := &reader{b: s.bytes(int(s.u32()))}
		switch id {
		case 0:
			sub.name()
		case 1:
			p.nameMap(sub)
		case 2:
			for n := p.someNames(sub); n > 0 && sub.err == nil; n-- {
				sub.u32()
				p.nameMap(sub)
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

// someNames reads the length of one of the lists of names.
func (p *moduleParser) someNames(r *reader) uint32 {
	n := r.count()
	p.names += uint64(n)
	return p.bounded(n, p.names, "names of functions and locals", maxNames)
}

func (p *moduleParser) nameMap(r *reader) {
	for n := p.someNames(r); n > 0 && r.err == nil; n-- {
		r.u32()
		r.name()
	}
}

// element reads one element segment (core specification, section 5.5.12).
func (p *moduleParser) element(r *reader) {
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
	n := r.count()
	p.elements += uint64(n)
	for n := p.bounded(n, p.elements, "elements in its segments", maxTableEntries); n > 0 && r.err == nil; n-- {
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
