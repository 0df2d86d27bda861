package badgerstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A blob record is a JSON header and, behind it, the byte strings that must come
// back exactly as they were: JSON inside JSON would be compacted, and text with
// broken UTF-8 replaced. The header holds their lengths in order; a null length
// is a nil slice.
//
//	uvarint header length | header | bytes | bytes | …

// blobs collects byte strings while a header is filled.
type blobs struct {
	parts [][]byte
	size  int
}

func (b *blobs) add(p []byte) *int {
	if p == nil {
		return nil
	}
	b.parts = append(b.parts, p)
	b.size += len(p)
	n := len(p)
	return &n
}

// seal encodes the record; nothing of the added strings is retained.
func (b *blobs) seal(kind byte, header any) ([]byte, error) {
	h, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	rec := make([]byte, 0, 2+binary.MaxVarintLen32+len(h)+b.size)
	rec = append(rec, formatVersion, kind)
	rec = binary.AppendUvarint(rec, uint64(len(h)))
	rec = append(rec, h...)
	for _, p := range b.parts {
		rec = append(rec, p...)
	}
	return rec, nil
}

// unblobs hands out the byte strings of a record in order.
type unblobs struct {
	rest []byte
	err  error
}

// openBlobs decodes the header of a record's body.
func openBlobs(body []byte, header any) (*unblobs, error) {
	n, w := binary.Uvarint(body)
	if w <= 0 || n > uint64(len(body)-w) {
		return nil, errors.New("the header is cut short")
	}
	body = body[w:]
	if err := json.Unmarshal(body[:n], header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return &unblobs{rest: body[n:]}, nil
}

// take returns a copy of the next n bytes, nil for a nil length.
func (u *unblobs) take(n *int) []byte {
	if n == nil || u.err != nil {
		return nil
	}
	if *n < 0 || *n > len(u.rest) {
		u.err = fmt.Errorf("%d bytes are wanted where %d are left", *n, len(u.rest))
		return nil
	}
	p := append(make([]byte, 0, *n), u.rest[:*n]...)
	u.rest = u.rest[*n:]
	return p
}

// done reports a record whose lengths do not add up.
func (u *unblobs) done() error {
	if u.err == nil && len(u.rest) > 0 {
		u.err = fmt.Errorf("%d bytes are left over", len(u.rest))
	}
	return u.err
}

// exactString is a string that keeps bytes which are not UTF-8: a model may
// write any tool name.
type exactString string

type rawBytes struct {
	Raw []byte `json:"raw"`
}

func (s exactString) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(s)) {
		return json.Marshal(string(s))
	}
	return json.Marshal(rawBytes{[]byte(s)})
}

func (s *exactString) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var raw rawBytes
		err := json.Unmarshal(b, &raw)
		*s = exactString(raw.Raw)
		return err
	}
	var plain string
	err := json.Unmarshal(b, &plain)
	*s = exactString(plain)
	return err
}
