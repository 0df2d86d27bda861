package plugins

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// minSecretLine is the shortest line of a value of several lines that is looked for
// by itself: shorter ones are those that any file of the kind has.
const minSecretLine = 16

// secretValue is a value and the texts under which it is looked for.
type secretValue struct {
	text  string
	forms []string
}

func newSecretValue(text string) secretValue {
	forms := secretForms(text)
	slices.Sort(forms)
	forms = slices.DeleteFunc(slices.Compact(forms), func(f string) bool { return len(f) < MinSecretBytes })
	return secretValue{text, forms}
}

// secretForms lists the texts under which a value is looked for, with repetitions.
func secretForms(value string) []string {
	forms := append(textForms(value),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))))
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, enc.EncodeToString([]byte(value)))
		// Inside of a longer text that was encoded, "user:secret" for one, only the
		// digits count that the neighbours have no part in.
		for before := range 3 {
			digits := enc.EncodeToString(append(make([]byte, before), value...))
			forms = append(forms, digits[(before*8+5)/6:(before+len(value))*8/6])
		}
	}
	if !strings.ContainsAny(value, "\r\n") {
		return forms
	}
	for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		// The frame of a PEM block is no secret.
		if len(line) >= minSecretLine && !strings.HasPrefix(line, "-----") {
			forms = append(forms, textForms(line)...)
		}
	}
	return forms
}

// textForms are the value and what escaping makes of it.
func textForms(value string) []string {
	plain := jsonEscaped(value, false)
	query, percent := url.QueryEscape(value), percentEscaped(value)
	return []string{
		value,
		plain, jsonEscaped(value, true), strings.ReplaceAll(plain, "/", `\/`), asciiEscaped(plain),
		inner(strconv.Quote(value)), inner(strconv.QuoteToASCII(value)),
		query, lowerPercent(query), percent, lowerPercent(percent), url.PathEscape(value),
		html.EscapeString(value),
	}
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// jsonEscaped is the inside of a JSON string, as encoding/json writes it.
func jsonEscaped(value string, forHTML bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(forHTML)
	_ = enc.Encode(value) // a string always encodes
	return inner(strings.TrimSuffix(b.String(), "\n"))
}

// asciiEscaped writes every other character as \u, as JSON writers do that keep to
// ASCII.
func asciiEscaped(escaped string) string {
	var b strings.Builder
	for _, r := range escaped {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// percentEscaped leaves the unreserved characters of RFC 3986 as they are.
func percentEscaped(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

func lowerPercent(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}
