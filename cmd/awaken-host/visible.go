package main

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text of guests, models and files is shown with everything spelled out that
// could act on a terminal or hide what it says: control characters, escape
// sequences, bytes that are not UTF-8, characters without a shape, and those that
// turn the direction of writing.

// visibleLine is s on one line, runs of white space being one space.
func visibleLine(s string) string {
	var b strings.Builder
	space := false
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsSpace(r) {
			space = b.Len() > 0
		} else {
			if space {
				b.WriteByte(' ')
				space = false
			}
			spell(&b, r, s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// visibleText is s with its lines and tabs.
func visibleText(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == '\n' || r == '\t' || unicode.Is(unicode.Zs, r) {
			b.WriteString(s[:n])
		} else {
			spell(&b, r, s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// exact is s on one line with nothing lost: spaces stay as many as there are, and
// every other white space is spelled. In JSON the escapes are JSON's own.
func exact(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch r {
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			spell(&b, r, s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// mostShown is how many bytes are shown of a text that somebody decides about.
const mostShown = 2 << 10

// headAndTail is s without its middle where it is longer than mostShown, and how
// many bytes are left out.
func headAndTail(s string) (shown string, left int) {
	if len(s) <= mostShown {
		return s, 0
	}
	head, tail := mostShown/2, len(s)-mostShown/2
	for head > mostShown/2-utf8.UTFMax && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s)-mostShown/2+utf8.UTFMax && !utf8.RuneStart(s[tail]) {
		tail++
	}
	left = tail - head
	return fmt.Sprintf("%s (… %d bytes left out …) %s", s[:head], left, s[tail:]), left
}

// blank are printable by Unicode's classes, and yet nothing is seen of them.
func blank(r rune) bool {
	return r == '\u2800' || r >= utf8.RuneSelf && unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// hidden reports whether nobody sees r, or sees something else for it.
func hidden(r rune) bool { return !unicode.IsPrint(r) || blank(r) }

func spell(b *strings.Builder, r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		_, _ = fmt.Fprintf(b, `\x%02x`, raw[0])
	case !hidden(r):
		b.WriteString(raw)
	case r < utf8.RuneSelf:
		_, _ = fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		_, _ = fmt.Fprintf(b, `\u%04x`, r)
	default:
		_, _ = fmt.Fprintf(b, `\U%08x`, r)
	}
}

// visibleJSON is the same JSON value with the characters above spelled as escapes
// of its strings, where alone valid JSON can have them. Nothing is lost.
func visibleJSON(raw []byte) []byte {
	spelled := func(r rune) bool {
		return r >= 0x7f && hidden(r) && !unicode.Is(unicode.Zs, r)
	}
	if bytes.IndexFunc(raw, spelled) < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)+64)
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case !spelled(r):
			out = append(out, raw[:n]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		raw = raw[n:]
	}
	return out
}

// wide are the blocks whose characters take two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// cut shortens a visible line to width columns, with an ellipsis where it does.
func cut(s string, width int) string {
	n, keep := 0, 0
	for i, r := range s {
		if n += columns(r); n > width {
			return s[:keep] + "…"
		}
		if n <= width-1 {
			keep = i + utf8.RuneLen(r)
		}
	}
	return s
}
