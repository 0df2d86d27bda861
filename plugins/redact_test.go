package plugins

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const (
	token = `t0p/s3cr+t "value" & ü`
	pem   = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nQDL1x2Jj8mW7cnYpHh0YvX3P9sRk5uQz\nshort=\n-----END PRIVATE KEY-----"
)

func known(values ...string) *Redactor {
	r := &Redactor{}
	for i, v := range values {
		r.Add(string(rune('A'+i)), []byte(v))
	}
	return r
}

func TestRedactorForms(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	asJSON := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	tests := []struct {
		name, in, want string
	}{
		{"nothing", "no secrets here", "no secrets here"},
		{"empty", "", ""},
		{"alone", token, "[redacted:A]"},
		{"inside", "x" + token + "y", "x[redacted:A]y"},
		{"twice", token + token, "[redacted:A][redacted:A]"},
		{"two", token + "correct horse", "[redacted:A][redacted:B]"},
		{"all but a byte", token[:len(token)-1], token[:len(token)-1]},
		{"base64", b64(token), "[redacted:A]"},
		{"base64 without padding", base64.RawStdEncoding.EncodeToString([]byte("correct horse")), "[redacted:B]Q"},
		{"base64url", base64.URLEncoding.EncodeToString([]byte(token)), "[redacted:A]"},
		{"hex", hex.EncodeToString([]byte(token)), "[redacted:A]"},
		{"HEX", strings.ToUpper(hex.EncodeToString([]byte(token))), "[redacted:A]"},
		{"query", "?a=" + url.QueryEscape(token), "?a=[redacted:A]"},
		{"query in lower case", "?a=" + lowerPercent(url.QueryEscape(token)), "?a=[redacted:A]"},
		{"path", "/" + url.PathEscape(token), "/[redacted:A]"},
		{"JSON", asJSON(token), `"[redacted:A]"`},
		{"JSON of PHP", `"t0p\/s3cr+t \"value\" & ü"`, `"[redacted:A]"`},
		{"JSON of Python", `"t0p/s3cr+t \"value\" & \u00fc"`, `"[redacted:A]"`},
		{"Go", strconv.QuoteToASCII(token), `"[redacted:A]"`},
		{"HTML", `t0p/s3cr+t &#34;value&#34; &amp; ü`, "[redacted:A]"},
		{"a key", pem, "[redacted:C]"},
		{"a line of it", "> QDL1x2Jj8mW7cnYpHh0YvX3P9sRk5uQz", "> [redacted:C]"},
		{"its frame and short lines", "-----BEGIN PRIVATE KEY-----\nshort=", "-----BEGIN PRIVATE KEY-----\nshort="},
	}
	r := known(token, "correct horse", pem)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.String(tt.in); got != tt.want {
				t.Errorf("String: %q, want %q", got, tt.want)
			}
			if got := string(r.Bytes([]byte(tt.in))); got != tt.want {
				t.Errorf("Bytes: %q, want %q", got, tt.want)
			}
			if name, found := r.Finds(tt.in); found != (tt.want != tt.in) || found && !strings.Contains(tt.want, name+"]") {
				t.Errorf("Finds: %q, %v", name, found)
			}
		})
	}
}

// The digits of a secret in the middle of something encoded depend on where it
// stands; those that it shares with a neighbour stay.
func TestRedactorBase64Inside(t *testing.T) {
	r := known("correct horse battery")
	for before := range 7 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", before) + "correct horse battery" + "tail"))
		got := r.String(text)
		plain, err := base64.StdEncoding.DecodeString(strings.Replace(got, "[redacted:A]", "", 1))
		if !strings.Contains(got, "[redacted:A]") || err == nil && bytes.Contains(plain, []byte("orrect")) || len(got) > len(text)-14 {
			t.Errorf("%d before: %s", before, got)
		}
	}
}

