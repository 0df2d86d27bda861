package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Each of these took wazero from tens of seconds to minutes, or gigabytes.
func TestLoadRefusesBombs(t *testing.T) {
	r := newRuntime(t, Options{})
	many := binary.AppendUvarint(nil, 1<<32-1)
	custom := func(name string, body ...byte) []byte {
		return assemble(rawSection{customSection, append(append([]byte{byte(len(name))}, name...), body...)})
	}
	counted := func(id byte) []byte { return assemble(rawSection{id, many}) }
	number := func(n int) []byte { return appendUnsigned(nil, n) }
	repeated := func(id byte, n int, entry ...byte) []byte {
		return assemble(rawSection{id, append(number(n), bytes.Repeat(entry, n)...)})
	}
	for _, c := range []struct {
		name   string
		module []byte
		want   []string
	}{
		{"sequential loops", sequentialLoops(2000, 2000).module(1), []string{"its function 0 has 2000 loops", "at most 1000"}},
		{"loops with many locals", sequentialLoops(900, 700).module(1), []string{"its function 0 has 630900 locals and operands, summed over its loops", "at most 500000"}},
		{"nested loops", nestedLoops(1, 1000, 200).module(1), []string{"its function 0 has 1000 loops within loops", "at most 64"}},
		{"groups of nested loops", nestedLoops(15, 60, 200).module(1), []string{"summed over its loops"}},
		{"blocks with many locals", ifs(10_000, 5000).module(1), []string{"its function 0 has 100025001 locals and operands, summed over its blocks"}},
		{"blocks", emptyBlocks(100_000).module(1), []string{"its function 0 has 200001 starts and ends of blocks", "at most 40000"}},
		{"nested blocks", deepBlocks(20_000).module(1), []string{"its function 0 has 20000 blocks within blocks"}},
		{"br_table", brTables(4, 100_000).module(1), []string{"its function 0 has 400004 br_table targets"}},
		{"passed values", passedValues(10_000, 1000).module(1), []string{"its function 0 has", "values passed by blocks"}},
		{"operands", operands(9000, 9000).module(1), []string{"its function 0 has", "summed over its blocks"}},
		{"memory accesses", accesses(10_000, 10_000).module(1), []string{"its function 0 has 100030000 memory accesses"}},
		{"calls with globals", callsWithGlobals(100_000, 1000).module(1), []string{"its function 0 has", "values passed by blocks, branches and calls"}},
		{"a long function", straightLine(400_000).module(1), []string{"its function 0 has 2800004 bytes of code"}},
		{"locals", (&bomb{locals: 50_000}).module(1), []string{"its function 0 has 50000 locals, this host compiles at most 10000"}},
		{"more locals than memory", (&bomb{locals: 1<<32 - 1}).module(1), []string{"its function 0 has 4294967295 locals"}},
		{"functions", (&bomb{}).module(300_000), []string{"it has 300000 functions, this host compiles at most 200000"}},
		{"globals", (&bomb{globals: 5000}).module(1), []string{"it has 5000 globals"}},
		{"parameters", (&bomb{types: [][2]int{{0, 0}, {5000, 0}}}).module(1), []string{"its type 1 has 5000 parameters or results"}},
		{"types", (&bomb{types: make([][2]int, 60_000)}).module(1), []string{"it has 60000 function types"}},
		{"many functions with many blocks", emptyBlocks(15_000).module(20), []string{"it has", "pairs of blocks"}},
		{"many functions with many locals", ifs(600, 900).module(60), []string{"it has", "locals and operands, summed over blocks"}},
		{"many functions with loops", sequentialLoops(900, 500).module(10), []string{"it has", "locals and operands, summed over loops"}},

		// An entry of a byte or two takes a hundred in the host.
		{"elements", assemble(rawSection{elementSection, slices.Concat([]byte{1, 1, 0}, number(maxTableEntries+1), make([]byte, maxTableEntries+1))}), []string{"it has 1048577 elements in its segments, this host compiles at most 1048576"}},
		{"element segments", repeated(elementSection, maxSegments+1, 1, 0, 0), []string{"it has 100001 element segments"}},
		{"data segments", repeated(dataSection, maxSegments+1, 1, 0), []string{"it has 100001 data segments"}},
		{"tables", repeated(4, maxTables+1, 0x70, 0, 0), []string{"it has 1001 tables"}},
		{"exports", repeated(exportSection, maxExports+1, 0, 0, 0), []string{"it has 100001 exports"}},
		{"imports", repeated(importSection, maxFunctions+1, 0, 0, 0, 0), []string{"it has 200001 imports"}},
		{"names", custom("name", slices.Concat([]byte{1}, number(len(number(maxNames+1))+2*(maxNames+1)), number(maxNames+1), make([]byte, 2*(maxNames+1)))...), []string{"it has 2000001 names of functions and locals"}},

		// The runtime makes room for what a section claims to hold.
		{"claimed function names", custom("name", append([]byte{1, 5}, many...)...), []string{"a list of 4294967295 entries does not fit"}},
		{"claimed local names", custom("name", append([]byte{2, 8, 1, 0}, many...)...), []string{"damaged"}},
		{"a name list that is too long", custom("name", 1, 3, 0, 0, 0), []string{"2 bytes too many"}},
		{"claimed globals", counted(globalSection), []string{"a list of 4294967295 entries"}},
		{"claimed elements", counted(elementSection), []string{"a list of 4294967295 entries"}},
		{"claimed element values", assemble(rawSection{elementSection, append([]byte{1, 1, 0}, many...)}), []string{"a list of 4294967295 entries"}},
		{"claimed data", counted(dataSection), []string{"a list of 4294967295 entries"}},
		{"claimed bytes", assemble(rawSection{dataSection, append([]byte{1, 1}, many...)}), []string{"ends too early"}},
		{"claimed code", counted(codeSection), []string{"a list of 4294967295 entries"}},
		{"claimed types", counted(1), []string{"a list of 4294967295 entries"}},
		{"claimed tags", counted(tagSection), []string{"later proposal"}},
		{"two code sections", assemble(rawSection{codeSection, []byte{0}}, rawSection{codeSection, []byte{0}}), []string{"second one with id 10"}},
		{"more code than functions", assemble(rawSection{codeSection, []byte{1, 2, 0, opEnd}}), []string{"holds the code of 1 functions, and 0 are declared"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			err := r.Load(t.Context(), newPlugin(c.module, plugins.ABIWASI, tool("run")))
			if err == nil {
				t.Fatal("it was loaded")
			}
			for _, w := range append(c.want, "plugin t: module bin/t.wasm: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\ndoes not say %q", err, w)
				}
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v for %d bytes", took, len(c.module))
			}
		})
	}
}

