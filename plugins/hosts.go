package plugins

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// HostPattern is one entry of a list of hosts: in a manifest, in [plugin.grant] and
// in a policy's grant. It is comparable, and the zero value matches nothing.
//
//	pattern = [ "https://" | "http://" ] host [ ":" port ]
//	host    = name | "*." name | "localhost" | IPv4 | "[" IPv6 "]"
//
// Without a scheme it is https; http has to be written. Without a port it is that
// of the scheme, 443 or 80. "*." stands for one or more labels, so
// "*.example.com" is a.example.com and a.b.example.com and never example.com
// itself. There is no other wildcard, neither for ports nor for any host.
//
// Names are compared without regard to case, as IDNA maps them (UTS 46, without
// transitional processing), and without the dot that may end them. An address is
// matched by itself alone; IPv4 in IPv6 (::ffff:a.b.c.d) is that IPv4 address.
type HostPattern struct {
	scheme string
	host   string // canonical, without "*." and brackets
	wild   bool
	port   uint16
}

const maxHostPattern = 300 // bytes as written

// hostPattern is a name as DNS and certificates know it; underscores are in use.
var hostPattern = pattern(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// ParseHostPattern reads one pattern. The error quotes it and says what to write.
func ParseHostPattern(s string) (HostPattern, error) {
	fail := func(format string, a ...any) (HostPattern, error) {
		return HostPattern{}, fmt.Errorf("%q %s", clip(s, 80), fmt.Sprintf(format, a...))
	}
	if len(s) > maxHostPattern {
		return fail("is longer than a host can be")
	}
	p := HostPattern{scheme: "https"}
	rest := s
	if scheme, after, has := strings.Cut(s, "://"); has {
		p.scheme, rest = strings.ToLower(scheme), after
		if p.scheme != "http" && p.scheme != "https" {
			return fail("has a scheme that is not known, write https://, http:// or none, which is https")
		}
	}
	p.port = defaultPort(p.scheme)
	if strings.ContainsAny(rest, `/\?#@`) {
		return fail("is not a host, write host or host:port without path, query or user")
	}
	name, port, hasPort, err := cutPort(rest)
	if err != nil {
		return fail("%v", err)
	}
	if hasPort {
		if p.port, err = parsePort(port); err != nil {
			return fail("has no valid port, write a number from 1 to 65535; each port is listed by itself")
		}
	}
	if strings.HasPrefix(name, "*.") {
		p.wild, name = true, name[2:]
	}
	if strings.Contains(name, "*") {
		return fail(`has a wildcard that is not known, only "*." at the start and a name after it stand for more than one host`)
	}
	if p.host, err = CanonicalHost(name); err != nil {
		return fail("%v", err)
	}
	if p.wild && (p.host == "localhost" || isAddress(p.host)) {
		return fail(`has a wildcard before an address, list each address`)
	}
	return p, nil
}

func defaultPort(scheme string) uint16 {
	if scheme == "http" {
		return 80
	}
	return 443
}

// cutPort splits "host:port" and "[address]:port"; brackets are taken off.
func cutPort(s string) (host, port string, hasPort bool, err error) {
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		host, after, closed := strings.Cut(inner, "]")
		if !closed || after != "" && after[0] != ':' || !strings.Contains(host, ":") {
			return "", "", false, errors.New("is not a host, brackets stand around an IPv6 address")
		}
		return host, strings.TrimPrefix(after, ":"), after != "", nil
	}
	host, port, hasPort = strings.Cut(s, ":")
	if strings.Contains(port, ":") {
		return "", "", false, errors.New("is not a host, write an IPv6 address in brackets")
	}
	return host, port, hasPort, nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, errors.New("not a port")
	}
	return uint16(n), nil
}

// lookup maps names as browsers do. Hyphens may stand anywhere inside of a label
// and underscores are allowed, because names like that are in use.
var lookup = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false))

// CanonicalHost returns the one form in which hosts are compared: lower case,
// punycode, no dot at the end; for an address the shortest form, without brackets.
// Forms of IPv4 that only some programs understand (127.1, 0x7f.1, 2130706433) and
// addresses with a zone are refused. The error begins with "is not a host" and
// does not quote the host.
func CanonicalHost(host string) (string, error) {
	if strings.Contains(host, ":") {
		a, err := netip.ParseAddr(host)
		if err != nil || !a.Is6() || a.Zone() != "" {
			return "", errors.New("is not a host: an IPv6 address is written without a zone")
		}
		return a.Unmap().String(), nil
	}
	mapped, err := lookup.ToASCII(host)
	if err != nil || !utf8.ValidString(host) {
		return "", errors.New("is not a host: no such name can exist (IDNA)")
	}
	mapped = strings.TrimSuffix(mapped, ".")
	if len(mapped) > 253 || !hostPattern().MatchString(mapped) {
		return "", errors.New("is not a host, write a name such as api.example.com, without spaces")
	}
	if !endsInNumber(mapped) {
		return mapped, nil
	}
	a, err := netip.ParseAddr(mapped)
	if err != nil || strings.TrimSuffix(host, ".") != mapped {
		return "", errors.New("is not a host: an IPv4 address is written as four decimal numbers")
	}
	return a.String(), nil
}

// endsInNumber is WHATWG's test for what somebody may take for an IPv4 address.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, has := strings.CutPrefix(last, "0x"); has {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// String is the canonical form: "api.example.com:443", "http://localhost:80". It
// parses to the same pattern.
func (p HostPattern) String() string {
	if p == (HostPattern{}) {
		return ""
	}
	host := p.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p.wild {
		host = "*." + host
	}
	if p.scheme == "http" {
		host = "http://" + host
	}
	return host + ":" + strconv.Itoa(int(p.port))
}

// Match reports whether a request may go there. Host is canonical, see
// CanonicalHost, and scheme is lower case.
func (p HostPattern) Match(scheme, host string, port uint16) bool {
	if p.host == "" || p.scheme != scheme || p.port != port {
		return false
	}
	if !p.wild {
		return p.host == host
	}
	return strings.HasSuffix(host, "."+p.host) && len(host) > len(p.host)+1
}

// Covers reports whether all that o matches is matched by p.
func (p HostPattern) Covers(o HostPattern) bool {
	return o.host != "" && (p == o || (p.wild || !o.wild) && p.Match(o.scheme, o.host, o.port))
}

// ParseHosts reads a list of patterns. What is not one is left out: it allows
// nothing.
func ParseHosts(list []string) []HostPattern {
	var out []HostPattern
	for _, s := range list {
		if p, err := ParseHostPattern(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// IntersectHosts returns the patterns that match what both lists match, canonical,
// sorted, each once. It is never nil: an empty list allows nothing.
func IntersectHosts(a, b []string) []string {
	out := []string{}
	for _, p := range ParseHosts(a) {
		for _, q := range ParseHosts(b) {
			switch {
			case p.Covers(q):
				out = append(out, q.String())
			case q.Covers(p):
				out = append(out, p.String())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CoversHost reports whether one of the patterns of list covers the host as a whole.
func CoversHost(list []string, host string) bool {
	p, err := ParseHostPattern(host)
	return err == nil && slices.ContainsFunc(ParseHosts(list), func(have HostPattern) bool { return have.Covers(p) })
}
