package wasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The runtime looks whether a call has ended at the heads of loops, and nowhere
// else. A guest that only calls its own functions, or only fills its memory in a
// straight line, has no loop: it could not be stopped, and as its code cannot be
// preempted either, the next garbage collection would stop the whole process until
// it comes to an end, which can be never. So what is compiled is not quite what the
// author built: at the entry of functions, and before instructions that can take
// long, it counts what it does, and every maxUnchecked goes through an empty loop.
//
// The count is a global behind those of the module, and functions behind its own do
// the counting. Its code can name neither: codeScanner refuses an index that the
// module does not have.

// checkpoint is where a function counts, and how much.
type checkpoint struct {
	at     int // offset in its function's entry in the code section
	weight int
}

// What is counted, in units of at most about a microsecond.
const (
	maxUnchecked   = 1024
	weightBulk     = 256 // an instruction that moves up to a whole memory or table
	weightImport   = 64  // a function of the host may copy a MiB
	weightIndirect = 1   // may be a function of the host, or a small one without a checkpoint
	bytesPerUnit   = 512 // of a function's own code
	smallFunction  = 512 // bytes; a smaller one that calls nothing ends soon, and does not count itself
	callsBetween   = 64  // calls of the module's own functions between two checkpoints; a weight
	callsPerUnit   = 4   // of those before the first one
)

// weights are those that a checkpoint can have, and the order of the functions that
// count them.
var weights = []int{1, 16, 64, 256, maxUnchecked}

// weigh notes a checkpoint before the instruction that begins at the given offset,
// where it needs one.
func (c *codeScanner) weigh(at int, op, index uint32) {
	switch op {
	case opCall:
		if int(index) < c.imported {
			c.check(at, weightImport)
			return
		}
		c.calls++
		if c.due++; c.due > callsBetween {
			c.check(at, callsBetween)
			c.due = 1
		}
	case opCallIndirect:
		c.check(at, weightIndirect)
	case opMisc<<8 | 8, opMisc<<8 | 10, opMisc<<8 | 11, // memory.init, copy, fill
		opMisc<<8 | 12, opMisc<<8 | 14, opMisc<<8 | 17: // table.init, copy, fill
		c.check(at, weightBulk)
	}
}

func (c *codeScanner) check(at, weight int) { c.checks = append(c.checks, checkpoint{at, weight}) }

// checkpoints are those of a function that was just scanned, whose code begins at
// the given offset of its entry and is size bytes long. They are in order.
func (c *codeScanner) checkpoints(start, size int) []checkpoint {
	if c.calls == 0 && size < smallFunction && len(c.checks) == 0 {
		return nil
	}
	units := max(size/bytesPerUnit, min(c.calls, callsBetween)/callsPerUnit)
	entry := checkpoint{start, weights[len(weights)-1]}
	for _, w := range slices.Backward(weights) {
		if w > units {
			entry.weight = w
		}
	}
	return append([]checkpoint{entry}, c.checks...)
}

// appendUnsigned appends a number as an unsigned LEB128; n is not negative.
func appendUnsigned(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(max(n, 0))) }

// appendSigned appends a number as a signed LEB128; n is not negative.
func appendSigned(b []byte, n int) []byte {
	for ; n >= 0x40; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n&0x3f))
}

// appendCounter appends the entry in the code section of a function that counts. It
// takes nothing, so that a guest that finds a way to call it can only count too.
func appendCounter(out []byte, global, weight int) []byte {
	get := appendUnsigned([]byte{opGlobalGet}, global)
	set := appendUnsigned([]byte{opGlobalSet}, global)
	code := slices.Concat([]byte{0}, get, appendSigned([]byte{0x41}, weight), []byte{0x6a}, set, // add
		get, appendSigned([]byte{0x41}, maxUnchecked), []byte{0x4f, opIf, 0x40, 0x41, 0}, set, // if it is as much, back to 0
		[]byte{opLoop, 0x40, opEnd, opEnd, opEnd})
	return append(appendUnsigned(out, len(code)), code...)
}

