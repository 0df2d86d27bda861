package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

func connect(t *testing.T, s *Session, allowed []plugins.HostPattern, scheme, host, port string) (net.Conn, error) {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := s.Dial(ctx, allowed, scheme, host, n)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// echoed says something over a connection and wants it back.
func echoed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintln(conn, "hello")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// serveEcho is a server that says back what it hears.
func serveEcho(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// TestDialHasTheRulesOfRequests: the ways around them, one by one.
func TestDialHasTheRulesOfRequests(t *testing.T) {
	port := serveEcho(t)
	dns := serveNames(t, func(name string, _ int) []string {
		return map[string][]string{
			"private.example.test": {"10.0.0.1"}, "loop.example.test": {"127.0.0.1"}, "six.example.test": {"::1"},
			"mapped.example.test": {"::ffff:127.0.0.1"}, "meta.example.test": {"169.254.169.254"},
		}[name]
	})
	s := session(t, Options{Resolver: dns.resolver})
	allowed := patterns(t, "https://127.0.0.1:"+port, "https://*.example.test:"+port, "https://localhost:"+port, "https://10.255.255.1:"+port)
	for host, want := range map[string]string{
		"private.example.test": "not public", "loop.example.test": "not public", "six.example.test": "not public",
		"mapped.example.test": "not public", "meta.example.test": "not public",
		"0x7f.1": "", "127.1": "", "2130706433": "", "a b": "", "": "", "[::1": "", "x@127.0.0.1": "", "127.0.0.1:80": "", "a/b": "",
	} {
		conn, err := connect(t, s, allowed, "https", host, port)
		var refused *FailedError
		var no *NotGrantedError
		if conn != nil || !errors.As(err, &refused) && !errors.As(err, &no) {
			t.Errorf("%q: %v, %v", host, conn, err)
		}
		if want != "" {
			failed(t, err, true, want)
		}
	}
	for _, host := range []string{"::1", "[::1]", "127.0.0.2", "0.0.0.0", "evil.test"} {
		if _, err := connect(t, s, allowed, "https", host, port); err == nil {
			t.Errorf("%s was reached", host)
		}
	}
	_, err := connect(t, s, allowed, "http", "127.0.0.1", port)
	notGranted(t, err, "http://127.0.0.1:"+port)
	_, err = connect(t, s, allowed, "https", "127.0.0.1", "1")
	notGranted(t, err, "127.0.0.1:1")
	if _, err = connect(t, s, allowed, "ftp", "127.0.0.1", port); err == nil {
		t.Error("FTP was connected")
	}
	for _, n := range []int{0, -1, 65536} {
		if _, err := s.Dial(t.Context(), allowed, "https", "127.0.0.1", n); err == nil {
			t.Errorf("port %d was connected", n)
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST"} {
		conn, err := connect(t, s, allowed, "https", host, port)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		echoed(t, conn)
	}
	if asked := dns.seen(); strings.Contains(fmt.Sprint(asked), "evil") {
		t.Errorf("a name was resolved that nobody granted: %q", asked)
	}
}

// TestDialThroughTheProxy: with an operator's proxy there is no other way, whatever
// the scheme, and its refusal says nothing of it.
func TestDialThroughTheProxy(t *testing.T) {
	port := serveEcho(t)
	p, u := startProxy(t, "127.0.0.1:"+port)
	dns := serveNames(t, func(string, int) []string { return nil })
	s := session(t, Options{Proxy: u, Resolver: dns.resolver})
	allowed := patterns(t, "example.com", "http://plain.example.test:8080")
	for _, to := range [][3]string{{"https", "example.com", "443"}, {"http", "plain.example.test", "8080"}} {
		conn, err := connect(t, s, allowed, to[0], to[1], to[2])
		if err != nil {
			t.Fatal(err)
		}
		echoed(t, conn)
	}
	_, err := connect(t, s, allowed, "https", "evil.test", "443")
	notGranted(t, err, "evil.test:443")
	asked, auth := p.seen()
	if fmt.Sprint(asked) != "[CONNECT example.com:443 CONNECT plain.example.test:8080]" || strings.Count(fmt.Sprint(auth), "Basic dXM6cHc=") != 2 {
		t.Errorf("the proxy was asked %q with %q", asked, auth)
	}
	_, no := startProxy(t, "")
	_, err = connect(t, session(t, Options{Proxy: no}), allowed, "https", "example.com", "443")
	failed(t, err, false, "the proxy does not connect to it")
	for _, secret := range []string{"127.0.0.1", "pw", "10.1.2.3", "403"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%v says %s", err, secret)
		}
	}
}

// TestHostileProxies answer a CONNECT with anything.
func TestHostileProxies(t *testing.T) {
	for name, answer := range map[string]string{
		"no HTTP": "hello\r\n\r\n", "endless header": "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", maxTunnelAnswer), "nothing": "", "half": "HTTP/1.1 200",
	} {
		t.Run(name, func(t *testing.T) {
			port := serveRaw(t, func(c net.Conn) { _, _ = io.WriteString(c, answer) })
			_, u := startProxy(t, "")
			u.Host = "127.0.0.1:" + port
			_, err := connect(t, session(t, Options{Proxy: u}), patterns(t, "example.com"), "https", "example.com", "443")
			failed(t, err, false, "the proxy does not connect to it")
		})
	}
}
