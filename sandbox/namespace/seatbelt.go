package namespace

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// seatbelt is what a profile of macOS' Seatbelt says. Paths are absolute and clean, and
// have no symbolic link in them, since Seatbelt compares what they lead to.
type seatbelt struct {
	hand     string // the one program that may be started
	readable []string
	writable []string
	network  sandbox.Network
}

// profile is the text for sandbox-exec: everything is refused but what it lists. No
// process can be started but the Hand, so none outlives it.
//
// The language has no published definition. What is used here is what Apple's own
// profiles under /System/Library/Sandbox/Profiles use.
func (s *seatbelt) profile() (string, error) {
	var b strings.Builder
	b.WriteString("(version 1)\n(deny default)\n")
	line := func(operations, filter string, paths ...string) error {
		if len(paths) == 0 {
			return nil
		}
		b.WriteString("(allow " + operations)
		for _, p := range paths {
			quoted, err := quoteSeatbelt(p)
			if err != nil {
				return err
			}
			b.WriteString("\n  (" + filter + " " + quoted + ")")
		}
		b.WriteString(")\n")
		return nil
	}
	for _, l := range []struct {
		operations, filter string
		paths              []string
	}{
		{"process-exec", "literal", []string{s.hand}},
		{"file-read*", "literal", []string{"/", s.hand, "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}},
		{"file-write-data", "literal", []string{"/dev/null"}},
		{"file-read*", "subpath", s.readable},
		{"file-read* file-write*", "subpath", s.writable},
	} {
		if err := line(l.operations, l.filter, l.paths...); err != nil {
			return "", err
		}
	}
	b.WriteString("(deny file-write-setugid)\n(deny file-link)\n")
	b.WriteString("(allow signal (target self))\n")
	b.WriteString("(allow sysctl-read\n  (sysctl-name-prefix \"hw.\")\n  (sysctl-name \"kern.osrelease\")\n  (sysctl-name \"kern.osproductversion\")\n  (sysctl-name \"kern.ostype\")\n  (sysctl-name \"kern.version\")\n  (sysctl-name \"kern.maxfilesperproc\"))\n")
	switch s.network {
	case sandbox.NetworkNone, sandbox.NetworkAllowlist, "":
	case sandbox.NetworkHost:
		b.WriteString("(allow network*)\n(allow system-socket)\n")
	default:
		return "", fmt.Errorf("network %q is not known", string(s.network))
	}
	return b.String(), nil
}

// quoteSeatbelt writes a path as a string of the profile.
func quoteSeatbelt(path string) (string, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return "", fmt.Errorf("the path %q cannot stand in a sandbox profile: it is not absolute and clean", path)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range path {
		if r == unicode.ReplacementChar || unicode.IsControl(r) {
			return "", fmt.Errorf("the path %q cannot stand in a sandbox profile: rename what has control characters or is no UTF-8", path)
		}
		if r == '"' || r == '\\' {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
	return b.String(), nil
}
