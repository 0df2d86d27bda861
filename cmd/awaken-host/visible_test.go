package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, tc := range []struct{ name, in, line, text string }{
		{"plain", "a b", "a b", "a b"},
		{"lines and tabs", "a\n\tb\r\nc", "a b c", "a\n\tb\nc"},
		{"outer space", "  a \n", "a", "  a \n"},
		{"colour", "\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"title", "\x1b]0;owned\x07", `\x1b]0;owned\x07`, `\x1b]0;owned\x07`},
		{"overwrite", "good\rbad", "good bad", `good\x0dbad`},
		{"backspace", "a\x08b\x7f", `a\x08b\x7f`, `a\x08b\x7f`},
		{"one-byte CSI", "\u009b2J", `\u009b2J`, `\u009b2J`},
		{"bytes that are not UTF-8", "a\xffb\xc3", `a\xffb\xc3`, `a\xffb\xc3`},
		{"direction", "a\u202eb\u2066c", `a\u202eb\u2066c`, `a\u202eb\u2066c`},
		{"no shape", "a\u200bb\ufeffc", `a\u200bb\ufeffc`, `a\u200bb\ufeffc`},
		{"tag beyond 16 bits", "a\U000e0041", `a\U000e0041`, `a\U000e0041`},
		{"other scripts", "Grüße 你好 שלום", "Grüße 你好 שלום", "Grüße 你好 שלום"},
		{"wide space", "a\u3000b", "a b", "a\u3000b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := visibleLine(tc.in); got != tc.line {
				t.Errorf("line: %q, want %q", got, tc.line)
			}
			if got := visibleText(tc.in); got != tc.text {
				t.Errorf("text: %q, want %q", got, tc.text)
			}
		})
	}
}

// What somebody decides about is shown to the byte, on one line.
func TestExact(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"spaces", `{"text":"rm /data/my  file   now"}`, `{"text":"rm /data/my  file   now"}`},
		{"outer spaces", "  a ", "  a "},
		{"lines", "a\nb\r\n\tc", `a\nb\r\n\tc`},
		{"escapes that are there", `"\u202e\n"`, `"\u202e\n"`},
		{"other spaces", "a\u00a0b\u3000c\u2028d", `a\u00a0b\u3000c\u2028d`},
		{"no shape", "a\u3164b\u2800c\u115fd\ufe00e\u034ff", `a\u3164b\u2800c\u115fd\ufe00e\u034ff`},
		{"colour", "\x1b[31m", `\x1b[31m`},
		{"not UTF-8", "a\xff", `a\xff`},
		{"other scripts", "Grüße 你好", "Grüße 你好"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := exact(tc.in); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestHeadAndTail(t *testing.T) {
	whole := strings.Repeat("x", mostShown)
	if got, left := headAndTail(whole); got != whole || left != 0 {
		t.Errorf("%d bytes are cut to %q, %d left out", len(whole), got, left)
	}
	long := "begin" + strings.Repeat("é", mostShown) + "end"
	got, left := headAndTail(long)
	head, tail, ok := strings.Cut(got, fmt.Sprintf(" (… %d bytes left out …) ", left))
	if !ok || !strings.HasPrefix(long, head) || !strings.HasSuffix(long, tail) || len(head)+left+len(tail) != len(long) {
		t.Errorf("%d left out: %q", left, got)
	}
	if len(head) < mostShown/3 || len(tail) < mostShown/3 || !utf8.ValidString(got) {
		t.Errorf("head of %d bytes, tail of %d: %q", len(head), len(tail), got)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"", 3, ""}, {"你好吗", 6, "你好吗"}, {"你好吗", 5, "你好…"}, {"你好吗", 4, "你…"},
		{"e\u0301a", 2, "e\u0301a"}, {"e\u0301abc", 2, "e\u0301…"},
	} {
		got := cut(tc.in, tc.width)
		if got != tc.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tc.in, tc.width, got, tc.want)
		}
		if w := textWidth(got); w > tc.width {
			t.Errorf("cut(%q, %d) is %d wide", tc.in, tc.width, w)
		}
	}
}

// harmless reports whether s does nothing on a terminal but show text, lines and
// tabs.
func harmless(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
	}) < 0
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2J", "\xff\xfe", "a\r\nb\rc", "\u202e\u009b", "\U000e0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if text := visibleText(s); !harmless(text) {
			t.Errorf("visibleText(%q) = %q", s, text)
		}
		if e := exact(s); !harmless(e) || strings.ContainsAny(e, "\n\t\u00a0") {
			t.Errorf("exact(%q) = %q", s, e)
		}
		line := visibleLine(s)
		if !harmless(line) || strings.ContainsAny(line, "\n\t") {
			t.Errorf("visibleLine(%q) = %q", s, line)
		}
		if c := cut(line, 20); textWidth(c) > 20 {
			t.Errorf("cut(%q, 20) is %d wide", line, textWidth(c))
		}
	})
}

func FuzzVisibleJSON(f *testing.F) {
	for _, s := range []string{`{"a":"b"}`, "[\"\u009b\u202e\u007f\"]", "\"\U000e0041\"", `["\ud800"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want any
		if !utf8.ValidString(s) || json.Unmarshal([]byte(s), &want) != nil {
			t.Skip("not JSON")
		}
		out := visibleJSON([]byte(s))
		var got any
		if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("visibleJSON(%q) = %q: another value (%v)", s, out, err)
		}
		if !harmless(strings.ReplaceAll(string(out), "\r", "\n")) { // CR is white space between tokens
			t.Errorf("visibleJSON(%q) = %q", s, out)
		}
	})
}
