package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const pageBytes = 64 << 10

// signature is a function type in one string, such as "i64,i64>i32".
type signature string

// kinds of imports and exports, in the order of the binary format.
var externKinds = [...]string{"function", "table", "memory", "global", "tag"}

type importRef struct {
	module, name string
	kind         string
	sig          signature // of a function
}

func (i importRef) String() string {
	if i.kind == "function" {
		return fmt.Sprintf("%s.%s", i.module, i.name)
	}
	return fmt.Sprintf("%s.%s (a %s)", i.module, i.name, i.kind)
}

type tableLimits struct{ min, max uint32 }

// module is what the host reads from the binary before wazero sees it: enough to
// refuse it in words a plugin's author understands.
type module struct {
	imports  []importRef
	exports  map[string]string    // name to kind
	funcs    map[string]signature // exported functions
	hasMem   bool
	memMin   uint32 // pages
	memMax   uint32 // pages; 65536 when the module names none
	hasStart bool   // a start section: code that runs on instantiation
	tables   []tableLimits
	tableSec section // where the tables are declared
}

type section struct{ start, end int } // start is at the section's id byte

var errComponent = errors.New("it is a WebAssembly Component, which is not a core module: build a core module " +
	"(for Rust the target wasm32-wasip1 and not wasm32-wasip2, for others without wit-component or componentize), " +
	"or take the core module out of it")

// parseModule reads the sections of a core module that decide whether it can be
// loaded. It does not validate code; wazero does.
func parseModule(b []byte) (*module, error) {
	if len(b) < 8 || string(b[:4]) != "\x00asm" {
		return nil, errors.New("it is not a WebAssembly binary: it does not start with \\0asm (a text module needs wat2wasm first)")
	}
	version, layer := binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:])
	if layer == 1 {
		return nil, errComponent
	}
	if version != 1 || layer != 0 {
		return nil, fmt.Errorf("it is WebAssembly binary version %d, layer %d; version 1 of core modules is understood", version, layer)
	}
	m := &module{exports: map[string]string{}, funcs: map[string]signature{}}
	p := &moduleParser{m: m}
	r := &reader{b: b, at: 8}
	for r.at < len(b) {
		start := r.at
		id := r.byte()
		body := r.bytes(int(r.u32()))
		if r.err != nil {
			return nil, fmt.Errorf("its section at byte %d is damaged: %w", start, r.err)
		}
		s := &reader{b: body}
		p.section(id, s, section{start, r.at})
		if s.err != nil {
			return nil, fmt.Errorf("its section %d at byte %d is damaged: %w", id, start, s.err)
		}
	}
	for name, idx := range p.exported {
		if int(idx) >= len(p.funcTypes) || int(p.funcTypes[idx]) >= len(p.types) {
			return nil, fmt.Errorf("its export %q names function %d, which does not exist", name, idx)
		}
		m.funcs[name] = p.types[p.funcTypes[idx]]
	}
	for i := range m.imports {
		if m.imports[i].kind != "function" {
			continue
		}
		t := p.importTypes[i]
		if int(t) >= len(p.types) {
			return nil, fmt.Errorf("its import %s has type %d, which does not exist", m.imports[i], t)
		}
		m.imports[i].sig = p.types[t]
	}
	return m, nil
}

type moduleParser struct {
	m           *module
	types       []signature
	funcTypes   []uint32 // type of every function, imported ones first
	importTypes map[int]uint32
	exported    map[string]uint32
}

func (p *moduleParser) section(id byte, s *reader, at section) {
	switch id {
	case 1:
		for n := s.count(); n > 0 && s.err == nil; n-- {
			p.types = append(p.types, s.funcType())
		}
	case 2:
		p.importTypes = map[int]uint32{}
		for n := s.count(); n > 0 && s.err == nil; n-- {
			p.importEntry(s)
		}
	case 3:
		for n := s.count(); n > 0 && s.err == nil; n-- {
			p.funcTypes = append(p.funcTypes, s.u32())
		}
	case 4:
		p.m.tableSec = at
		for n := s.count(); n > 0 && s.err == nil; n-- {
			s.byte()
			min, max, _ := s.limits()
			p.m.tables = append(p.m.tables, tableLimits{min, max})
		}
	case 5:
		for n := s.count(); n > 0 && s.err == nil; n-- {
			min, max, has := s.limits()
			if !has {
				max = 65536
			}
			p.m.hasMem, p.m.memMin, p.m.memMax = true, min, max
		}
	case 7:
		p.exported = map[string]uint32{}
		for n := s.count(); n > 0 && s.err == nil; n-- {
			name, kind, idx := s.name(), s.kind(), s.u32()
			p.m.exports[name] = kind
			if kind == "function" {
				p.exported[name] = idx
			}
		}
	case 8:
		p.m.hasStart = true
	}
}