func TestRedactorJSON(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", `{"a": [1, "b\u0041", null]}`, `{"a": [1, "b\u0041", null]}`},
		{"string", `{"a": "x correct horse y", "b" : 1}`, `{"a": "x [redacted:A] y", "b" : 1}`},
		{"escaped", `["\u0063orrect\u0020horse"]`, `["[redacted:A]"]`},
		{"key", `{"correct horse":1}`, `{"[redacted:A]":1}`},
		{"number", `{"a":12345678901,"b":[-12345678901.5e3]}`, `{"a":"[redacted:B]","b":["-[redacted:B].5e3"]}`},
		{"JSON inside a string", `{"a":"{\"b\":\"q\\\"uoted secret\"}"}`, `{"a":"{\"b\":\"[redacted:C]\"}"}`},
		{"a secret that is JSON", `{"x":{"type":"account","key":"k"}}`, `"[redacted:D]"`},
		{"not JSON", `{"a": correct horse`, `{"a": [redacted:A]`},
		{"empty", ``, ``},
	}
	r := known("correct horse", "12345678901", `q"uoted secret`, `{"type":"account","key":"k"}`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(r.JSON(json.RawMessage(tt.in))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRedactorWithout(t *testing.T) {
	var none *Redactor
	for _, r := range []*Redactor{none, {}, known("short")} {
		text := []byte("short text")
		if &r.Bytes(text)[0] != &text[0] || r.String("short") != "short" || string(r.JSON([]byte(`"short"`))) != `"short"` || r.Longest() != 0 {
			t.Error("changed something")
		}
		if _, found := r.Finds("short"); found {
			t.Error("found something")
		}
	}
}

// The oldest values of a secret that changes with every call are forgotten, others
// are not.
func TestRedactorForgets(t *testing.T) {
	r := known("stays the same")
	for i := range maxValuesPerName + 1 {
		r.Add("CHANGES", fmt.Appendf(nil, "value number %d", i))
	}
	if got := r.String("stays the same, value number 1, value number 0"); got != "[redacted:A], [redacted:CHANGES], value number 0" {
		t.Error(got)
	}
}

// A secret that the mark itself, or the mark with what stands around it, would spell.
func TestRedactorMarks(t *testing.T) {
	r := known("redacted", "x[redacted", "another one")
	for _, in := range []string{"redacted", "xredacted", "x[redacted", "xanother one", `"redacted"`, `{"a":"xanother one"}`} {
		for _, out := range []string{r.String(in), string(r.JSON([]byte(in)))} {
			for _, s := range []string{"redacted", "another one"} {
				if strings.Contains(out, s) {
					t.Errorf("%q became %q", in, out)
				}
			}
		}
	}
}

func TestRedactorConcurrently(t *testing.T) {
	r := &Redactor{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				value, name := fmt.Sprintf("secret %02d of %d!", i, g), fmt.Sprintf("S%d", g)
				r.Add(name, []byte(value))
				if got := r.String("<" + value + ">"); got != "<[redacted:"+name+"]>" {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	if got := r.String("secret 00 of 0!"); got != "[redacted:S0]" {
		t.Error(got)
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("correct horse", "battery staple", `{"a":"correct horse battery staple"}`, uint8(0))
	f.Add(token, pem, token+pem, uint8(3))
	f.Add("12345678", "redacted", "12345678", uint8(9))
	f.Add("x[redacted:A]", "aaaaaaaa", "aaaaaaaaaaaaaaax[redacted:B]", uint8(14))
	f.Fuzz(func(t *testing.T, a, b, around string, form uint8) {
		r := known(a, b)
		var in string
		if len(a) >= MinSecretBytes {
			forms := secretForms(a)
			in = around + forms[int(form)%len(forms)] + around
		}
		out := r.String(in)
		doc, _ := json.Marshal(map[string]any{in: []any{in, 1.5, nil}, a: b})
		redacted := r.JSON(doc)
		if !json.Valid(redacted) {
			t.Errorf("%s became %s", doc, redacted)
		}
		for _, s := range []string{a, b} {
			if len(s) < MinSecretBytes {
				continue
			}
			if strings.Contains(out, s) || bytes.Contains(redacted, []byte(s)) {
				t.Errorf("%q is left in %q or %s", s, out, redacted)
			}
		}
		var v any
		if err := json.Unmarshal(redacted, &v); err != nil {
			t.Fatal(err)
		}
		walkTexts(v, func(text string) {
			for _, s := range []string{a, b} {
				// A secret is UTF-8; encoding/json would have changed any other.
				if utf8.ValidString(s) && len(s) >= MinSecretBytes && strings.Contains(text, s) {
					t.Errorf("%q is left in %s", s, redacted)
				}
			}
		})
	})
}

func walkTexts(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, e := range v {
			walkTexts(e, visit)
		}
	case map[string]any:
		for k, e := range v {
			visit(k)
			walkTexts(e, visit)
		}
	}
}

func BenchmarkRedactor(b *testing.B) {
	text := []byte(`{"rows":"` + strings.Repeat("nothing to be seen here, ", 40) + `"}`)
	for _, secrets := range []int{0, 1, 100} {
		r := &Redactor{}
		for i := range secrets {
			r.Add("NAME", fmt.Appendf(nil, "the %dth secret of all", i))
		}
		b.Run(fmt.Sprintf("1KiB/secrets=%d", secrets), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.JSON(text)
			}
		})
	}
}
