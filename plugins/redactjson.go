package plugins

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns raw without secrets: raw itself where there are none. It looks into
// strings and keys however they are escaped, and at numbers, which become strings.
// What was valid stays valid, and text that is not JSON is treated as Bytes does.
func (r *Redactor) JSON(raw json.RawMessage) json.RawMessage {
	s := r.needles()
	if s == nil {
		return raw
	}
	if !s.in(raw) && bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	if !json.Valid(raw) {
		return r.Bytes(raw)
	}
	out := redactTokens(s, raw)
	if out == nil {
		out = raw
	}
	// A secret that is itself JSON can stand across several tokens.
	if _, _, n := find(s, out, 0); n != nil {
		out = encodeText(n.mark)
		if s.in(out) {
			out = []byte(`""`)
		}
	}
	return out
}

// redactTokens returns valid JSON with the strings and numbers replaced that hold a
// secret, nil when none does.
func redactTokens(s *needleSet, raw []byte) (out []byte) {
	kept := 0 // where what was not copied begins
	for at := 0; at < len(raw); {
		end := tokenEnd(raw, at)
		if token := raw[at:end]; len(token) >= MinSecretBytes {
			if text := tokenText(token); s.in(text) {
				out = append(append(out, raw[kept:at]...), encodeText(string(replace(s, text)))...)
				kept = end
			}
		}
		at = end
	}
	if kept == 0 {
		return nil
	}
	return append(out, raw[kept:]...)
}

// tokenText is what a string says, and any other token itself.
func tokenText(token []byte) []byte {
	if token[0] != '"' {
		return token
	}
	var text string
	if bytes.IndexByte(token, '\\') >= 0 && json.Unmarshal(token, &text) == nil {
		return []byte(text)
	}
	return token[1 : len(token)-1]
}

// tokenEnd returns where the token of valid JSON ends that begins at at: a string, a
// run of the characters of numbers and names, or one other byte.
func tokenEnd(raw []byte, at int) int {
	switch c := raw[at]; {
	case c == '"':
		for i := at + 1; i < len(raw); i++ {
			switch raw[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return len(raw)
	case wordByte(c):
		end := at + 1
		for end < len(raw) && wordByte(raw[end]) {
			end++
		}
		return end
	}
	return at + 1
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("+-.", c) >= 0
}

func encodeText(text string) []byte { return []byte(`"` + jsonEscaped(text, false) + `"`) }
