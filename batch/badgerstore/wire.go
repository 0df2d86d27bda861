package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The encoding of a record's fields: in a fixed order, without names. JSON would
// compact JSON inside it, replace text that is not UTF-8, and cost more than the
// rest of a commit. Numbers are varints; strings are a length and their bytes;
// lists carry their length plus one, so that nil (0) stays apart from empty (1).
//
// The bytes of heavy fields do not stand where their lengths do, but together
// behind all other fields, so that they can be kept in a file of their own; see
// seal. Format 1 had all bytes in place.

// heavyBytes is the length from which a field is heavy. Part of the format.
const heavyBytes = 1 << 10

// encoder appends fields to a record.
type encoder struct {
	p     []byte // envelope and light fields
	heavy []byte
	err   error // the first value that cannot be encoded
}

// newRecord starts a record with its envelope; size is a guess of its length.
func newRecord(kind byte, size int) *encoder {
	return &encoder{p: append(make([]byte, 0, 3+size), formatVersion, kind, shapeLight)}
}

func (e *encoder) uint(n uint64) { e.p = binary.AppendUvarint(e.p, n) }

func (e *encoder) int(n int) { e.p = binary.AppendVarint(e.p, int64(n)) }

func (e *encoder) bool(b bool) {
	if b {
		e.p = append(e.p, 1)
	} else {
		e.p = append(e.p, 0)
	}
}

func (e *encoder) bytes(b []byte) {
	e.list(b == nil, len(b))
	if len(b) >= heavyBytes {
		e.heavy = append(e.heavy, b...)
		return
	}
	e.p = append(e.p, b...)
}

// list starts a list of n elements.
func (e *encoder) list(isNil bool, n int) {
	if isNil {
		e.uint(0)
		return
	}
	e.uint(uint64(n) + 1)
}

func (e *encoder) time(t time.Time) {
	at := len(e.p)
	p, err := t.AppendBinary(append(e.p, 0))
	if err != nil {
		e.err = errors.Join(e.err, err)
		return
	}
	p[at] = byte(len(p) - at - 1)
	e.p = p
}

func putString[S ~string](e *encoder, s S) {
	e.uint(uint64(len(s)))
	if len(s) >= heavyBytes {
		e.heavy = append(e.heavy, s...)
		return
	}
	e.p = append(e.p, s...)
}

func putStrings[S ~string](e *encoder, list []S) {
	e.list(list == nil, len(list))
	for _, s := range list {
		putString(e, s)
	}
}

// decoder takes fields from a record in the order they were encoded. After the
// first error it returns zero values.
type decoder struct {
	p      []byte
	heavy  []byte
	err    error
	format byte
}

// openRecord checks the envelope of rec.
func openRecord(kind byte, rec []byte) *decoder {
	switch {
	case len(rec) < 2:
		return &decoder{err: fmt.Errorf("it has %d bytes", len(rec))}
	case rec[0] < oldestFormat || rec[0] > formatVersion:
		return &decoder{err: fmt.Errorf("its format is %d and this program reads %d to %d: use the version of the program that wrote it", rec[0], oldestFormat, formatVersion)}
	case rec[1] != kind:
		return &decoder{err: fmt.Errorf("it is of kind %q instead of %q", rec[1], kind)}
	}
	if rec[0] == 1 {
		return &decoder{p: rec[2:], format: 1}
	}
	light, heavy, err := split(rec)
	return &decoder{p: light, heavy: heavy, err: err, format: rec[0]}
}

var errShort = errors.New("it is cut short")

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.p, d.heavy, d.err = nil, nil, err
	}
}

func (d *decoder) uint() uint64 {
	n, w := binary.Uvarint(d.p)
	if w <= 0 {
		d.fail(errShort)
		return 0
	}
	d.p = d.p[w:]
	return n
}

func (d *decoder) int() int {
	n, w := binary.Varint(d.p)
	if w <= 0 {
		d.fail(errShort)
		return 0
	}
	d.p = d.p[w:]
	return int(n)
}

func (d *decoder) bool() bool {
	b := d.raw(1)
	if len(b) == 1 && b[0] > 1 {
		d.fail(fmt.Errorf("%d is no truth value", b[0]))
	}
	return len(b) == 1 && b[0] == 1
}

// raw returns the next n bytes of the record itself.
func (d *decoder) raw(n uint64) []byte {
	if n > uint64(len(d.p)) {
		d.fail(errShort)
		return nil
	}
	p := d.p[:n]
	d.p = d.p[n:]
	return p
}

// field returns the next field of n bytes, from where it lies.
func (d *decoder) field(n uint64) []byte {
	if n < heavyBytes || d.format < 2 {
		return d.raw(n)
	}
	if n > uint64(len(d.heavy)) {
		d.fail(errShort)
		return nil
	}
	p := d.heavy[:n]
	d.heavy = d.heavy[n:]
	return p
}

// bytes returns a copy.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n == 0 {
		return nil
	}
	p := d.field(n - 1)
	if d.err != nil {
		return nil
	}
	return append(make([]byte, 0, len(p)), p...)
}

// list returns the length of a list, false for nil. Every element has a byte at
// least, so a length that makes no sense allocates nothing.
func (d *decoder) list() (int, bool) {
	n := d.uint()
	if n == 0 {
		return 0, false
	}
	if n-1 > uint64(len(d.p)) {
		d.fail(errShort)
		return 0, false
	}
	return int(n - 1), true
}

func (d *decoder) time() (t time.Time) {
	if n := d.raw(1); len(n) == 1 {
		if p := d.raw(uint64(n[0])); d.err == nil {
			if err := t.UnmarshalBinary(p); err != nil {
				d.fail(err)
			}
		}
	}
	return t
}

func getString[S ~string](d *decoder) S { return S(d.field(d.uint())) }

func getStrings[S ~string](d *decoder) []S {
	n, ok := d.list()
	if !ok {
		return nil
	}
	list := make([]S, 0, min(n, 16))
	for range n {
		if list = append(list, getString[S](d)); d.err != nil {
			return nil
		}
	}
	return list
}

// done reports the first error, or what is left over.
func (d *decoder) done() error {
	if n := len(d.p) + len(d.heavy); n > 0 {
		d.fail(fmt.Errorf("%d bytes are left over", n))
	}
	return d.err
}