// The same kinds within the bounds are compiled: the bounds refuse sizes, and not
// the instructions.
func TestSmallOnesAreCompiled(t *testing.T) {
	r := newRuntime(t, Options{})
	for name, b := range map[string]*bomb{
		"loops": sequentialLoops(20, 20), "nested loops": nestedLoops(2, 10, 10), "ifs": ifs(50, 20), "blocks": emptyBlocks(100),
		"deep": deepBlocks(100), "br_table": brTables(3, 50), "passed": passedValues(20, 20), "operands": operands(50, 20),
		"accesses": accesses(20, 20), "globals": callsWithGlobals(20, 20), "straight": straightLine(200),
	} {
		if err := r.Load(t.Context(), newPlugin(b.module(2), plugins.ABIWASI, tool("run"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Real modules stay far away from every bound.
func TestBoundsLeaveRoom(t *testing.T) {
	modules := map[string][]byte{}
	for _, name := range []string{"guest", "command", "goguest", "goprogram"} {
		modules[name] = guest(t, name)
	}
	built, err := filepath.Glob("../../bin/*/*/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range built {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		modules[file] = b
	}
	for name, b := range modules {
		p := scan(t, b)
		var total shape
		err := p.functions(func(i int, s shape) error {
			for _, bound := range functionBounds {
				if n := bound.of(s); 10*n > bound.most {
					t.Errorf("%s: function %d has %d %s, the bound is %d", name, i, n, bound.what, bound.most)
				}
			}
			total.add(s)
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if total.body == 0 || total.live == 0 || total.pairs == 0 {
			t.Errorf("%s: nothing was counted: %+v", name, total)
		}
		for _, bound := range moduleBounds {
			if n := bound.of(total); 10*n > bound.most {
				t.Errorf("%s has %d %s, the bound is %d", name, n, bound.what, bound.most)
			}
		}
	}
}

// scan parses a module and returns the parser, with the code still in it.
func scan(tb testing.TB, b []byte) *moduleParser {
	tb.Helper()
	p, err := newModuleParser(b)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestShape(t *testing.T) {
	for _, c := range []struct {
		name string
		bomb *bomb
		want shape
	}{
		{"empty", &bomb{}, shape{body: 2, blocks: 1, live: 1}},
		{"locals", &bomb{locals: 3}, shape{body: 4, locals: 3, blocks: 1, live: 4}},
		// Start and end of the block, and the end of the function.
		{"block", emptyBlocks(1), shape{body: 5, depth: 1, blocks: 3, live: 3}},
		{"loops", nestedLoops(1, 2, 5), shape{body: 18, locals: 5, depth: 2, blocks: 7, loops: 2, nested: 2, live: 42, carried: 18}},
		{"br_table", brTables(1, 2), shape{body: 12, depth: 1, blocks: 6, targets: 3, live: 9}},
		// Two accesses are known at the block's start, both branches and both ends.
		{"accesses", accesses(2, 2), shape{body: 29, locals: 1, depth: 1, blocks: 5, live: 10, checked: 10}},
		{"operands", (&bomb{}).op(0x41, 0, 0x41, 0, opBlock, 0x40, opEnd, 0x1a, 0x1a), shape{body: 11, depth: 1, blocks: 3, live: 7}},
		// What is on the stack does not outlive a branch.
		{"branch", (&bomb{}).op(opBlock, 0x40, 0x41, 0, 0x41, 0, opBr, 0, opEnd), shape{body: 11, depth: 1, blocks: 3, live: 3}},
		// The access in one arm of an if is not known after it.
		{"if", (&bomb{}).op(0x41, 0, opIf, 0x40, 0x41, 0, 0x28, 2, 0, 0x1a, opEnd), shape{body: 13, depth: 1, blocks: 3, live: 3}},
	} {
		var got shape
		if err := scan(t, c.bomb.module(1)).functions(func(_ int, s shape) error { got = s; return nil }); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// validates reports whether wazero takes the module, without compiling it to
// machine code.
func validates(b []byte) bool {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, b)
	return err == nil
}

// Every opcode is read to the byte as wazero reads it, and pushes as many values:
// after an unreachable its operands need not be there, and what it pushes must be
// dropped before the end.
func TestInstructionsAreReadAsTheRuntimeReadsThem(t *testing.T) {
	immediates := map[immediate][]byte{
		immNone: {}, immByte: {0}, immIndex: {0}, immTwoIndexes: {0, 0}, immMemory: {0, 0}, immMemoryLane: {0, 0, 0},
		imm4: make([]byte, 4), imm8: make([]byte, 8), imm16: make([]byte, 16), immInt: {0x80, 0}, immType: {0x70}, immTypes: {1, 0x7f},
		immBlock: {0x40, opEnd}, immTargets: {2, 0, 0, 0},
	}
	module := func(code []byte) []byte {
		body := append(append([]byte{1, 1, 0x70, opBlock, 0x40, 0x00}, code...), opEnd, opEnd)
		entry := append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)
		return assemble(
			rawSection{1, []byte{1, 0x60, 0, 0}}, rawSection{3, []byte{1, 0}}, rawSection{4, []byte{1, 0x70, 0, 1}},
			rawSection{5, []byte{1, 0, 1}}, rawSection{globalSection, []byte{1, 0x7f, 1, 0x41, 0, opEnd}},
			rawSection{elementSection, []byte{1, 1, 0, 1, 0}}, rawSection{countSection, []byte{1}},
			rawSection{codeSection, entry}, rawSection{dataSection, []byte{1, 1, 0}})
	}
	check := func(name string, prefix []byte, ins instruction) {
		code := append(bytes.Clone(prefix), immediates[ins.imm]...)
		if prefix[0] == 0x20 || prefix[0] == 0x21 || prefix[0] == 0x22 || prefix[0] == opElse || prefix[0] == opEnd {
			return // need a local, or an open block
		}
		accepted := validates(module(code)) || validates(module(append(bytes.Clone(code), 0x1a)))
		_, err := parseModule(module(code))
		if accepted != (err == nil) {
			t.Errorf("%s: wazero accepts it: %t, the scanner: %v", name, accepted, err)
		}
		if accepted && ins.delta > 0 && validates(module(code)) {
			t.Errorf("%s pushes nothing, the scanner counts %d", name, ins.delta)
		}
	}
	for op, ins := range plainOpcodes {
		if op != opMisc && op != opVector {
			check(instructionName(op), []byte{byte(op)}, ins)
		}
	}
	for op, ins := range miscOpcodes {
		check(instructionName(opMisc<<8|op), []byte{opMisc, byte(op)}, ins)
	}
	for op, ins := range vectorOpcodes {
		prefix := []byte{opVector, byte(op)}
		if op >= 0x80 {
			prefix = append(prefix, 1)
		}
		check(instructionName(opVector<<8|op), prefix, ins)
	}
}

func instructionName(op int) string { return fmt.Sprintf("instruction 0x%x", op) }

// Whatever code wazero takes is read to its end.
func FuzzScanCode(f *testing.F) {
	for _, b := range []*bomb{sequentialLoops(2, 3), nestedLoops(1, 3, 2), brTables(2, 3), operands(2, 2), accesses(2, 2), callsWithGlobals(2, 0)} {
		f.Add(b.code, byte(b.locals))
	}
	f.Add([]byte{opVector, 12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0x1a}, byte(0))
	f.Add([]byte{opVector, 0x8c, 0, 0x41, 0}, byte(0))
	f.Add([]byte{opBlock, 0xc0, 0x7f, opEnd}, byte(0))
	f.Fuzz(func(t *testing.T, code []byte, locals byte) {
		b := (&bomb{locals: int(locals), code: code}).module(1)
		if _, err := parseModule(b); err != nil && validates(b) && !strings.Contains(err.Error(), "this host compiles at most") {
			t.Fatalf("wazero takes what the scanner refuses: %v", err)
		}
	})
}
