package wasm

import "fmt"

// bound is a size of a module that is compared with the most this host compiles.
type bound struct {
	what string
	most int
	of   func(shape) int
}

// Bounds on what is compiled. Compiling takes time and memory that grow faster
// than the code, cannot be interrupted, and happens before a plugin has any limit
// of its own; without bounds 8 KB of code keep a processor busy for minutes and
// 150 KB take 10 GB. Beside each bound is the largest value seen in real modules,
// of Go (4 MB), Rust, C, Zig and Haskell. A function at any one of the bounds
// takes seconds and less than 600 MB.
var functionBounds = []bound{
	{"bytes of code", 800 << 10, func(s shape) int { return s.body }},            // 79,964
	{"locals", 10_000, func(s shape) int { return s.locals }},                    // 813
	{"blocks within blocks", 16_000, func(s shape) int { return s.depth }},       // 1,706
	{"br_table targets", 32_000, func(s shape) int { return s.targets }},         // 3,126
	{"starts and ends of blocks", 40_000, func(s shape) int { return s.blocks }}, // 6,539
	{"loops", 1_000, func(s shape) int { return s.loops }},                       // 55
	{"loops within loops", 64, func(s shape) int { return s.nested }},            // 6
	// Calls hand over every global.
	{"values passed by blocks, branches and calls", 500_000, func(s shape) int { return s.moved }},              // 26,395
	{"locals and operands, summed over its blocks", 2_000_000, func(s shape) int { return s.live }},             // 164,429
	{"locals and operands, summed over its loops", 500_000, func(s shape) int { return s.carried }},             // 5,196
	{"memory accesses, summed over the blocks they lead to", 1_000_000, func(s shape) int { return s.checked }}, // 17,787
}

// moduleBounds are for the sums over all functions. They keep many functions, each
// within its bounds, from adding up to minutes.
var moduleBounds = []bound{
	{"bytes of code", 64 << 20, func(s shape) int { return s.body }},                                             // 2,544,965
	{"pairs of blocks in one function", 3_000_000_000, func(s shape) int { return s.pairs }},                     // 109,140,025
	{"br_table targets", 2_000_000, func(s shape) int { return s.targets }},                                      // 88,329
	{"values passed by blocks, branches and calls", 10_000_000, func(s shape) int { return s.moved }},            // 229,615
	{"locals and operands, summed over blocks", 50_000_000, func(s shape) int { return s.live }},                 // 2,435,701
	{"locals and operands, summed over loops", 2_000_000, func(s shape) int { return s.carried }},                // 22,773
	{"memory accesses, summed over the blocks they lead to", 10_000_000, func(s shape) int { return s.checked }}, // 214,961
}

const (
	maxFunctions = 200_000 // 4,573
	maxTypes     = 50_000
	maxArity     = 1_000 // parameters, or results; what browsers allow
	maxGlobals   = 1_000 // 13
	maxTables    = 1_000 // 1
	maxExports   = 100_000
	maxSegments  = 100_000   // of elements, and of data
	maxNames     = 2_000_000 // of functions, and of locals
)

// measure holds a module to the bounds. It reads every instruction once.
func (p *moduleParser) measure() error {
	for _, c := range []struct {
		what       string
		have, most int
	}{{"functions", len(p.funcTypes), maxFunctions}, {"function types", len(p.types), maxTypes}, {"globals", p.globals, maxGlobals}} {
		if c.have > c.most {
			return tooMuch("it", c.have, c.what, c.most)
		}
	}
	for i, t := range p.arities {
		if n := max(t.params, t.results); n > maxArity {
			return tooMuch(fmt.Sprintf("its type %d", i), n, "parameters or results", maxArity)
		}
	}
	var total shape
	err := p.functions(func(i int, f shape) error {
		for _, b := range functionBounds {
			if n := b.of(f); n > b.most {
				return tooMuch(fmt.Sprintf("its function %d", i), n, b.what, b.most)
			}
		}
		total.add(f)
		return nil
	})
	if err != nil {
		return err
	}
	for _, b := range moduleBounds {
		if n := b.of(total); n > b.most {
			return tooMuch("it", n, b.what, b.most)
		}
	}
	return nil
}

// functions calls f with the index and the shape of every function of the module,
// until it returns an error.
func (p *moduleParser) functions(f func(int, shape) error) error {
	imported := len(p.importTypes)
	declared := len(p.funcTypes) - imported
	s := &reader{b: p.code}
	entries := 0
	if p.code != nil {
		entries = int(s.count())
	}
	if entries != declared {
		s.fail("it holds the code of %d functions, and %d are declared", entries, declared)
	}
	p.m.checks, p.m.functions, p.m.counter = make([][]checkpoint, 0, declared), len(p.funcTypes), p.globals
	c := &codeScanner{types: p.arities, functions: p.funcTypes, globals: p.globals, imported: imported}
	for i := imported; i < len(p.funcTypes) && s.err == nil; i++ {
		r := &reader{b: s.bytes(int(s.u32()))}
		typ := p.funcTypes[i]
		if int64(typ) >= int64(len(p.arities)) {
			s.fail("function %d has type %d, which does not exist", i, typ)
		}
		if s.err != nil {
			break
		}
		size := c.function(r, p.arities[typ])
		if r.err != nil {
			return fmt.Errorf("it does not compile: function %d, at byte %d of its code: %w", i, r.failedAt, r.err)
		}
		p.m.checks = append(p.m.checks, c.checks)
		if err := f(i, size); err != nil {
			return err
		}
	}
	if s.done(); s.err != nil {
		return fmt.Errorf("its code section is damaged: %w", s.err)
	}
	return nil
}

func tooMuch[N int | uint64](who string, have N, what string, most int) error {
	return fmt.Errorf("%s has %d %s, this host compiles at most %d: it would take too long or too much memory; split it up", who, have, what, most)
}

func (s *shape) add(f shape) {
	s.body += f.body
	s.pairs += f.blocks * f.blocks
	s.targets += f.targets
	s.moved += f.moved
	s.live += f.live
	s.carried += f.carried
	s.checked += f.checked
}
