package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

func TestParseJSON(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = `"k` + strings.Repeat("x", i) + `":1`
	}
	tests := []struct{ name, in, want, fails string }{
		{name: "scalars", in: ` [ null , true , false , 0 , -1.5e+3 , "" ] `, want: `[null,true,false,0,-1.5e+3,""]`},
		{name: "digits are kept", in: `[12345678901234567890, 0.10000000000000000001, 1e300]`, want: `[12345678901234567890,0.10000000000000000001,1e300]`},
		{name: "escapes", in: `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"`, want: `"\"\\/\b\f\n\r\té😀é"`},
		{name: "nested", in: `{"a":{"b":[{}]},"c":[]}`, want: `{"a":{"b":[{}]},"c":[]}`},
		{name: "many keys", in: "{" + strings.Join(many, ",") + "}", want: "{" + strings.Join(many, ",") + "}"},
		{name: "empty", in: "", fails: "ends too early"},
		{name: "white space only", in: " \n", fails: "ends too early"},
		{name: "cut short", in: `{"a":[1`, fails: "expected ',' or ']'"},
		{name: "cut in text", in: `"abc`, fails: "ends too early"},
		{name: "cut in an escape", in: `"abc\`, fails: "ends too early"},
		{name: "trailing comma", in: `[1,]`, fails: "starts no value"},
		{name: "trailing comma in object", in: `{"a":1,}`, fails: "expected a key"},
		{name: "bare key", in: `{a:1}`, fails: "expected a key"},
		{name: "no colon", in: `{"a" 1}`, fails: "expected ':'"},
		{name: "two documents", in: `1 2`, fails: "more after the end"},
		{name: "word", in: `nul`, fails: "expected null"},
		{name: "leading zero", in: `01`, fails: "more after the end"},
		{name: "bare point", in: `1.`, fails: "not a number"},
		{name: "bare exponent", in: `1e`, fails: "not a number"},
		{name: "minus", in: `-`, fails: "not a number"},
		{name: "plus", in: `+1`, fails: "starts no value"},
		{name: "NaN", in: `NaN`, fails: "starts no value"},
		{name: "huge exponent", in: `1e2000000000`, fails: "invalid number"},
		{name: "control character", in: "\"a\nb\"", fails: "control character"},
		{name: "control character after an escape", in: "\"\\n\x01\"", fails: "control character"},
		{name: "not UTF-8", in: "\"\xc3\"", fails: "UTF-8"},
		{name: "not UTF-8 after an escape", in: "\"\\n\xc3\"", fails: "UTF-8"},
		{name: "high half alone", in: `"\ud800"`, fails: "surrogate"},
		{name: "low half alone", in: `"\udc00"`, fails: "surrogate"},
		{name: "two high halves", in: `"\ud800\ud800"`, fails: "surrogate"},
		{name: "bad escape", in: `"\x"`, fails: "no escape"},
		{name: "bad hex", in: `"\u+123"`, fails: "four hexadecimal"},
		{name: "key twice", in: `{"a":1,"b":2,"a":3}`, fails: `"a" twice`},
		{name: "key twice in disguise", in: `{"a":1,"\u0061":3}`, fails: `"a" twice`},
		{name: "key twice among many", in: "{" + strings.Join(many, ",") + `,"k":2}`, fails: `"k" twice`},
		{name: "too deep", in: strings.Repeat("[", maxJSONDepth+2), fails: "deep"},
		{name: "too many values", in: "[" + strings.Repeat("1,", maxJSONNodes) + "1]", fails: "values"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := parseJSON([]byte(tt.in))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("got %v, %v, want an error with %q", v, err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := ast.ValueFromReader(strings.NewReader(tt.want))
			if err != nil {
				t.Fatal(err)
			}
			if v.Compare(want) != 0 || v.Hash() != want.Hash() || v.String() != want.String() {
				t.Errorf("got %v, want %v", v, want)
			}
		})
	}
}

// Whatever parseJSON accepts, encoding/json reads the same; whatever it refuses
// and encoding/json accepts is one of the differences stated.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00",null,true]}`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `1e999999999`, `[[[[`, ` {} `, `{"":{"":""}}`, `-0`, `""`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := parseJSON(raw)
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var x any
		reference := dec.Decode(&x)
		if reference == nil {
			if _, err := dec.Token(); err != io.EOF {
				reference = io.ErrUnexpectedEOF
			}
		}
		if err != nil {
			if reference != nil || !utf8.Valid(raw) {
				return
			}
			for _, stated := range []string{"twice", "surrogate", "deep", "values", "invalid number"} {
				if strings.Contains(err.Error(), stated) {
					return
				}
			}
			t.Fatalf("refused %q, which encoding/json accepts: %v", raw, err)
		}
		if reference != nil {
			t.Fatalf("accepted %q, which encoding/json refuses: %v", raw, reference)
		}
		want, err := ast.InterfaceToValue(x)
		if err != nil {
			t.Fatal(err)
		}
		if v.Compare(want) != 0 || v.Hash() != want.Hash() {
			t.Fatalf("read %q as %v, want %v", raw, v, want)
		}
	})
}
