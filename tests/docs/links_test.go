package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkPattern      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	definedPattern   = regexp.MustCompile(`^\[([^\]]+)\]: (\S+)$`)
	referencePattern = regexp.MustCompile(`\]\[([^\]]+)\]`)
	headingPattern   = regexp.MustCompile(`^#{1,6} +(.+)$`)
)

// TestLinks: what a document links to is there, headings included, and says nothing
// of anybody's machine.
func TestLinks(t *testing.T) {
	for _, name := range documents(t) {
		d := parse(t, name)
		defined := map[string]bool{}
		for _, l := range d.prose {
			if m := definedPattern.FindStringSubmatch(l); m != nil {
				defined[m[1]] = true
				checkLink(t, name, m[2])
			}
		}
		for _, l := range d.prose {
			for _, m := range linkPattern.FindAllStringSubmatch(l, -1) {
				checkLink(t, name, m[1])
			}
			for _, m := range referencePattern.FindAllStringSubmatch(l, -1) {
				if !defined[m[1]] {
					t.Errorf("%s: [%s] is defined nowhere", name, m[1])
				}
			}
		}
	}
}

func checkLink(t *testing.T, name, link string) {
	t.Helper()
	if strings.HasPrefix(link, "https://") {
		return
	}
	if strings.Contains(link, ":") {
		t.Errorf("%s: %s is no https link", name, link)
		return
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := name
	if file != "" {
		target = path.Join(path.Dir(name), file)
		if strings.HasPrefix(target, "..") {
			t.Errorf("%s: %s leads out of the repository", name, link)
			return
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
			t.Errorf("%s: %s is not there", name, link)
			return
		}
	}
	if anchor != "" && !anchors(t, target)[anchor] {
		t.Errorf("%s: %s has no heading #%s", name, target, anchor)
	}
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchors are the headings of a document as links name them.
func anchors(t *testing.T, name string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, l := range parse(t, name).prose {
		if m := headingPattern.FindStringSubmatch(l); m != nil {
			out[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
		}
	}
	return out
}

var machinePattern = regexp.MustCompile(`(?:^|[\s"'=(` + "`" + `])/(?:root|home|work|tmp|Users)/|localhost:\d`)

func TestNoMachine(t *testing.T) {
	for _, name := range documents(t) {
		for i, l := range strings.Split(read(t, name), "\n") {
			if machinePattern.MatchString(l) {
				t.Errorf("%s:%d: %q names a place on somebody's machine", name, i+1, l)
			}
		}
	}
}
