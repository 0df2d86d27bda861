package plugins

import (
	"slices"
	"strings"
	"testing"
)

func mustPattern(t *testing.T, s string) HostPattern {
	t.Helper()
	p, err := ParseHostPattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseHostPattern(t *testing.T) {
	good := map[string]string{
		"api.example.com":              "api.example.com:443",
		"api.example.com:443":          "api.example.com:443",
		"https://api.example.com":      "api.example.com:443",
		"HTTPS://API.Example.COM:8443": "api.example.com:8443",
		"http://api.example.com":       "http://api.example.com:80",
		"http://api.example.com:443":   "http://api.example.com:443",
		"api.example.com.":             "api.example.com:443",
		"*.example.com":                "*.example.com:443",
		"http://*.Example.com:8080":    "http://*.example.com:8080",
		"bücher.example":               "xn--bcher-kva.example:443",
		"BÜCHER.example":               "xn--bcher-kva.example:443",
		"xn--bcher-kva.example":        "xn--bcher-kva.example:443",
		"*.bücher.example":             "*.xn--bcher-kva.example:443",
		"faß.example":                  "xn--fa-hia.example:443",
		"例え。テスト":                       "xn--r8jz45g.xn--zckzah:443",
		"my_bucket.example":            "my_bucket.example:443",
		"a---b.example":                "a---b.example:443",
		"localhost":                    "localhost:443",
		"http://LocalHost:8080":        "http://localhost:8080",
		"127.0.0.1":                    "127.0.0.1:443",
		"http://10.0.0.1:9000":         "http://10.0.0.1:9000",
		"[::1]":                        "[::1]:443",
		"[0:0::1]:80":                  "[::1]:80",
		"[::ffff:169.254.169.254]":     "169.254.169.254:443",
		"1.2.3.4.example":              "1.2.3.4.example:443",
	}
	for in, want := range good {
		p, err := ParseHostPattern(in)
		if err != nil || p.String() != want {
			t.Errorf("%q: got %q, %v, want %q", in, p, err, want)
		}
	}
	bad := map[string]string{
		"":                                "not a host",
		".":                               "not a host",
		"a..b":                            "not a host",
		".a.b":                            "not a host",
		"a.b..":                           "not a host",
		"a b":                             "not a host",
		"a\r\nb":                          "not a host",
		"a.b\x00":                         "not a host",
		"-a.b":                            "not a host",
		"a%2eb":                           "not a host",
		strings.Repeat("a", 64) + ".b":    "not a host",
		strings.Repeat("a.", 140) + "b":   "not a host",
		strings.Repeat("a", 301):          "longer",
		"::1":                             "in brackets",
		"[::1":                            "brackets",
		"[::1]x":                          "brackets",
		"[fe80::1%eth0]":                  "zone",
		"[127.0.0.1]":                     "brackets",
		"[a.b]":                           "brackets",
		"127.1":                           "four decimal numbers",
		"0x7f.1":                          "four decimal numbers",
		"0x7f000001":                      "four decimal numbers",
		"2130706433":                      "four decimal numbers",
		"0177.0.0.1":                      "four decimal numbers",
		"127.0.0.1.5":                     "four decimal numbers",
		"256.0.0.1":                       "four decimal numbers",
		"１２７.0.0.1":                       "four decimal numbers",
		"*":                               "wildcard",
		"*:443":                           "wildcard",
		"https://*":                       "wildcard",
		"a*.b":                            "wildcard",
		"a.*.b":                           "wildcard",
		"**.a.b":                          "wildcard",
		"*.*.a.b":                         "wildcard",
		"*.":                              "not a host",
		"*.127.0.0.1":                     "wildcard before an address",
		"*.localhost":                     "wildcard before an address",
		"a.b:0":                           "no valid port",
		"a.b:":                            "no valid port",
		"a.b:065":                         "no valid port",
		"a.b:+80":                         "no valid port",
		"a.b:65536":                       "no valid port",
		"a.b:*":                           "no valid port",
		"a.b:https":                       "no valid port",
		"ftp://a.b":                       "scheme",
		"://a.b":                          "scheme",
		"https://a.b/":                    "without path",
		"a.b/c":                           "without path",
		"a.b?c":                           "without path",
		"a.b#c":                           "without path",
		`a.b\c`:                           "without path",
		"u@a.b":                           "without path",
		"https://u:p@a.b":                 "without path",
		"xn--a.example":                   "IDNA",
		"a\u202eb.example":                "IDNA",
		"https://https://a.b":             "without path",
		"a.b:443:443":                     "in brackets",
		"[::ffff:127.0.0.1%lo]":           "zone",
		"\xff.example":                    "IDNA",
		"*." + strings.Repeat("a.", 130):  "not a host",
		"https:// a.b":                    "not a host",
		"[0:0:0:0:0:0:0:0:1]":             "zone",
		"http://[::1]:99999":              "no valid port",
		"http://[::1]80":                  "brackets",
		"http:a.b":                        "no valid port",
		"*.example.com*":                  "wildcard",
		"*example.com":                    "wildcard",
		"http://0x7f.0x0.0x0.0x1:80":      "four decimal numbers",
		"http://0x.":                      "four decimal numbers",
		"api.example.com:443 # a comment": "without path",
	}
	for in, want := range bad {
		p, err := ParseHostPattern(in)
		if err == nil || !strings.Contains(err.Error(), want) || p != (HostPattern{}) {
			t.Errorf("%q: got %q, %v, want an error with %q", in, p, err, want)
		}
	}
}

func TestHostPatternMatch(t *testing.T) {
	tests := []struct {
		pattern, scheme, host string
		port                  uint16
		want                  bool
	}{
		{"api.example.com", "https", "api.example.com", 443, true},
		{"api.example.com", "http", "api.example.com", 443, false},
		{"api.example.com", "http", "api.example.com", 80, false},
		{"api.example.com", "https", "api.example.com", 8443, false},
		{"api.example.com", "https", "a.api.example.com", 443, false},
		{"http://api.example.com", "https", "api.example.com", 443, false},
		{"http://api.example.com", "http", "api.example.com", 80, true},
		{"*.example.com", "https", "a.example.com", 443, true},
		{"*.example.com", "https", "a.b.example.com", 443, true},
		{"*.example.com", "https", "example.com", 443, false},
		{"*.example.com", "https", ".example.com", 443, false},
		{"*.example.com", "https", "badexample.com", 443, false},
		{"*.example.com", "https", "a.example.com.evil.test", 443, false},
		{"localhost", "https", "127.0.0.1", 443, false},
		{"127.0.0.1", "https", "localhost", 443, false},
		{"127.0.0.1", "https", "127.0.0.1", 443, true},
		{"127.0.0.1", "https", "127.0.0.2", 443, false},
		{"*.0.0.example", "https", "127.0.0.1", 443, false},
	}
	for _, tt := range tests {
		if got := mustPattern(t, tt.pattern).Match(tt.scheme, tt.host, tt.port); got != tt.want {
			t.Errorf("%s matches %s %s %d: %t", tt.pattern, tt.scheme, tt.host, tt.port, got)
		}
	}
	if (HostPattern{}).Match("", "", 0) || (HostPattern{}).Covers(HostPattern{}) {
		t.Error("the zero pattern matches")
	}
}

func TestIntersectHosts(t *testing.T) {
	tests := []struct{ a, b, want []string }{
		{[]string{"*.example.com"}, []string{"api.example.com"}, []string{"api.example.com:443"}},
		{[]string{"api.example.com"}, []string{"*.example.com"}, []string{"api.example.com:443"}},
		{[]string{"*.example.com"}, []string{"*.eu.example.com", "*.example.com:8443"}, []string{"*.eu.example.com:443"}},
		{[]string{"*.example.com"}, []string{"example.com", "http://a.example.com"}, []string{}},
		{[]string{"b.example", "a.example"}, []string{"a.example:443", "b.example.", "https://A.example"}, []string{"a.example:443", "b.example:443"}},
		{[]string{"a.example"}, nil, []string{}},
		{[]string{"*"}, []string{"a.example"}, []string{}},
	}
	for _, tt := range tests {
		if got := IntersectHosts(tt.a, tt.b); got == nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q and %q: got %#v, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}

// A pattern is written in one way, and covers no more than it matches.
func FuzzHostPattern(f *testing.F) {
	for _, s := range []string{"api.example.com:443", "http://*.example.com", "[::ffff:1.2.3.4]:80", "bücher.example", "0x7f.1", "faß。de", "localhost.", "a.b:*"} {
		f.Add(s, "*.example.com")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		p, err := ParseHostPattern(a)
		if err != nil {
			if p != (HostPattern{}) || p.String() != "" {
				t.Fatalf("%q: refused and %#v", a, p)
			}
			return
		}
		again, err := ParseHostPattern(p.String())
		if err != nil || again != p {
			t.Fatalf("%q: %q parses to %q, %v", a, p, again, err)
		}
		if host, err := CanonicalHost(p.host); err != nil || host != p.host {
			t.Fatalf("%q: the host %q is canonical as %q, %v", a, p.host, host, err)
		}
		if !p.wild && !p.Match(p.scheme, p.host, p.port) || p.wild && p.Match(p.scheme, p.host, p.port) {
			t.Fatalf("%q: the apex matches wrongly", a)
		}
		q, err := ParseHostPattern(b)
		if err != nil {
			return
		}
		for _, s := range IntersectHosts([]string{a}, []string{b}) {
			both := mustPattern(t, s)
			if !p.Covers(both) || !q.Covers(both) {
				t.Fatalf("%q and %q have %q in common", a, b, s)
			}
		}
		if p.Covers(q) && q.Covers(p) && p != q {
			t.Fatalf("%q and %q cover each other", p, q)
		}
	})
}

func TestParseProxy(t *testing.T) {
	for _, s := range []string{"http://proxy:3128", "https://us:pw@proxy.example:8443/", "socks5://127.0.0.1:1080", "http://[::1]:3128"} {
		if u, err := ParseProxy(s); err != nil || u.Host == "" {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "proxy:3128", "http://proxy", "ftp://proxy:21", "http://proxy:3128/x", "http://proxy:3128?x", "http:proxy:3128", "http://us:pw@a b:1", "http://127.1:80"} {
		if u, err := ParseProxy(s); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v, %v", s, u, err)
		}
	}
}
