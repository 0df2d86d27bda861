package wasm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// encodeInput turns a call's arguments into what the guest reads: the JSON as the
// model wrote it, or one string argument as text or as the bytes of its base64.
func encodeInput(encoding string, args []byte) ([]byte, error) {
	if encoding == "json" || encoding == "" {
		if len(bytes.TrimSpace(args)) == 0 {
			return []byte("{}"), nil
		}
		return args, nil
	}
	kind, name, ok := strings.Cut(encoding, ":")
	if !ok || name == "" || (kind != "text" && kind != "base64") {
		return nil, fmt.Errorf("unknown input encoding %q: json, text:<argument> and base64:<argument> are known", encoding)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(args, &fields); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
	}
	raw, ok := fields[name]
	if !ok {
		return nil, fmt.Errorf("the argument %q is missing", name)
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return nil, fmt.Errorf("the argument %q is not a string", name)
	}
	if kind == "text" {
		return []byte(*s), nil
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	if err != nil {
		return nil, fmt.Errorf("the argument %q is not base64 (RFC 4648, with padding): %w", name, err)
	}
	return b, nil
}
