package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
)

func TestParseMessage(t *testing.T) {
	for name, c := range map[string]struct {
		in      string
		dialect host.Dialect
		args    []string // "id tool arguments"
	}{
		"own":                    {`{"calls":[{"id":"a","tool":"t","arguments":{"x": 1}},{"id":"b","tool":"u"}]}`, host.DialectOwn, []string{`a t {"x": 1}`, `b u {}`}},
		"own, bytes kept":        {`{"calls":[{"id":"a","tool":"t","arguments":{ "n":1.0, "n2":12345678901234567890 }}]}`, host.DialectOwn, []string{`a t { "n":1.0, "n2":12345678901234567890 }`}},
		"own, odd arguments":     {`{"calls":[{"id":"a","tool":"t","arguments":[1]}]}`, host.DialectOwn, []string{`a t [1]`}},
		"own, invalid UTF-8":     {"{\"calls\":[{\"id\":\"a\",\"tool\":\"t\",\"arguments\":{\"x\":\"\xff\"}}]}", host.DialectOwn, []string{"a t {\"x\":\"\xff\"}"}},
		"anthropic":              {`{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"a","name":"t","input":{"x":1}}],"stop_reason":"tool_use"}`, host.DialectAnthropic, []string{`a t {"x":1}`}},
		"anthropic, no input":    {`{"content":[{"type":"tool_use","id":"a","name":"t"}]}`, host.DialectAnthropic, []string{`a t {}`}},
		"openai":                 {`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{\"x\": 1}"}}]}`, host.DialectOpenAI, []string{`a t {"x": 1}`}},
		"openai, text beside":    {`{"content":"let me see","tool_calls":[{"id":"a","function":{"name":"t","arguments":""}}]}`, host.DialectOpenAI, []string{`a t {}`}},
		"openai, broken JSON":    {`{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{\"x\":"}}]}`, host.DialectOpenAI, []string{`a t {"x":`}},
		"openai, lone surrogate": {`{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{\"x\":\"\ud800\"}"}}]}`, host.DialectOpenAI, []string{`a t "{\"x\":\"\ud800\"}"`}},
		"openai, replacement":    {`{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{\"x\":\"\uFFFD\"}"}}]}`, host.DialectOpenAI, []string{"a t {\"x\":\"\uFFFD\"}"}},
		"openai, invalid UTF-8":  {"{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"t\",\"arguments\":\"{\\\"x\\\":\\\"\xff\\\"}\"}}]}", host.DialectOpenAI, []string{"a t \"{\\\"x\\\":\\\"\xff\\\"}\""}},
		"openai, object":         {`{"tool_calls":[{"id":"a","function":{"name":"t","arguments":{"x":1}}}]}`, host.DialectOpenAI, []string{`a t {"x":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := host.ParseMessage([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if m.Dialect != c.dialect || string(m.Raw) != c.in {
				t.Errorf("dialect %s, raw %q", m.Dialect, m.Raw)
			}
			var got []string
			for _, call := range m.Calls {
				got = append(got, string(call.ID)+" "+string(call.Tool)+" "+string(call.Arguments))
			}
			if strings.Join(got, "\n") != strings.Join(c.args, "\n") {
				t.Errorf("calls\n%q, want\n%q", got, c.args)
			}
		})
	}
}

func TestParseMessageRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":            {"", "it is empty"},
		"blank":              {" \n", "it is empty"},
		"not JSON":           {"{\n \"calls\": [}\n", "line 2, column 12: invalid JSON"},
		"cut off":            {`{"calls":`, "invalid JSON"},
		"trailing":           {`{"calls":[]} x`, "line 1, column 14: invalid JSON"},
		"array":              {`[]`, "it is not a JSON object"},
		"no known key":       {`{"messages":[]}`, `it has none of "calls"`},
		"two dialects":       {`{"calls":[],"tool_calls":[]}`, "use one dialect"},
		"no calls":           {`{"calls":[]}`, "no tool calls"},
		"no tool_use":        {`{"content":[{"type":"text","text":"x"}]}`, "no tool calls"},
		"plain text":         {`{"content":"hello"}`, "plain text"},
		"unknown key":        {`{"calls":[{"id":"a","tool":"t","target":"brain"}]}`, `calls[0] has the unknown key "target"`},
		"id is a number":     {`{"calls":[{"id":1,"tool":"t"}]}`, "calls[0].id is not a string"},
		"other kind of call": {`{"tool_calls":[{"id":"a","type":"custom"}]}`, `tool_calls[0] has type "custom"`},
		"key twice":          {`{"calls":[],"calls":[{"id":"a","tool":"t"}]}`, `it has the key "calls" twice`},
		"tool twice":         {`{"calls":[{"id":"a","tool":"t","tool":"u"}]}`, `calls[0] has the key "tool" twice`},
		"arguments twice":    {`{"calls":[{"id":"a","tool":"t","arguments":{},"arguments":{"x":1}}]}`, `calls[0] has the key "arguments" twice`},
		"other case":         {`{"Calls":[{"id":"a","tool":"t"}]}`, `it has none of "calls"`},
		"other case of id":   {`{"calls":[{"ID":"a","tool":"t"}]}`, `unknown key "ID"`},
		"input twice":        {`{"content":[{"type":"tool_use","id":"a","name":"t","input":{},"input":{}}]}`, `content[0] has the key "input" twice`},
		"function twice":     {`{"tool_calls":[{"id":"a","function":{"name":"t","name":"u"}}]}`, `tool_calls[0].function has the key "name" twice`},
		"tool_use beside":    {`{"tool_calls":[{"id":"a","function":{"name":"t"}}],"content":[{"type":"tool_use","id":"b","name":"u"}]}`, "use one dialect"},
		"a user's message":   {`{"role":"user","content":[{"type":"tool_use","id":"a","name":"t"}]}`, `its role is "user"`},
		"calls is an object": {`{"calls":{}}`, "calls is not a JSON array"},
		"no function":        {`{"tool_calls":[{"id":"a"}]}`, "tool_calls[0].function is missing"},
		"byte order mark":    {"\xef\xbb\xbf{}", "byte order mark"},
		"tool name bytes":    {"{\"calls\":[{\"id\":\"a\",\"tool\":\"\xff\"}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := host.ParseMessage([]byte(c.in))
			if c.want == "" { // decoded with U+FFFD: an unknown tool, not a broken message
				if err != nil || len(m.Calls) != 1 {
					t.Errorf("%v, %v", m, err)
				}
				return
			}
			if !errors.Is(err, host.ErrMessage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrMessage with %q", err, c.want)
			}
		})
	}
}

func TestParseMessageBoundsSize(t *testing.T) {
	if _, err := host.ParseMessage(make([]byte, host.MaxMessageBytes+1)); !errors.Is(err, host.ErrMessage) {
		t.Errorf("error %v", err)
	}
}

func TestAnswer(t *testing.T) {
	results := []host.CallResult{
		{CallID: "a", Phase: batch.PhaseCompleted, Content: []batch.ContentBlock{batch.TextBlock("hi"), batch.JSONBlock([]byte(`{"n":1}`))}},
		{CallID: "b", Phase: batch.PhaseCompleted, IsError: true, Content: []batch.ContentBlock{batch.TextBlock("no"), batch.TextBlock("")}},
		{CallID: "c", Phase: batch.PhaseCompleted, Content: []batch.ContentBlock{{Type: batch.BlockImage, MimeType: "image/png", Data: []byte("x")}}},
	}
	for d, want := range map[host.Dialect]string{
		host.DialectAnthropic: `{"role":"user","content":[` +
			`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"hi"},{"type":"text","text":"{\"n\":1}"}]},` +
			`{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"no"}],"is_error":true},` +
			`{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}}]}]}`,
		host.DialectOpenAI: `[{"role":"tool","tool_call_id":"a","content":"hi\n{\"n\":1}"},` +
			`{"role":"tool","tool_call_id":"b","content":"error: no\n"},` +
			`{"role":"tool","tool_call_id":"c","content":"[image image/png, 1 bytes]"}]`,
		host.DialectOwn: `{"run":"r","batch":"r/1","phase":"finalized","results":[` +
			`{"call_id":"a","tool":"","phase":"completed","is_error":false,"content":[{"type":"text","text":"hi"},{"type":"json","json":{"n":1}}],"executed":null},` +
			`{"call_id":"b","tool":"","phase":"completed","is_error":true,"content":[{"type":"text","text":"no"},{"type":"text","text":""}],"executed":null},` +
			`{"call_id":"c","tool":"","phase":"completed","is_error":false,"content":[{"type":"image","data":"eA==","mime_type":"image/png"}],"executed":null}],"tickets":[]}`,
	} {
		r := host.Result{Run: "r", Batch: "r/1", Phase: batch.BatchFinalized, Results: results, Tickets: []host.TicketView{}, Dialect: d}
		got, err := r.Answer()
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s, want\n%s", d, err, got, want)
		}
		r.Phase = batch.BatchOpen
		if got, err := r.Answer(); err != nil || (got == nil) != (d != host.DialectOwn) {
			t.Errorf("%s, open: %s, %v", d, got, err)
		}
	}
}

// FuzzParseMessage: no input panics, and what is accepted is a message whose
// calls can be traced in it.
func FuzzParseMessage(f *testing.F) {
	for _, s := range []string{
		`{"calls":[{"id":"a","tool":"t","arguments":{"x":1}}]}`,
		`{"content":[{"type":"tool_use","id":"a","name":"t","input":{"x":1}}]}`,
		`{"tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{\"x\":\"\ud800\"}"}}]}`,
		`{"calls":null,"content":[]}`, "\xff", `{`, `{"Calls":[{"ID":"a"}]}`,
	} {
		f.Add([]byte(s))
	}
	files, _ := filepath.Glob("../examples/wasm-tools/*/batch.json")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := host.ParseMessage(data)
		if err != nil {
			if !errors.Is(err, host.ErrMessage) {
				t.Errorf("error of another class: %v", err)
			}
			return
		}
		if !json.Valid(data) || len(m.Calls) == 0 {
			t.Errorf("accepted %q with %d calls", data, len(m.Calls))
		}
		for _, c := range m.Calls {
			if m.Dialect != host.DialectOpenAI && string(c.Arguments) != "{}" && !bytes.Contains(data, c.Arguments) {
				t.Errorf("arguments %q are not in the message", c.Arguments)
			}
		}
	})
}
