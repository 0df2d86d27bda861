package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What differs from run to run. A text that stands for itself throughout a document
// (bound) must do so in what is printed too, and is put into later commands.
var variables = []struct {
	pattern string
	bound   bool
}{
	{`tk-[a-z2-7]{13}`, true},
	{`[0-9]{8}t[0-9]{6}-[a-z2-7]{13}`, true},
	{`\b[0-9a-f]{64}\b`, true},
	{`\b[0-9A-F]{16}\b`, true},
	{`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})`, false},
	{`[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}`, false},
	{`\b[0-9]+\.[0-9]+m?s\b`, false},
}

var anyVariable = func() *regexp.Regexp {
	var all []string
	for _, v := range variables {
		all = append(all, "("+v.pattern+")")
	}
	return regexp.MustCompile(strings.Join(all, "|") + "|(…)")
}()

// bindings are what the bound texts of a document stand for.
type bindings map[string]string

// command puts what is bound into a command line.
func (b bindings) command(line string) string {
	return anyVariable.ReplaceAllStringFunc(line, func(s string) string {
		if real, ok := b[s]; ok {
			return real
		}
		return s
	})
}

// match compares what a document says is printed with what was. In what it says, …
// is anything, alone on a line any number of lines; white space counts as one space;
// JSON may be laid out freely.
func (b bindings) match(want, got string) error {
	if w, g, ok := bothJSON(want, got); ok {
		want, got = w, g
	} else {
		want, got = squeeze(want), squeeze(got)
	}
	var (
		re    strings.Builder
		names []string
	)
	re.WriteString(`(?s)\A`)
	literal := func(s string) { re.WriteString(regexp.QuoteMeta(s)) }
	lines := strings.SplitAfter(want, "\n")
	for _, line := range lines {
		if strings.TrimSpace(line) == "…" {
			re.WriteString(`(?:[^\n]*\n)*`)
			continue
		}
		at := 0
		for _, m := range anyVariable.FindAllStringSubmatchIndex(line, -1) {
			literal(line[at:m[0]])
			at = m[1]
			text := line[m[0]:m[1]]
			if text == "…" {
				re.WriteString(`[^\n]*`)
				continue
			}
			for i, v := range variables {
				if m[2*i+2] < 0 {
					continue
				}
				if real, ok := b[text]; ok {
					literal(real)
				} else if v.bound {
					names = append(names, text)
					re.WriteString("(" + v.pattern + ")")
				} else {
					re.WriteString("(?:" + v.pattern + ")")
				}
			}
		}
		literal(line[at:])
	}
	re.WriteString(`\z`)
	found := regexp.MustCompile(re.String()).FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("the document says\n%s\nand this was printed\n%s", indent(want), indent(got))
	}
	for i, name := range names {
		real := found[i+1]
		if old, ok := b[name]; ok && old != real {
			return fmt.Errorf("%s stands for %s and for %s in\n%s", name, old, real, indent(got))
		}
		b[name] = real
	}
	return nil
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// squeeze makes runs of spaces one, and drops those at the end of lines.
func squeeze(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		out.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return out.String()
}

// bothJSON compacts the JSON that both begin with: in what is printed it is the first
// line, in what a document says it ends with a closing bracket at the margin.
func bothJSON(want, got string) (string, string, bool) {
	first, rest, _ := strings.Cut(got, "\n")
	if want == "" || want[0] != '{' && want[0] != '[' || !json.Valid([]byte(first)) {
		return "", "", false
	}
	var value bytes.Buffer
	if json.Compact(&value, []byte(first)) != nil {
		return "", "", false
	}
	end := 0
	for line := range strings.Lines(want) {
		end += len(line)
		if last := strings.TrimRight(line, "\n"); last == "}" || last == "]" || end == len(line) && balanced(last) {
			break
		}
	}
	return compactLoose(want[:end]) + "\n" + squeeze(want[end:]), value.String() + "\n" + squeeze(rest), true
}

func balanced(s string) bool {
	return strings.Count(s, "{") == strings.Count(s, "}") && strings.Count(s, "[") == strings.Count(s, "]")
}

// compactLoose drops white space outside of strings, also of JSON with … in it.
func compactLoose(s string) string {
	var out strings.Builder
	inString, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			escaped = false
		case inString && r == '\\':
			escaped = true
		case r == '"':
			inString = !inString
		case !inString && (r == ' ' || r == '\n' || r == '\t'):
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

func TestMatch(t *testing.T) {
	const one, two = "tk-aaaaaaaaaaaaa", "tk-bbbbbbbbbbbbb"
	for _, tc := range []struct {
		name, want, got string
		ok              bool
	}{
		{"same", "a  b\nc\n", "a b \nc\n", true},
		{"other", "a\n", "b\n", false},
		{"more printed", "a\n", "a\nb\n", false},
		{"less printed", "a\nb\n", "a\n", false},
		{"nothing said", "", "a\n", false},
		{"anything in a line", "a … c\n", "a b b c\n", true},
		{"not over lines", "a … c\n", "a b\nb c\n", false},
		{"any lines", "a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"no lines", "a\n…\n", "a\n", true},
		{"a time", "at 2026-01-02T03:04:05Z\n", "at 2027-11-12T13:14:15Z\n", true},
		{"no time", "at 2026-01-02T03:04:05Z\n", "at noon\n", false},
		{"how long", "1.9ms\n", "31.22s\n", true},
		{"the same ticket", one + " " + one + "\n", two + " " + two + "\n", true},
		{"two tickets", one + " " + one + "\n", two + " tk-ccccccccccccc\n", false},
		{"JSON in another layout", "{\n \"a\": [1, 2]\n}\n", `{"a":[1,2]}`, true},
		{"JSON and more", "{\n \"a\": 1\n}\nb\n", "{\"a\":1}\nb\n", true},
		{"JSON and other", "{\n \"a\": 1\n}\nb\n", "{\"a\":1}\nc\n", false},
		{"JSON on one line", "{\"a\": 1}\nb\n", "{\"a\":1}\nb\n", true},
		{"JSON with a gap", "{\n \"a\": 1, …\n}\n", `{"a":1,"b":2}`, true},
		{"other JSON", "{\"a\": 1}\n", `{"a":2}`, false},
		{"spaces in strings count", `{"a": "b c"}`, `{"a":"bc"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := (bindings{}).match(tc.want, tc.got); (err == nil) != tc.ok {
				t.Errorf("match is %v: %v", err == nil, err)
			}
		})
	}
	b := bindings{}
	if err := b.match("ticket "+one+"\n", "ticket "+two+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := b.command("approve " + one); got != "approve "+two {
		t.Error(got)
	}
	if err := b.match(one+"\n", "tk-ccccccccccccc\n"); err == nil {
		t.Error("a bound ticket became another")
	}
}