func (p *moduleParser) importEntry(s *reader) {
	ref := importRef{module: s.name(), name: s.name(), kind: s.kind()}
	switch ref.kind {
	case "function":
		t := s.u32()
		p.importTypes[len(p.m.imports)] = t
		p.funcTypes = append(p.funcTypes, t)
	case "table":
		s.byte()
		s.limits()
	case "memory":
		s.limits()
	case "global":
		s.byte()
		s.byte()
	case "tag":
		s.byte()
		s.u32()
	}
	p.m.imports = append(p.m.imports, ref)
}

// exportNames lists the exported functions, sorted, for a message.
func (m *module) exportNames() string {
	names := make([]string, 0, len(m.funcs))
	for n := range m.funcs {
		names = append(names, n)
	}
	sort.Strings(names)
	if len(names) == 0 {
		return "none"
	}
	const most = 20
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// maxTableEntries bounds all tables of an instance together (8 bytes each).
// table.grow asks no allocator, so without a bound one instruction can take
// 32 GiB from the host.
const maxTableEntries = 1 << 20

// boundTables returns the module with every table's maximum lowered to its share
// of maxTableEntries. A module whose tables are smaller is returned as it is.
func (m *module) boundTables(b []byte) ([]byte, error) {
	var total, declared uint64
	for _, t := range m.tables {
		total += uint64(t.min)
		declared += uint64(t.max)
	}
	if total > maxTableEntries {
		return nil, fmt.Errorf("its tables start with %d entries, at most %d are allowed", total, maxTableEntries)
	}
	if declared <= maxTableEntries {
		return b, nil
	}
	spare := (maxTableEntries - total) / uint64(len(m.tables))
	r := &reader{b: b[m.tableSec.start:m.tableSec.end]}
	r.byte()
	r.u32()
	body := binary.AppendUvarint(nil, uint64(r.count()))
	for _, t := range m.tables {
		body = append(body, r.byte(), 1)
		r.limits()
		body = binary.AppendUvarint(body, uint64(t.min))
		body = binary.AppendUvarint(body, min(uint64(t.max), uint64(t.min)+spare))
	}
	if r.err != nil {
		return nil, fmt.Errorf("its table section is damaged: %w", r.err)
	}
	out := slices.Concat(b[:m.tableSec.start], []byte{4}, binary.AppendUvarint(nil, uint64(len(body))), body)
	return append(out, b[m.tableSec.end:]...), nil
}

// reader decodes the binary format; after an error every read returns zero.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, a...)
	}
	r.at = len(r.b)
}

func (r *reader) byte() byte {
	if r.err != nil || r.at >= len(r.b) {
		r.fail("it ends too early")
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b)-r.at {
		r.fail("it ends too early")
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail("a number is larger than 32 bits")
	return 0
}

// count reads a vector's length; every element takes at least one byte.
func (r *reader) count() uint32 {
	n := r.u32()
	if int64(n) > int64(len(r.b)-r.at) {
		r.fail("a list of %d entries does not fit", n)
		return 0
	}
	return n
}

func (r *reader) name() string {
	s := r.bytes(int(r.u32()))
	if !utf8.Valid(s) {
		r.fail("a name is not UTF-8")
		return ""
	}
	return string(s)
}

func (r *reader) kind() string {
	k := r.byte()
	if int(k) >= len(externKinds) {
		r.fail("unknown import or export kind %d", k)
		return ""
	}
	return externKinds[k]
}

func (r *reader) limits() (min, max uint32, hasMax bool) {
	flag := r.byte()
	if flag > 3 {
		r.fail("64-bit memories and tables are not supported (limits flag %d)", flag)
		return 0, 0, false
	}
	min, max = r.u32(), 1<<32-1
	if hasMax = flag&1 == 1; hasMax {
		max = r.u32()
	}
	return min, max, hasMax
}

func (r *reader) funcType() signature {
	if form := r.byte(); r.err == nil && form != 0x60 {
		r.fail("type form 0x%x is not a function type (a later proposal of WebAssembly)", form)
	}
	params := r.valueTypes()
	return signature(params + ">" + r.valueTypes())
}

func (r *reader) valueTypes() string {
	var names []string
	for n := r.count(); n > 0 && r.err == nil; n-- {
		names = append(names, valueTypeName(r.byte()))
	}
	return strings.Join(names, ",")
}

func valueTypeName(t byte) string {
	switch t {
	case 0x7f:
		return "i32"
	case 0x7e:
		return "i64"
	case 0x7d:
		return "f32"
	case 0x7c:
		return "f64"
	case 0x7b:
		return "v128"
	case 0x70:
		return "funcref"
	case 0x6f:
		return "externref"
	}
	return fmt.Sprintf("0x%x", t)
}
