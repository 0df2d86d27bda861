package wasm

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecodeEnvelope(t *testing.T) {
	for _, c := range []struct{ raw, wrong string }{
		{`{"content":[]}`, ""},
		{`{"content":[{"type":"text","text":"a"}],"is_error":false,"state":[]}`, ""},
		{`{"content":[{"type":"json","json":null}]}`, ""},
		{`{"content":[{"type":"text","text":"\ud83d\ude00 \\ud800"}]}`, ""},
		{`{"content":[],"state":[{"op":"set","key":"k","value":null},{"op":"delete","key":"k"}]}`, ""},
		{``, "empty"},
		{`[]`, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`{}`, "content is missing"},
		{`{"content":null}`, "content is not a list"},
		{`{"content":{}}`, "content is not a list"},
		{`{"Content":[]}`, `unknown field "Content"`},
		{`{"content":[],"content":[]}`, "twice"},
		{`{"content":[],"call_id":"x"}`, `unknown field "call_id"`},
		{`{"content":[]} {}`, "invalid character"},
		{`{"content":[],"is_error":null}`, "is_error is not"},
		{`{"content":[],"is_error":1}`, "is_error is not"},
		{`{"content":[],"state":null}`, "state is not a list"},
		{`{"content":["a"]}`, "content block 0: it is not a JSON object"},
		{`{"content":[{"type":"video"}]}`, "unknown content block type"},
		{`{"content":[{"type":"text","TEXT":"a"}]}`, `unknown field "TEXT"`},
		{`{"content":[{"type":"image","data":"***","mime_type":"image/png"}]}`, "content block 0"},
		{`{"content":[{"type":"json"}]}`, "valid JSON"},
		{`{"content":[],"state":[{"op":"set","key":"k"}]}`, "set needs a value"},
		{`{"content":[],"state":[{"op":"delete","key":"k","value":1}]}`, "delete takes no value"},
		{`{"content":[],"state":[{"op":"drop","key":"k","value":1}]}`, `unknown op "drop"`},
		{`{"content":[],"state":[{"op":"set","value":1}]}`, "key is missing"},
		{`{"content":[],"state":[{"op":"set","key":"k","value":1,"if":2}]}`, `unknown field "if"`},
	} {
		out, err := decodeOutput("blocks", []byte(c.raw))
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.raw, err)
		case c.wrong != "" && err == nil:
			t.Errorf("%s was accepted: %+v", c.raw, out)
		case c.wrong != "" && !strings.Contains(err.Error(), c.wrong):
			t.Errorf("%s: %v does not say %q", c.raw, err, c.wrong)
		}
	}
}

func TestEncodeInput(t *testing.T) {
	for _, c := range []struct{ encoding, args, want, wrong string }{
		{"json", `{"a": 1}`, `{"a": 1}`, ""},
		{"json", " ", "{}", ""},
		{"text:t", `{"t":"a\nb"}`, "a\nb", ""},
		{"base64:t", `{"t":"/wA="}`, "\xff\x00", ""},
		{"text:t", `{}`, "", `"t" is missing`},
		{"text:t", `{"t":1}`, "", "not a string"},
		{"text:t", `{"t":null}`, "", "not a string"},
		{"text:t", `[1]`, "", "not a JSON object"},
		{"base64:t", `{"t":"?"}`, "", "not base64"},
		{"text:", `{}`, "", "unknown input encoding"},
		{"yaml", `{}`, "", "unknown input encoding"},
	} {
		got, err := encodeInput(c.encoding, []byte(c.args))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s %s: %q, %v; want an error with %q", c.encoding, c.args, got, err, c.wrong)
			}
		} else if err != nil || string(got) != c.want {
			t.Errorf("%s %s: %q, %v", c.encoding, c.args, got, err)
		}
	}
}

func FuzzDecodeOutput(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"a"}],"state":[{"op":"set","key":"k","value":1}]}`,
		`{"content":[{"type":"resource","uri":"x:y","data":"AA=="}],"is_error":true}`,
		`"\ud800\udc00"`, `"\ud800"`, `[[[[1]]]]`, "\xff", `{"content":[]}`, `{"a":1e400}`,
	} {
		for _, e := range []string{"json", "text", "blocks"} {
			f.Add(e, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, encoding string, raw []byte) {
		out, err := decodeOutput(encoding, raw)
		if err != nil {
			return
		}
		for i, b := range out.Content {
			if err := b.Validate(); err != nil {
				t.Fatalf("block %d: %v", i, err)
			}
		}
		stored, err := json.Marshal(out)
		if err != nil || !utf8.Valid(stored) {
			t.Fatalf("an accepted output cannot be stored: %v", err)
		}
		if encoding != "text" && loneSurrogate(stored) >= 0 {
			t.Fatal("a lone surrogate got through")
		}
	})
}

func FuzzEncodeInput(f *testing.F) {
	f.Add("json", []byte(`{}`))
	f.Add("text:t", []byte(`{"t":"x"}`))
	f.Add("base64:t", []byte(`{"t":"AA=="}`))
	f.Fuzz(func(t *testing.T, encoding string, args []byte) {
		if got, err := encodeInput(encoding, args); err == nil && strings.HasPrefix(encoding, "text:") && !utf8.Valid(got) {
			t.Fatalf("%q is not text", got)
		}
	})
}

// A list of very many entries costs the host a hundred times what it costs the guest,
// so it is refused before it is there.
func TestResultsHaveBoundedEntries(t *testing.T) {
	list := func(entry string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	const block, command = `{"type":"text","text":"a"}`, `{"op":"delete","key":"a"}`
	if out, err := decodeOutput("blocks", []byte(`{"content":`+list(block, maxEntries)+`,"state":`+list(command, maxEntries)+`}`)); err != nil || len(out.Content) != maxEntries || len(out.State) != maxEntries {
		t.Errorf("as many as there may be: %v", err)
	}
	for field, raw := range map[string]string{
		"content has more than 10000 blocks": `{"content":` + list("0", 1<<23) + `}`,
		"state has more than 10000 commands": `{"content":[],"state":` + list(command, maxEntries+1) + `}`,
		"content is not a list":              `{"content":null}`,
		"state is not a list":                `{"content":[],"state":null}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeOutput("blocks", []byte(raw))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %q", err, field)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
			t.Errorf("%s: the host took %d MiB", field, took>>20)
		}
	}
}
