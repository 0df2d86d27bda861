package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
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

	elements uint64 // of all segments

	tablesBounded bool // to less than it says

	ready     bool           // it has readyExport
	checks    [][]checkpoint // of every function that is not imported
	functions int            // imported ones too
	counter   int            // index of the global that counts
}

type section struct{ start, end int } // start is at the section's id byte

var errComponent = errors.New("it is a WebAssembly Component, which is not a core module: build a core module " +
	"(for Rust the target wasm32-wasip1 and not wasm32-wasip2, for others without wit-component or componentize), " +
	"or take the core module out of it")

// parseModule reads the sections of a core module that decide whether it can be
// loaded. It does not validate code; wazero does.
func parseModule(b []byte) (*module, error) { return parseScanned(b, nil) }

// parseScanned is parseModule with what a cache knows of the module; nil: none.
func parseScanned(b []byte, cache *scans) (*module, error) {
	p, err := newModuleParser(b)
	if err != nil {
		return nil, err
	}
	m := p.m
	if err := p.scanned(cache); err != nil {
		return nil, err
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

// newModuleParser reads the sections one by one.
func newModuleParser(b []byte) (*moduleParser, error) {
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
	var seen [tagSection + 1]bool
	for r.at < len(b) {
		start := r.at
		id := r.byte()
		body := r.bytes(int(r.u32()))
		if r.err != nil {
			return nil, fmt.Errorf("its section at byte %d is damaged: %w", start, r.err)
		}
		if int(id) < len(seen) && id != customSection {
			if seen[id] {
				return nil, fmt.Errorf("its section at byte %d is the second one with id %d", start, id)
			}
			seen[id] = true
		}
		s := &reader{b: body}
		p.section(id, s, section{start, r.at})
		if p.over != nil {
			return nil, p.over
		}
		if s.err != nil {
			return nil, fmt.Errorf("its section %d at byte %d is damaged: %w", id, start, s.err)
		}
	}
	m.elements = p.elements
	return p, nil
}

type moduleParser struct {
	m           *module
	types       []signature
	arities     []arity  // of types
	funcTypes   []uint32 // type of every function, imported ones first
	importTypes map[int]uint32
	exported    map[string]uint32
	code        []byte // the code section
	globals     int    // imported ones too
	names       uint64 // of functions and locals
	elements    uint64 // of all segments
	over        error  // a list is longer than it may be
}

// list reads the length of a list, which is at most that. What is longer is not
// read: an entry of a byte or two takes a hundred in the host.
func (p *moduleParser) list(s *reader, what string, most int) uint32 {
	n := s.count()
	if s.err != nil {
		return 0
	}
	return p.bounded(n, uint64(n), what, most)
}

// bounded is n, or none where all of it is more than most.
func (p *moduleParser) bounded(n uint32, all uint64, what string, most int) uint32 {
	if all <= uint64(max(most, 0)) {
		return n
	}
	if p.over == nil {
		p.over = tooMuch("it", all, what, most)
	}
	return 0
}

func (p *moduleParser) section(id byte, s *reader, at section) {
	switch id {
	case 1:
		for n := p.list(s, "function types", maxTypes); n > 0 && s.err == nil; n-- {
			sig, n := s.funcType()
			p.types, p.arities = append(p.types, sig), append(p.arities, n)
		}
	case 2:
		p.importTypes = map[int]uint32{}
		for n := p.list(s, "imports", maxFunctions); n > 0 && s.err == nil; n-- {
			p.importEntry(s)
		}
	case 3:
		for n := p.list(s, "functions", maxFunctions); n > 0 && s.err == nil; n-- {
			p.funcTypes = append(p.funcTypes, s.u32())
		}
	case 4:
		p.m.tableSec = at
		for n := p.list(s, "tables", maxTables); n > 0 && s.err == nil; n-- {
			s.valueType()
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
	case exportSection:
		p.exported = map[string]uint32{}
		for n := p.list(s, "exports", maxExports); n > 0 && s.err == nil; n-- {
			name, kind, idx := s.name(), s.kind(), s.u32()
			p.m.exports[name] = kind
			if kind == "function" {
				p.exported[name] = idx
			}
		}
	case 8:
		p.m.hasStart = true
	default:
		p.passive(id, s)
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
		p.globals++
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
	m.tablesBounded = true
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
