package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestPublic(t *testing.T) {
	for _, s := range []string{
		"8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.169.0.1", "223.255.255.255",
		"2606:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8", "2002:808:808::1",
	} {
		if !public(netip.MustParseAddr(s)) {
			t.Errorf("%s is not public", s)
		}
	}
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1",
		"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
		"64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::10.0.0.1", "64:ff9b:1::8.8.8.8",
		"2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:a00:1::1", "2001:0:1234::1", "2001:db8::1", "2001:20::1", "3fff::1",
		"fc00::1", "fd00:ec2::254", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "100::1",
		"2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "4000::1",
	} {
		if public(netip.MustParseAddr(s)) {
			t.Errorf("%s is public", s)
		}
	}
	if public(netip.Addr{}) || !ours(netip.MustParseAddr("127.0.0.1")) || ours(netip.MustParseAddr("8.8.8.8")) {
		t.Error("the zero address is public, or this machine's are not known")
	}
}

// A name that leads to this machine, or to any network that is not public, is not
// connected to, however the address is written.
func TestNamesLeadToPublicAddressesOnly(t *testing.T) {
	var hits atomic.Int32
	_, p := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	list := []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1",
		"169.254.169.254", "::ffff:a9fe:a9fe", "fd00:ec2::254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "fe80::1", "224.0.0.1", "ff02::1",
	}
	dns := serveNames(t, func(name string, _ int) []string {
		for i, a := range list {
			if name == "n"+string(rune('a'+i))+".example.test" {
				return []string{a}
			}
		}
		return nil
	})
	s := session(t, Options{Resolver: dns.resolver})
	allowed := patterns(t, atPort("*.example.test", p))
	for i, a := range list {
		_, err := do(t, s, allowed, Request{URL: atPort("n"+string(rune('a'+i))+".example.test", p)})
		failed(t, err, true, "its address is not public")
		if err != nil && strings.Contains(err.Error(), a) {
			t.Errorf("the error names the address: %v", err)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("the server was reached %d times", hits.Load())
	}
}

// What counts is the address that is dialled: a name server that first answers with
// a public address gains nothing.
func TestRebinding(t *testing.T) {
	var hits atomic.Int32
	_, p := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	dns := serveNames(t, func(_ string, nth int) []string {
		if nth == 0 {
			return []string{"2a00::1"}
		}
		return []string{"127.0.0.1"}
	})
	s := session(t, Options{Resolver: dns.resolver, Timeout: 300 * time.Millisecond})
	allowed := patterns(t, atPort("rebind.example.test", p))
	url := atPort("rebind.example.test", p)
	if _, err := do(t, s, allowed, Request{URL: url}); err == nil {
		t.Error("the first request came to something")
	}
	_, err := do(t, s, allowed, Request{URL: url})
	failed(t, err, true, "its address is not public")
	// Both at once.
	both := serveNames(t, func(string, int) []string { return []string{"127.0.0.1", "::1", "10.0.0.1"} })
	_, err = do(t, session(t, Options{Resolver: both.resolver}), allowed, Request{URL: url})
	failed(t, err, true, "its address is not public")
	if hits.Load() != 0 {
		t.Errorf("the server was reached %d times", hits.Load())
	}
}

// The machine's own addresses are this machine, public or not.
func TestOwnAddresses(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP); !ok || !ours(ip) || !ours(ip.Unmap()) {
			t.Errorf("%v is not this machine's", a)
		}
	}
}

// Each literal reaches itself and nothing else.
func TestLiterals(t *testing.T) {
	_, p := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Host)) })
	dns := serveNames(t, func(string, int) []string { return []string{"127.0.0.1"} })
	s := session(t, Options{Resolver: dns.resolver})
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if got := get(t, s, patterns(t, atPort(host, p)), atPort(host, p)); got != host+":"+p {
			t.Errorf("%s: answered for %q", host, got)
		}
	}
	// The same address in other clothes is the same address.
	for _, host := range []string{"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.1."} {
		if got := get(t, s, patterns(t, atPort("127.0.0.1", p)), atPort(host, p)); got != "127.0.0.1:"+p {
			t.Errorf("%s: answered for %q", host, got)
		}
	}
	for _, host := range []string{"localhost", "127.0.0.2", "[::1]", "[::]", "0.0.0.0", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]"} {
		_, err := do(t, s, patterns(t, atPort("127.0.0.1", p)), Request{URL: atPort(host, p)})
		var e *NotGrantedError
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"127.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "0177.0.0.1", "017700000001", "１２７.0.0.1", "127。0。0。1"} {
		_, err := do(t, s, patterns(t, atPort("127.0.0.1", p)), Request{URL: atPort(host, p)})
		failed(t, err, true, "IPv4 address is written as four decimal numbers")
	}
	if asked := dns.seen(); len(asked) != 0 {
		t.Errorf("asked a name server for %q", asked)
	}
}

// What is not granted is not resolved either: names carry data too.
func TestRefusedNamesAreNotResolved(t *testing.T) {
	dns := serveNames(t, func(string, int) []string { return nil })
	s := session(t, Options{Resolver: dns.resolver})
	_, err := do(t, s, patterns(t, "*.good.test"), Request{URL: "https://secret-data.evil.test/"})
	notGranted(t, err, "secret-data.evil.test:443")
	_, err = do(t, s, nil, Request{URL: "https://a.good.test/"})
	notGranted(t, err, "a.good.test:443")
	if asked := dns.seen(); len(asked) != 0 {
		t.Errorf("resolved %q", asked)
	}
	_, err = do(t, s, patterns(t, "*.good.test"), Request{URL: "https://a.good.test/"})
	failed(t, err, false, "the request to a.good.test:443 failed", "no such name")
	if asked := dns.seen(); len(asked) == 0 || asked[0] != "a.good.test" {
		t.Errorf("resolved %q", asked)
	}
}

// A request ends with its context, whatever it waits for.
func TestEndsWithContext(t *testing.T) {
	_, p := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := session(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the call is over")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	begun := time.Now()
	_, err := s.Do(ctx, patterns(t, atPort("localhost", p)), &Request{URL: atPort("localhost", p)})
	if !errors.Is(err, why) || time.Since(begun) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begun))
	}
}

// localhost is this machine by either protocol, whatever a name server says of it.
func TestLocalhost(t *testing.T) {
	dns := serveNames(t, func(string, int) []string { return []string{"10.0.0.1"} })
	s := session(t, Options{Resolver: dns.resolver})
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Logf("this machine has no IPv6: %v", err)
	} else {
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("six")) })}
		go func() { _ = srv.Serve(l) }()
		defer srv.Close()
		_, p, _ := net.SplitHostPort(l.Addr().String())
		if got := get(t, s, patterns(t, atPort("localhost", p)), atPort("localhost", p)); got != "six" {
			t.Errorf("got %q", got)
		}
		if got := get(t, s, patterns(t, atPort("[::1]", p)), atPort("[0:0::1]", p)); got != "six" {
			t.Errorf("got %q", got)
		}
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, p, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	_, err = do(t, s, patterns(t, atPort("localhost", p)), Request{URL: atPort("localhost", p)})
	failed(t, err, false, "it refuses connections")
	if asked := dns.seen(); len(asked) != 0 {
		t.Errorf("asked a name server for %q", asked)
	}
}
