package namespace

import (
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestSeatbeltProfile(t *testing.T) {
	s := seatbelt{
		hand: "/opt/awaken/awaken-hand", readable: []string{"/usr/lib", "/Volumes/my \"data\"\\x"},
		writable: []string{"/data/env/workspace", "/data/env/state"}, network: sandbox.NetworkNone,
	}
	got, err := s.profile()
	if err != nil {
		t.Fatal(err)
	}
	const want = `(version 1)
(deny default)
(allow process-exec
  (literal "/opt/awaken/awaken-hand"))
(allow file-read*
  (literal "/")
  (literal "/opt/awaken/awaken-hand")
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom"))
(allow file-write-data
  (literal "/dev/null"))
(allow file-read*
  (subpath "/usr/lib")
  (subpath "/Volumes/my \"data\"\\x"))
(allow file-read* file-write*
  (subpath "/data/env/workspace")
  (subpath "/data/env/state"))
(deny file-write-setugid)
(deny file-link)
(allow signal (target self))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.version")
  (sysctl-name "kern.maxfilesperproc"))
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSeatbeltNetworks(t *testing.T) {
	for network, allowed := range map[sandbox.Network]bool{
		sandbox.NetworkNone: false, sandbox.NetworkAllowlist: false, "": false, sandbox.NetworkHost: true,
	} {
		got, err := (&seatbelt{hand: "/h", network: network}).profile()
		if err != nil || strings.Contains(got, "network") != allowed {
			t.Errorf("network %q: %v\n%s", network, err, got)
		}
	}
	if _, err := (&seatbelt{hand: "/h", network: "everything"}).profile(); err == nil {
		t.Error("a network that nobody knows is allowed")
	}
}

func TestSeatbeltRefusesPaths(t *testing.T) {
	for _, path := range []string{"", "relative", "/a/../b", "/a//b", "/a/", "/new\nline", "/zero\x00", "/\xff", "/tab\t"} {
		for name, s := range map[string]seatbelt{
			"hand": {hand: path}, "readable": {hand: "/h", readable: []string{path}}, "writable": {hand: "/h", writable: []string{path}},
		} {
			if got, err := s.profile(); err == nil {
				t.Errorf("%s %q is taken:\n%s", name, path, got)
			}
		}
	}
}

// Whatever a path holds, it stays one string of the profile.
func FuzzSeatbeltPath(f *testing.F) {
	f.Add("/plain")
	f.Add(`/quote"and\back`)
	f.Add(`/") (allow default) ("`)
	f.Add("/ü/日本")
	f.Fuzz(func(t *testing.T, path string) {
		quoted, err := quoteSeatbelt(path)
		if err != nil {
			return
		}
		var back strings.Builder
		inside := quoted[1 : len(quoted)-1]
		for i := 0; i < len(inside); i++ {
			switch inside[i] {
			case '"':
				t.Fatalf("%q ends its string early: %s", path, quoted)
			case '\\':
				if i++; i == len(inside) {
					t.Fatalf("%q does not end its string: %s", path, quoted)
				}
			}
			back.WriteByte(inside[i])
		}
		if back.String() != path {
			t.Errorf("%q is read as %q", path, back.String())
		}
	})
}
