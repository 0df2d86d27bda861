// Package strictjson reads JSON from models and plugins such that every reader of the
// same bytes sees the same thing.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a JSON document from a model or a guest.
const (
	MaxDepth        = 64
	MaxValues       = 250_000 // a failed check may hold an error for each
	maxNumberBytes  = 400
	maxNumberExpAbs = 400
)

// Decode reads exactly one JSON value such that every reader of the same
// bytes sees the same thing: UTF-8, no duplicate keys at any level, no lone
// surrogates, numbers a double can hold, bounded depth and number of values, nothing after the
// value. Numbers come back as json.Number.
func Decode(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	r := strictReader{dec: dec}
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the JSON value at byte %d", dec.InputOffset())
	}
	if at := loneSurrogate(data); at >= 0 {
		return nil, fmt.Errorf("a lone surrogate escape at byte %d", at)
	}
	return v, nil
}

type strictReader struct {
	dec    *json.Decoder
	path   []string
	values int
}

func (r *strictReader) at() string { return Clip(Pointer(r.path), 160) }

func (r *strictReader) value() (any, error) {
	if r.values++; r.values > MaxValues {
		return nil, fmt.Errorf("more than %d values", MaxValues)
	}
	tok, err := r.dec.Token()
	if err != nil {
		return nil, r.syntax(err)
	}
	switch t := tok.(type) {
	case json.Number:
		if err := checkNumber(string(t)); err != nil {
			return nil, fmt.Errorf("%s: %w", r.at(), err)
		}
		return t, nil
	case json.Delim:
		if len(r.path) >= MaxDepth {
			return nil, fmt.Errorf("nested deeper than %d levels", MaxDepth)
		}
		if t == '{' {
			return r.object()
		}
		return r.array()
	}
	return tok, nil
}

func (r *strictReader) object() (any, error) {
	out := map[string]any{}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return nil, r.syntax(err)
		}
		key, ok := tok.(string)
		if !ok {
			return nil, fmt.Errorf("not valid JSON at byte %d", r.dec.InputOffset())
		}
		r.path = append(r.path, key)
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s: the key appears twice", r.at())
		}
		if out[key], err = r.value(); err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
	}
	return out, r.end()
}

func (r *strictReader) array() (any, error) {
	out := []any{}
	for r.dec.More() {
		r.path = append(r.path, strconv.Itoa(len(out)))
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		r.path = r.path[:len(r.path)-1]
	}
	return out, r.end()
}

func (r *strictReader) end() error {
	if _, err := r.dec.Token(); err != nil {
		return r.syntax(err)
	}
	return nil
}

func (r *strictReader) syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not valid JSON: it ends too early")
	}
	var se *json.SyntaxError
	if errors.As(err, &se) {
		return fmt.Errorf("not valid JSON at byte %d: %s", se.Offset, Clip(se.Error(), 100))
	}
	return fmt.Errorf("not valid JSON at byte %d: %s", r.dec.InputOffset(), Clip(err.Error(), 100))
}

// checkNumber keeps out what the exact arithmetic of a schema check would expand
// to megabytes, and what other readers turn into infinity.
func checkNumber(text string) error {
	if len(text) > maxNumberBytes {
		return fmt.Errorf("a number is longer than %d bytes", maxNumberBytes)
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if n, err := strconv.Atoi(text[i+1:]); err != nil || n > maxNumberExpAbs || n < -maxNumberExpAbs {
			return errors.New("a number's exponent is out of range")
		}
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(f, 0) {
		return errors.New("a number is out of range")
	}
	return nil
}

// loneSurrogate returns the offset of the first \u escape in valid JSON that is
// half of a pair, -1 when there is none. Readers disagree on what it means.
func loneSurrogate(data []byte) int {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		r := hexEscape(data[i:])
		switch {
		case r < 0:
			i++ // the escaped character, which may itself be a backslash
		case utf16.IsSurrogate(r):
			if utf16.DecodeRune(r, hexEscape(data[min(i+6, len(data)):])) == utf8.RuneError {
				return i
			}
			i += 11
		default:
			i += 5
		}
	}
	return -1
}

func hexEscape(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// Pointer writes an RFC 6901 JSON pointer; the root is "/".
func Pointer(path []string) string {
	if len(path) == 0 {
		return "/"
	}
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(p))
	}
	return b.String()
}

// Clip shortens text from outside, for an error, to at most n bytes at a rune boundary.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