// interruptible returns the module with its checkpoints, and with readyExport where
// that is of use. Sections other than those of types, functions, globals, exports
// and code are kept byte for byte.
func (m *module) interruptible(b []byte) ([]byte, error) {
	if !m.prepares() && !slices.ContainsFunc(m.checks, func(c []checkpoint) bool { return len(c) > 0 }) {
		return b, nil
	}
	out := append(make([]byte, 0, len(b)+len(b)/8+1024), b[:8]...)
	counter := []byte{0x7f, 1, 0x41, 0, opEnd} // i32, mutable, 0
	counted := false
	var nothing uint32 // the type of the functions that count
	r := &reader{b: b, at: 8}
	for r.at < len(b) && r.err == nil {
		start := r.at
		id := r.byte()
		body := r.bytes(int(r.u32()))
		if !counted && id != customSection && after(id, globalSection) {
			out = appendList(out, globalSection, nil, 1, counter)
			counted = true
		}
		switch id {
		case typeSection:
			nothing = (&reader{b: body}).count()
			out = appendList(out, id, body, 1, []byte{0x60, 0, 0})
		case functionSection:
			out = appendList(out, id, body, len(weights), bytes.Repeat(binary.AppendUvarint(nil, uint64(nothing)), len(weights)))
		case globalSection:
			counted = true
			out = appendList(out, id, body, 1, counter)
		case exportSection:
			if !m.prepares() {
				out = append(out, b[start:r.at]...)
				continue
			}
			m.ready = true
			export := append(appendUnsigned(nil, len(readyExport)), readyExport...)
			export = append(export, 0) // a function
			out = appendList(out, id, body, 1, appendUnsigned(export, m.functions))
		case codeSection:
			var err error
			if out, err = m.appendChecked(out, body); err != nil {
				return nil, err
			}
		default:
			out = append(out, b[start:r.at]...)
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("its sections are damaged: %w", r.err)
	}
	return out, nil
}

// after reports whether section a comes later than b in a module.
func after(a, b byte) bool {
	order := []byte{typeSection, 2, functionSection, 4, 5, tagSection, globalSection, exportSection, 8, elementSection, countSection, codeSection, dataSection}
	return slices.Index(order, a) > slices.Index(order, b)
}

// appendList appends a section: the list in body, nil for an empty one, and n more
// entries.
func appendList(out []byte, id byte, body []byte, n int, more []byte) []byte {
	list := &reader{b: body}
	have := 0
	if len(body) > 0 {
		have = int(list.count())
	}
	return appendSection(out, id, slices.Concat(appendUnsigned(nil, have+n), body[list.at:], more))
}

func appendSection(out []byte, id byte, body []byte) []byte {
	return append(appendUnsigned(append(out, id), len(body)), body...)
}

// appendChecked appends the code section with the checkpoints in it, and the
// functions that count behind it.
func (m *module) appendChecked(out, section []byte) ([]byte, error) {
	r := &reader{b: section}
	n := int(r.count())
	if n != len(m.checks) {
		return nil, errors.New("its code section has changed since it was read")
	}
	count := map[int][]byte{} // by weight: a call of the function
	for i, w := range weights {
		count[w] = appendUnsigned([]byte{opCall}, m.functions+i)
	}
	// The size in its longest form, since it is known at the end only.
	out = append(out, codeSection, 0x80, 0x80, 0x80, 0x80, 0)
	start := len(out)
	out = appendUnsigned(out, n+len(weights))
	for _, checks := range m.checks {
		body := r.bytes(int(r.u32()))
		if r.err != nil {
			return nil, fmt.Errorf("its code section is damaged: %w", r.err)
		}
		size, from := len(body), 0
		for _, c := range checks {
			if c.at < from || c.at > len(body) {
				return nil, errors.New("its code section has changed since it was read")
			}
			size, from = size+len(count[c.weight]), c.at
		}
		out, from = appendUnsigned(out, size), 0
		for _, c := range checks {
			out = append(append(out, body[from:c.at]...), count[c.weight]...)
			from = c.at
		}
		out = append(out, body[from:]...)
	}
	for _, w := range weights {
		out = appendCounter(out, m.counter, w)
	}
	for i, size := start-5, len(out)-start; i < start; i, size = i+1, size>>7 {
		out[i] |= byte(size & 0x7f)
	}
	return out, nil
}
