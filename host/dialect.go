package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
)

// Dialect is the form of an assistant message and of its answer.
type Dialect string

// The dialects.
const (
	DialectOwn       Dialect = "awaken"    // {"calls":[{"id","tool","arguments"}]}
	DialectAnthropic Dialect = "anthropic" // {"content":[{"type":"tool_use","id","name","input"}]}
	DialectOpenAI    Dialect = "openai"    // {"tool_calls":[{"id","function":{"name","arguments"}}]}
)

// Message is an assistant message: the calls in it, in model order, and the
// bytes it was read from.
type Message struct {
	Dialect Dialect
	Calls   []batch.RequestedCall
	Raw     []byte
}

// MaxMessageBytes bounds an assistant message.
const MaxMessageBytes = 64 << 20

// ErrMessage reports a message that is not one of the dialects; the returned
// error says what is wrong and where.
var ErrMessage = errors.New("not a usable assistant message")

// ParseMessage reads an assistant message and recognises its dialect by its keys.
// Arguments are kept byte for byte, also when they are not valid: the pipeline
// answers such a call with an error result and leaves the others alone. The
// message keeps data.
func ParseMessage(data []byte) (*Message, error) {
	bad := func(format string, a ...any) (*Message, error) {
		return nil, fmt.Errorf("%s: %w", fmt.Sprintf(format, a...), ErrMessage)
	}
	if len(data) > MaxMessageBytes {
		return bad("it is %d bytes, at most %d are allowed", len(data), MaxMessageBytes)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return bad("it is empty")
	}
	var top struct {
		Calls     json.RawMessage `json:"calls"`
		ToolCalls json.RawMessage `json:"tool_calls"`
		Content   json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &top); err != nil {
		return bad("%s", jsonProblem(data, err))
	}
	m := &Message{Raw: data}
	var err error
	switch has := func(r json.RawMessage) bool { return len(r) > 0 && string(r) != "null" }; {
	case has(top.Calls) && (has(top.ToolCalls) || has(top.Content)):
		return bad(`it has "calls" beside "tool_calls" or "content": use one dialect`)
	case has(top.Calls):
		m.Dialect = DialectOwn
		m.Calls, err = parseOwn(data)
	case has(top.ToolCalls):
		m.Dialect = DialectOpenAI
		m.Calls, err = parseOpenAI(top.ToolCalls)
	case has(top.Content):
		m.Dialect = DialectAnthropic
		m.Calls, err = parseAnthropic(top.Content)
	default:
		return bad(`it has none of "calls" (own form), "content" with tool_use blocks (Anthropic) and "tool_calls" (OpenAI)`)
	}
	if err != nil {
		return bad("%s", err)
	}
	if len(m.Calls) == 0 {
		return bad("it has no tool calls")
	}
	for i, c := range m.Calls {
		if !utf8.ValidString(string(c.ID)) || !utf8.ValidString(string(c.Tool)) {
			return bad("call %d: id or tool name is not UTF-8", i)
		}
	}
	return m, nil
}

// jsonProblem adds line and column to a syntax error.
func jsonProblem(data []byte, err error) string {
	var se *json.SyntaxError
	var te *json.UnmarshalTypeError
	switch {
	case errors.As(err, &se):
		line, col := position(data, se.Offset)
		return fmt.Sprintf("line %d, column %d: invalid JSON: %v", line, col, se)
	case errors.As(err, &te):
		if te.Field == "" {
			return fmt.Sprintf("it is a JSON %s, an object is needed", te.Value)
		}
		return fmt.Sprintf("%q is a %s, %s is needed", te.Field, te.Value, wanted(te.Type.Kind().String()))
	}
	if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Sprintf("unknown key %s: a message has calls, a call has id, tool and arguments, and nothing else", key)
	}
	return err.Error()
}

func wanted(kind string) string {
	switch kind {
	case "slice":
		return "an array"
	case "struct", "map":
		return "an object"
	}
	return "a " + kind
}

func position(data []byte, offset int64) (line, col int) {
	if offset > int64(len(data)) {
		offset = int64(len(data))
	}
	head := data[:max(offset-1, 0)]
	return bytes.Count(head, []byte("\n")) + 1, len(head) - bytes.LastIndexByte(head, '\n')
}

// parseOwn is strict: the form is ours, so an unknown key is a mistake, and one
// that would ask for a place to run must not look as if it were obeyed.
func parseOwn(data []byte) ([]batch.RequestedCall, error) {
	var msg struct {
		Calls []struct {
			ID        batch.CallID    `json:"id"`
			Tool      batch.ToolID    `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"calls"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&msg); err != nil {
		return nil, errors.New(jsonProblem(data, err))
	}
	calls := make([]batch.RequestedCall, 0, len(msg.Calls))
	for _, c := range msg.Calls {
		calls = append(calls, batch.RequestedCall{ID: c.ID, Tool: c.Tool, Arguments: orEmptyObject(c.Arguments)})
	}
	return calls, nil
}

func parseAnthropic(content json.RawMessage) ([]batch.RequestedCall, error) {
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte(`"`)) {
		return nil, errors.New("its content is plain text without tool_use blocks")
	}
	var blocks []struct {
		Type  string          `json:"type"`
		ID    batch.CallID    `json:"id"`
		Name  batch.ToolID    `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(content, &blocks); err != nil {
		return nil, fmt.Errorf("content: %s", jsonProblem(content, err))
	}
	var calls []batch.RequestedCall
	for _, b := range blocks {
		if b.Type == "tool_use" {
			calls = append(calls, batch.RequestedCall{ID: b.ID, Tool: b.Name, Arguments: orEmptyObject(b.Input)})
		}
	}
	return calls, nil
}

func parseOpenAI(toolCalls json.RawMessage) ([]batch.RequestedCall, error) {
	var list []struct {
		ID       batch.CallID `json:"id"`
		Type     string       `json:"type"`
		Function struct {
			Name      batch.ToolID    `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(toolCalls, &list); err != nil {
		return nil, fmt.Errorf("tool_calls: %s", jsonProblem(toolCalls, err))
	}
	calls := make([]batch.RequestedCall, 0, len(list))
	for i, c := range list {
		if c.Type != "" && c.Type != "function" {
			return nil, fmt.Errorf("tool_calls[%d] has type %q, function is known", i, c.Type)
		}
		calls = append(calls, batch.RequestedCall{ID: c.ID, Tool: c.Function.Name, Arguments: unwrapString(c.Function.Arguments)})
	}
	return calls, nil
}

// unwrapString returns the JSON text inside an OpenAI arguments string. Where
// decoding the string would replace bytes (invalid UTF-8, lone surrogates) the
// token itself is kept: it is not an object, so the call is refused rather than
// run with arguments the model did not write.
func unwrapString(raw json.RawMessage) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("{}")
	}
	if raw[0] != '"' {
		return raw
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	if strings.ContainsRune(s, utf8.RuneError) && !spellsReplacement(raw) {
		return raw
	}
	if s == "" { // what providers send for a tool without parameters
		return []byte("{}")
	}
	return []byte(s)
}

// spellsReplacement reports whether the token has U+FFFD because the model wrote
// it, as itself or escaped.
func spellsReplacement(raw []byte) bool {
	return utf8.Valid(raw) && (bytes.ContainsRune(raw, utf8.RuneError) || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)))
}

func orEmptyObject(raw json.RawMessage) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("{}")
	}
	return raw
}
