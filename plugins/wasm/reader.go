package wasm

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// reader decodes the binary format; after an error every read returns zero.
type reader struct {
	b   []byte
	at  int
	err error

	failedAt int // where err was noticed
}

func (r *reader) fail(format string, a ...any) {
	if r.err == nil {
		r.err, r.failedAt = fmt.Errorf(format, a...), r.at
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

// s33 reads a block type's number; types have positive ones.
func (r *reader) s33() int64 {
	var v int64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			unused := 64 - min(shift+7, 33)
			return v << unused >> unused
		}
	}
	r.fail("a number is larger than 33 bits")
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

func (r *reader) funcType() (signature, arity) {
	if form := r.byte(); r.err == nil && form != 0x60 {
		r.fail("type form 0x%x is not a function type (a later proposal of WebAssembly)", form)
	}
	params, results := r.valueTypes(), r.valueTypes()
	return signature(strings.Join(params, ",") + ">" + strings.Join(results, ",")), arity{len(params), len(results)}
}

func (r *reader) valueTypes() []string {
	var names []string
	for n := r.count(); n > 0 && r.err == nil; n-- {
		names = append(names, r.valueType())
	}
	return names
}

// valueType refuses what it does not know: types of later proposals are longer
// than one byte.
func (r *reader) valueType() string {
	t := r.byte()
	name := valueTypeName(t)
	if name == "" && r.err == nil {
		r.fail("0x%x is not a value type of WebAssembly 2.0", t)
	}
	return name
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
	return ""
}
