// Command text is a plugin of small text tools: word_count, extract_links, diff.
//
// Built with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared.
package main

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/extism/go-pdk"
)

// A reactor module needs a main function; it never runs.
func main() {}

func fail(format string, args ...any) int32 {
	pdk.SetErrorString(fmt.Sprintf(format, args...))
	return 1
}

func answer(v any) int32 {
	if err := pdk.OutputJSON(v); err != nil {
		return fail("writing the answer: %v", err)
	}
	return 0
}

type counts struct {
	Words      int `json:"words"`
	Unique     int `json:"unique_words"`
	Characters int `json:"characters"`
	Lines      int `json:"lines"`
	Bytes      int `json:"bytes"`
}

// The input of word_count and extract_links is the bare text (encoding
// "text:text"), so no JSON is parsed here.
//
//go:wasmexport word_count
func wordCount() int32 {
	return answer(count(pdk.InputString()))
}

func count(text string) counts {
	c := counts{Characters: utf8.RuneCountInString(text), Bytes: len(text)}
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '’' && r != '-'
	})
	seen := map[string]bool{}
	for _, w := range words {
		if w = strings.Trim(w, "'’-"); w != "" {
			c.Words++
			seen[strings.ToLower(w)] = true
		}
	}
	c.Unique = len(seen)
	if text != "" {
		c.Lines = strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	}
	return c
}

type link struct {
	URL  string `json:"url"`
	Host string `json:"host"`
}

var linkStart = regexp.MustCompile(`(?i)\bhttps?://[^\s<>"'` + "`" + `]+`)

//go:wasmexport extract_links
func extractLinks() int32 {
	return answer(map[string]any{"links": links(pdk.InputString())})
}

func links(text string) []link {
	found, seen := []link{}, map[string]bool{}
	for _, raw := range linkStart.FindAllString(text, -1) {
		raw = trimSentence(raw)
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || seen[raw] {
			continue
		}
		seen[raw] = true
		found = append(found, link{URL: raw, Host: strings.ToLower(u.Hostname())})
	}
	return found
}

// trimSentence takes off what ends a sentence or a bracket around the link, but
// keeps a closing bracket that was opened inside it.
func trimSentence(s string) string {
	for s != "" {
		last := s[len(s)-1]
		switch {
		case strings.IndexByte(".,;:!?*_", last) >= 0:
		case last == ')' && strings.Count(s, "(") < strings.Count(s, ")"):
		case last == ']' && strings.Count(s, "[") < strings.Count(s, "]"):
		case last == '}' && strings.Count(s, "{") < strings.Count(s, "}"):
		default:
			return s
		}
		s = s[:len(s)-1]
	}
	return s
}

//go:wasmexport diff
func diff() int32 {
	var in struct {
		Before string `json:"before"`
		After  string `json:"after"`
	}
	if err := pdk.InputJSON(&in); err != nil {
		return fail("the input is not what the schema says: %v", err)
	}
	text, err := lineDiff(in.Before, in.After)
	if err != nil {
		return fail("%v", err)
	}
	if text == "" {
		text = "The texts have the same lines.\n"
	}
	pdk.OutputString(text)
	return 0
}
