package badgerstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// The third byte of a record's envelope says where its heavy part is. Nothing
// large enters Badger: its value log would need a second sync a commit and a
// collector of its own, and every compaction would rewrite what lies in tables.
//
//	light    light fields; there are no heavy ones
//	whole    length of the light part, light part, heavy part
//	split    length of the light part, light part, length and digest of the heavy part, which is in a file
//	apart    length and digest of a file, which has what follows the envelope of "whole"
const (
	shapeLight = 0
	shapeWhole = 1
	shapeSplit = 2
	shapeApart = 3
)

// largeBytes is what a record may have without leaving a part of it to a file.
const largeBytes = 32 << 10

// digest is the SHA-256 of a file's content, and its name.
type digest [sha256.Size]byte

// content is what goes to a file.
type content struct {
	digest digest
	parts  [2][]byte // one behind the other
	size   int
}

func newContent(a, b []byte) *content {
	c := &content{parts: [2][]byte{a, b}, size: len(a) + len(b)}
	h := sha256.New()
	h.Write(a)
	h.Write(b)
	h.Sum(c.digest[:0])
	return c
}

// encoded is a record and, for a large one, what belongs into a file before the
// record may be stored.
type encoded struct {
	rec []byte
	big *content
}

const envelopeBytes = 3

// seal ends a record that may leave a part to a file.
func (e *encoder) seal() (encoded, error) {
	if e.err != nil {
		return encoded{}, e.err
	}
	light := e.p[envelopeBytes:]
	switch {
	case len(light)+len(e.heavy) < largeBytes:
		return encoded{rec: e.whole()}, nil
	case len(light) < largeBytes && len(e.heavy) > 0:
		c := newContent(e.heavy, nil)
		rec := e.envelope(shapeSplit, len(light)+2*binary.MaxVarintLen64+sha256.Size)
		rec = append(binary.AppendUvarint(rec, uint64(len(light))), light...)
		return encoded{append(binary.AppendUvarint(rec, uint64(c.size)), c.digest[:]...), c}, nil
	}
	c := newContent(append(binary.AppendUvarint(nil, uint64(len(light))), light...), e.heavy)
	rec := e.envelope(shapeApart, binary.MaxVarintLen64+sha256.Size)
	return encoded{append(binary.AppendUvarint(rec, uint64(c.size)), c.digest[:]...), c}, nil
}

// record ends a record that stays in one piece.
func (e *encoder) record() ([]byte, error) { return e.whole(), e.err }

func (e *encoder) whole() []byte {
	if len(e.heavy) == 0 {
		return e.p
	}
	light := e.p[envelopeBytes:]
	rec := e.envelope(shapeWhole, binary.MaxVarintLen64+len(light)+len(e.heavy))
	rec = append(binary.AppendUvarint(rec, uint64(len(light))), light...)
	return append(rec, e.heavy...)
}

func (e *encoder) envelope(shape byte, room int) []byte {
	return append(make([]byte, 0, envelopeBytes+room), e.p[0], e.p[1], shape)
}

// split returns the parts of a record that is in one piece.
func split(rec []byte) (light, heavy []byte, err error) {
	if len(rec) < envelopeBytes {
		return nil, nil, errShort
	}
	switch body := rec[envelopeBytes:]; rec[2] {
	case shapeLight:
		return body, nil, nil
	case shapeWhole:
		return cutPart(body)
	case shapeSplit, shapeApart:
		return nil, nil, fmt.Errorf("a part of it is in a file")
	}
	return nil, nil, fmt.Errorf("its shape %d is unknown", rec[2])
}

// cutPart takes a length and as many bytes from p.
func cutPart(p []byte) (part, rest []byte, err error) {
	n, w := binary.Uvarint(p)
	if w <= 0 || n > uint64(len(p)-w) {
		return nil, nil, errShort
	}
	return p[w : w+int(n)], p[w+int(n):], nil
}

// elsewhere says which file has a part of the record, false when it is in one
// piece.
func elsewhere(rec []byte) (d digest, size int, ok bool, err error) {
	if len(rec) < envelopeBytes || rec[0] < 2 || rec[2] != shapeSplit && rec[2] != shapeApart {
		return d, 0, false, nil
	}
	p := rec[envelopeBytes:]
	if rec[2] == shapeSplit {
		if _, p, err = cutPart(p); err != nil {
			return d, 0, false, err
		}
	}
	n, w := binary.Uvarint(p)
	if w <= 0 || n > maxFileBytes || len(p[w:]) != len(d) {
		return d, 0, false, errShort
	}
	copy(d[:], p[w:])
	return d, int(n), true, nil
}

// join puts a record and the part that was elsewhere into one piece. The content
// is read into the record's own memory.
func join(rec []byte, size int, read func([]byte) error) ([]byte, error) {
	body := rec[envelopeBytes:]
	if rec[2] == shapeApart {
		body = nil
	} else {
		_, rest, err := cutPart(body)
		if err != nil {
			return nil, err
		}
		body = body[:len(body)-len(rest)]
	}
	whole := make([]byte, envelopeBytes+len(body)+size)
	copy(whole, rec[:envelopeBytes])
	whole[2] = shapeWhole
	n := envelopeBytes + copy(whole[envelopeBytes:], body)
	return whole, read(whole[n:])
}
