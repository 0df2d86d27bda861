package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseContent(t *testing.T) {
	for _, c := range []struct {
		in      string
		blocks  int
		isError bool
		want    string // of the refusal
	}{
		{`[{"type":"text","text":"x"}]`, 1, false, ""},
		{" [ ] \n", 0, false, ""},
		{`{"content":[{"type":"json","json":{"a": 1}},{"type":"text","text":""}],"is_error":true}`, 2, true, ""},
		{`{"content":[]}`, 0, false, ""},

		{``, 0, false, "it is empty"},
		{`{}`, 0, false, `there is no "content"`},
		{`{"content":null}`, 0, false, `there is no "content"`},
		{`"text"`, 0, false, "string"},
		{`[{"type":"text","txt":"x"}]`, 0, false, `unknown field "txt"`},
		{`{"content":[],"state":[]}`, 0, false, `unknown field "state"`},
		{`[] []`, 0, false, "something follows"},
		{`[{"type":"image","data":"%"}]`, 0, false, "base64"},
		{"[{\"type\":\"text\",\"text\":\"\xff\"}]", 0, false, "UTF-8"},
	} {
		content, isError, err := parseContent([]byte(c.in))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.in, err, c.want)
			}
			continue
		}
		if err != nil || len(content) != c.blocks || isError != c.isError || content == nil {
			t.Errorf("%q: %v, %v, %v", c.in, content, isError, err)
		}
	}
}

// What is accepted says the same when it is written and read again.
func FuzzParseContent(f *testing.F) {
	for _, seed := range []string{`[]`, `[{"type":"text","text":"x"}]`, `{"content":[{"type":"image","data":"AAEC","mime_type":"image/png"}],"is_error":true}`, `{`, `[{"type":"json","json":{"a":[1,null]}}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		content, isError, err := parseContent(data)
		if err != nil {
			return
		}
		written, err := json.Marshal(map[string]any{"content": content, "is_error": isError})
		if err != nil {
			return // a json block whose bytes are no JSON is for the engine to refuse
		}
		again, flag, err := parseContent(written)
		if err != nil || flag != isError || len(again) != len(content) {
			t.Fatalf("%q was read as %s, and that as %v, %v, %v", data, written, again, flag, err)
		}
	})
}
