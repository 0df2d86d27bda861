package docs

import (
	"regexp"
	"strings"
	"testing"
)

// block is one fenced block of a document.
type block struct {
	line int // of its fence, from 1
	kind string
	rest string // of the info string
	text string // ends with a new line, unless empty
}

// document is a Markdown file cut into what is tested.
type document struct {
	name   string
	blocks []block
	prose  []string // lines outside of blocks, empty inside; index 0 is line 1
}

func parse(t *testing.T, name string) *document {
	t.Helper()
	d := &document{name: name}
	var open *block
	for i, line := range strings.Split(read(t, name), "\n") {
		fence := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case fence && open == nil:
			if !strings.HasPrefix(line, "```") {
				t.Errorf("%s:%d: a block is indented: move it to the margin", name, i+1)
			}
			kind, rest, _ := strings.Cut(strings.TrimSpace(strings.TrimLeft(line, " `")), " ")
			open = &block{line: i + 1, kind: kind, rest: strings.TrimSpace(rest)}
			d.prose = append(d.prose, "")
		case fence:
			d.blocks = append(d.blocks, *open)
			open = nil
			d.prose = append(d.prose, "")
		case open != nil:
			open.text += line + "\n"
			d.prose = append(d.prose, "")
		default:
			d.prose = append(d.prose, line)
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block does not end", name, open.line)
	}
	for i, line := range d.prose {
		before := i == 0 || strings.TrimSpace(d.prose[i-1]) == ""
		if before && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")) {
			t.Errorf("%s:%d: an indented block is not tested: fence it", name, i+1)
		}
	}
	return d
}

var spanPattern = regexp.MustCompile("`([^`]+)`")

// spans are the pieces of code in a line of prose.
func spans(line string) []string {
	var out []string
	for _, m := range spanPattern.FindAllStringSubmatch(line, -1) {
		out = append(out, m[1])
	}
	return out
}

// words are all texts that may name something: prose and console blocks, by line.
func (d *document) words(visit func(line int, text string)) {
	for i, l := range d.prose {
		visit(i+1, l)
	}
	for _, b := range d.blocks {
		if b.kind != "console" {
			continue
		}
		for i, l := range strings.Split(b.text, "\n") {
			if command, ok := strings.CutPrefix(l, "$ "); ok {
				visit(b.line+1+i, "`"+command+"`")
			}
		}
	}
}
