package egress

import (
	"net"
	"net/netip"
)

// Addresses that are not the public internet's, or that lead somewhere else than
// they say (IANA's registries of special-purpose addresses; what clouds use).
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"168.63.129.16/32", // Azure's host, from within a virtual machine

	"2001::/23", // Teredo, benchmarks, ORCHID and the like
	"2001:db8::/32", "2620:4f:8000::/48", "3fff::/20",
)

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the IPv4 address in the last 32 bits
	sixToFour     = netip.MustParsePrefix("2002::/16")    // RFC 3056: in bits 16 to 47
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether a is an address of the public internet. Of IPv6 only what
// is given out for that is; what holds an IPv4 address is public when that is.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	if a.Is4() {
		return true
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return public(netip.AddrFrom4([4]byte(b[12:16])))
	case !globalUnicast.Contains(a):
		return false
	case sixToFour.Contains(a):
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	case (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return public(netip.AddrFrom4([4]byte(b[12:16]))) // ISATAP, RFC 5214
	}
	return true
}

// ours reports whether a is an address of this machine: a connection to it is one
// to this machine, as to 127.0.0.1, also where the address is public. When that
// cannot be found out, it is.
func ours(a netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, i := range list {
		if n, ok := i.(*net.IPNet); ok {
			if have, ok := netip.AddrFromSlice(n.IP); ok && have.Unmap() == a.Unmap() {
				return true
			}
		}
	}
	return false
}
