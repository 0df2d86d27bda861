package wasm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
)

// decodeOutput turns what a guest wrote into an output. Whatever is not exactly
// what the encoding says is an error for the author to read: it never reaches the
// ledger raw.
func decodeOutput(encoding string, raw []byte) (*batch.Output, error) {
	switch encoding {
	case "text":
		if at := invalidUTF8(raw); at >= 0 {
			return nil, fmt.Errorf("its output is not UTF-8 (byte %d is 0x%02x), and encoding.output is text", at, raw[at])
		}
		return &batch.Output{Content: []batch.ContentBlock{batch.TextBlock(string(raw))}}, nil
	case "json", "":
		if err := checkJSON(raw); err != nil {
			return nil, fmt.Errorf("its output is not one JSON value, and encoding.output is json: %w", err)
		}
		return &batch.Output{Content: []batch.ContentBlock{batch.JSONBlock(bytes.Clone(bytes.TrimSpace(raw)))}}, nil
	case "base64":
		quoted, err := json.Marshal(raw)
		if err != nil {
			return nil, err
		}
		if raw == nil {
			quoted = []byte(`""`)
		}
		return &batch.Output{Content: []batch.ContentBlock{batch.JSONBlock(quoted)}}, nil
	case "blocks":
		out, err := decodeEnvelope(raw)
		if err != nil {
			return nil, fmt.Errorf(`its output is not the envelope {"content":[…],"is_error":…,"state":[…]} that encoding.output = blocks needs: %w`, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unknown output encoding %q: json, text, base64 and blocks are known", encoding)
}

// resultBytes is how large the result is that n bytes of a guest become.
func resultBytes(encoding string, n int) int {
	if encoding == "base64" {
		return base64.StdEncoding.EncodedLen(n)
	}
	return n
}

func decodeEnvelope(raw []byte) (*batch.Output, error) {
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	top, err := exactFields(raw, "content", "is_error", "state")
	if err != nil {
		return nil, err
	}
	var content, state []json.RawMessage
	out := &batch.Output{}
	if raw, ok := top["content"]; !ok {
		return nil, errors.New("content is missing (it may be an empty list)")
	} else if content, err = boundedList(raw, "content", "blocks"); err != nil {
		return nil, err
	}
	if raw, ok := top["is_error"]; ok {
		var isError *bool
		if err := json.Unmarshal(raw, &isError); err != nil || isError == nil {
			return nil, errors.New("is_error is not true or false")
		}
		out.IsError = *isError
	}
	if raw, ok := top["state"]; ok {
		if state, err = boundedList(raw, "state", "commands"); err != nil {
			return nil, err
		}
	}
	out.Content = make([]batch.ContentBlock, len(content))
	for i, raw := range content {
		if err := decodeBlock(raw, &out.Content[i]); err != nil {
			return nil, fmt.Errorf("content block %d: %w", i, err)
		}
	}
	for i, raw := range state {
		c, err := decodeCommand(raw)
		if err != nil {
			return nil, fmt.Errorf("state command %d: %w", i, err)
		}
		out.State = append(out.State, c)
	}
	return out, nil
}

// maxEntries bounds the blocks and the commands of one result. Each takes two bytes
// to write and more than a hundred to keep, and no limit of the plugin's holds those.
const maxEntries = 10_000

func boundedList(raw json.RawMessage, field, what string) ([]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, errors.New(field + " is not a list")
	}
	list := []json.RawMessage{}
	for d.More() {
		if len(list) == maxEntries {
			return nil, fmt.Errorf("%s has more than %d %s", field, maxEntries, what)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func decodeBlock(raw json.RawMessage, b *batch.ContentBlock) error {
	if _, err := exactFields(raw, "type", "text", "data", "mime_type", "uri", "json"); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, b); err != nil {
		return err
	}
	return b.Validate()
}

func decodeCommand(raw json.RawMessage) (batch.Command, error) {
	var c batch.Command
	fields, err := exactFields(raw, "op", "key", "value")
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, err
	}
	_, hasValue := fields["value"]
	switch c.Op {
	case batch.OpSet, batch.OpAppend, batch.OpIncrement:
		if !hasValue {
			return c, fmt.Errorf("%s needs a value", c.Op)
		}
	case batch.OpDelete:
		if hasValue {
			return c, errors.New("delete takes no value")
		}
	default:
		return c, fmt.Errorf("unknown op %q: set, delete, append and increment are known", string(c.Op))
	}
	if c.Key == "" {
		return c, errors.New("key is missing")
	}
	return c, nil
}

// exactFields decodes an object and refuses keys that are not exactly one of
// known: encoding/json would also take them in another case, and twice.
func exactFields(raw json.RawMessage, known ...string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("unknown field %q: %s are known", key, strings.Join(known, ", "))
		}
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("field %q is there twice", key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields[key] = value
	}
	return fields, nil
}

// checkJSON accepts exactly one JSON value (RFC 8259) in UTF-8 whose escapes name
// real characters: other parsers refuse a lone surrogate, or change it.
func checkJSON(raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return errors.New("it is empty")
	}
	if at := invalidUTF8(raw); at >= 0 {
		return fmt.Errorf("byte %d is 0x%02x, which is not UTF-8", at, raw[at])
	}
	if !json.Valid(raw) {
		var v json.RawMessage
		err := json.Unmarshal(raw, &v)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%s (at byte %d)", syntax.Error(), syntax.Offset)
		}
		return fmt.Errorf("invalid JSON: %v", err)
	}
	if at := tooDeep(raw); at >= 0 {
		return fmt.Errorf("it nests deeper than %d at byte %d", maxDepth, at)
	}
	if at := loneSurrogate(raw); at >= 0 {
		return fmt.Errorf("the escape %s at byte %d is half of a surrogate pair", raw[at:at+6], at)
	}
	return nil
}

func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// maxDepth is how deep JSON of a guest may nest.
const maxDepth = 64

// tooDeep returns where valid JSON nests deeper than maxDepth, -1 if nowhere.
func tooDeep(b []byte) int {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// loneSurrogate returns where valid JSON has a \u escape of half a pair, -1 if
// nowhere.
func loneSurrogate(b []byte) int {
	for i := 0; ; {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		unit, ok := escapedUnit(b[i:])
		switch {
		case !ok:
			i += 2
		case unit>>10 == 0xd800>>10:
			low, ok := escapedUnit(b[i+6:])
			if !ok || low>>10 != 0xdc00>>10 {
				return i
			}
			i += 12
		case unit>>10 == 0xdc00>>10:
			return i
		default:
			i += 6
		}
	}
}

func escapedUnit(b []byte) (unit uint16, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | uint16(c)
	}
	return unit, true
}

// maxErrorText bounds what a guest may say about its failure.
const maxErrorText = 16 << 10

// printable makes text of a guest safe to pass on: UTF-8, and no longer than most
// bytes, with the middle of a longer one left out.
func printable(s string, most int) string {
	if len(s) > most {
		half := most / 2
		s = s[:half] + fmt.Sprintf("\n… %d bytes left out …\n", len(s)-2*half) + s[len(s)-half:]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
