package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	if !json.Valid(data) {
		var v any
		return bad("%s", jsonProblem(data, json.Unmarshal(data, &v)))
	}
	top, err := object("it", data)
	if err != nil {
		return bad("%s", err)
	}
	m := &Message{Raw: data}
	calls, toolCalls, content := top["calls"], top["tool_calls"], top["content"]
	switch {
	case present(calls) && (present(toolCalls) || present(content)):
		return bad(`it has "calls" beside "tool_calls" or "content": use one dialect`)
	case present(calls):
		m.Dialect = DialectOwn
		m.Calls, err = parseOwn(data)
	case present(toolCalls):
		m.Dialect = DialectOpenAI
		if err = onlyText(content); err == nil {
			m.Calls, err = parseOpenAI(toolCalls)
		}
	case present(content):
		m.Dialect = DialectAnthropic
		m.Calls, err = parseAnthropic(content)
	default:
		return bad(`it has none of "calls" (own form), "content" with tool_use blocks (Anthropic) and "tool_calls" (OpenAI)`)
	}
	if err == nil {
		err = fromAssistant(top["role"])
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
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return "it begins with a byte order mark: save it as UTF-8 without one"
	}
	var se *json.SyntaxError
	if errors.As(err, &se) {
		line, col := position(data, se.Offset)
		return fmt.Sprintf("line %d, column %d: invalid JSON: %v", line, col, se)
	}
	return err.Error()
}

func position(data []byte, offset int64) (line, col int) {
	if offset > int64(len(data)) {
		offset = int64(len(data))
	}
	head := data[:max(offset-1, 0)]
	return bytes.Count(head, []byte("\n")) + 1, len(head) - bytes.LastIndexByte(head, '\n')
}

func present(r json.RawMessage) bool { return len(r) > 0 && string(r) != "null" }

// object splits a JSON object into its members. Keys are taken to the letter, and
// one that is there twice is refused: another reader of the same message might
// take the other value.
func object(what string, raw json.RawMessage) (map[string]json.RawMessage, error) {
	if !present(raw) {
		return nil, fmt.Errorf("%s is missing", what)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	t, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%s: %s", what, jsonProblem(raw, err))
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("%s is not a JSON object", what)
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %s", what, jsonProblem(raw, err))
		}
		key, _ := t.(string)
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("%s has the key %q twice", what, key)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, fmt.Errorf("%s: %q: %s", what, key, jsonProblem(raw, err))
		}
		members[key] = v
	}
	return members, nil
}

// array splits a JSON array of objects.
func array(what string, raw json.RawMessage) ([]map[string]json.RawMessage, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("%s is not a JSON array", what)
	}
	out := make([]map[string]json.RawMessage, len(items))
	for i, item := range items {
		var err error
		if out[i], err = object(fmt.Sprintf("%s[%d]", what, i), item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// text is a member that is a string, or absent.
func text(what string, raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s is not a string", what)
	}
	return s, nil
}

// fromAssistant refuses a message that says it is somebody else's: calls in it were
// not made by the model.
func fromAssistant(raw json.RawMessage) error {
	role, err := text("role", raw)
	if err == nil && role != "" && role != "assistant" {
		err = fmt.Errorf("its role is %q, calls are in messages of the assistant", role)
	}
	return err
}

// onlyText refuses tool_use blocks beside tool_calls: half of the calls would be
// left out.
func onlyText(content json.RawMessage) error {
	if !present(content) || bytes.HasPrefix(bytes.TrimSpace(content), []byte(`"`)) {
		return nil
	}
	blocks, err := array("content", content)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if kind, _ := text("type", b["type"]); kind == "tool_use" {
			return errors.New(`it has tool_use blocks beside "tool_calls": use one dialect`)
		}
	}
	return nil
}

// parseOwn is strict: the form is ours, so an unknown key is a mistake, and one
// that would ask for a place to run must not look as if it were obeyed.
func parseOwn(data []byte) ([]batch.RequestedCall, error) {
	top, err := object("it", data)
	if err != nil {
		return nil, err
	}
	if err := onlyKeys("it", top, "calls"); err != nil {
		return nil, err
	}
	list, err := array("calls", top["calls"])
	if err != nil {
		return nil, err
	}
	calls := make([]batch.RequestedCall, 0, len(list))
	for i, c := range list {
		what := fmt.Sprintf("calls[%d]", i)
		if err := onlyKeys(what, c, "id", "tool", "arguments"); err != nil {
			return nil, err
		}
		id, ierr := text(what+".id", c["id"])
		tool, terr := text(what+".tool", c["tool"])
		if err := errors.Join(ierr, terr); err != nil {
			return nil, err
		}
		calls = append(calls, batch.RequestedCall{ID: batch.CallID(id), Tool: batch.ToolID(tool), Arguments: orEmptyObject(c["arguments"])})
	}
	return calls, nil
}

func onlyKeys(what string, members map[string]json.RawMessage, known ...string) error {
	for key := range members {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s has the unknown key %q: a message has calls, a call has id, tool and arguments, and nothing else", what, key)
		}
	}
	return nil
}

func parseAnthropic(content json.RawMessage) ([]batch.RequestedCall, error) {
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte(`"`)) {
		return nil, errors.New("its content is plain text without tool_use blocks")
	}
	blocks, err := array("content", content)
	if err != nil {
		return nil, err
	}
	var calls []batch.RequestedCall
	for i, b := range blocks {
		what := fmt.Sprintf("content[%d]", i)
		kind, err := text(what+".type", b["type"])
		if err != nil {
			return nil, err
		}
		if kind != "tool_use" {
			continue
		}
		id, ierr := text(what+".id", b["id"])
		name, nerr := text(what+".name", b["name"])
		if err := errors.Join(ierr, nerr); err != nil {
			return nil, err
		}
		calls = append(calls, batch.RequestedCall{ID: batch.CallID(id), Tool: batch.ToolID(name), Arguments: orEmptyObject(b["input"])})
	}
	return calls, nil
}

func parseOpenAI(toolCalls json.RawMessage) ([]batch.RequestedCall, error) {
	list, err := array("tool_calls", toolCalls)
	if err != nil {
		return nil, err
	}
	calls := make([]batch.RequestedCall, 0, len(list))
	for i, c := range list {
		what := fmt.Sprintf("tool_calls[%d]", i)
		kind, kerr := text(what+".type", c["type"])
		id, ierr := text(what+".id", c["id"])
		if err := errors.Join(kerr, ierr); err != nil {
			return nil, err
		}
		if kind != "" && kind != "function" {
			return nil, fmt.Errorf("%s has type %q, function is known", what, kind)
		}
		function, err := object(what+".function", c["function"])
		if err != nil {
			return nil, err
		}
		name, err := text(what+".function.name", function["name"])
		if err != nil {
			return nil, err
		}
		calls = append(calls, batch.RequestedCall{ID: batch.CallID(id), Tool: batch.ToolID(name), Arguments: unwrapString(function["arguments"])})
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
