package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// errAddress is why a connection was not made; it names no address.
var errAddress = errors.New("its address is not public")

const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 30 * time.Second
	maxIdle        = 8
	// MaxHeaderBytes bounds the header of a request and of an answer.
	MaxHeaderBytes = 64 << 10
)

// transport is the guard's settings of one way out. Its Proxy is nil, so that the
// environment is not asked.
func (g *Guard) transport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: g.opts.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // what is unpacked here would be bounded by nothing
		MaxResponseHeaderBytes: MaxHeaderBytes,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        idleTimeout,
	}
}

// direct dials the hosts of requests, which were held against the patterns.
func (g *Guard) direct() *http.Transport {
	t := g.transport()
	t.DialContext = g.dial
	return t
}

// proxied dials the proxy only.
func (g *Guard) proxied() *http.Transport {
	t := g.transport()
	t.Proxy = http.ProxyURL(g.opts.Proxy)
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%w: status %d", errProxy, resp.StatusCode)
		}
		return nil
	}
	t.DialContext = (&net.Dialer{Timeout: connectTimeout, Resolver: g.opts.Resolver}).DialContext
	return t
}

// dial connects to a host that a pattern named: an address only to itself,
// localhost only to loopback, any other name only to what is public.
func (g *Guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host == "localhost" {
		// No resolver is asked what localhost is.
		conn, err := g.connect(ctx, network, net.JoinHostPort("127.0.0.1", port), netip.Addr.IsLoopback)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		if conn, again := g.connect(ctx, network, net.JoinHostPort("::1", port), netip.Addr.IsLoopback); again == nil {
			return conn, nil
		}
		return nil, err // a machine without IPv6 has nothing to say about the second
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		return g.connect(ctx, network, addr, func(a netip.Addr) bool { return a == literal })
	}
	// The dot keeps the resolver from trying the name below this machine's own domain.
	return g.connect(ctx, network, net.JoinHostPort(host+".", port), func(a netip.Addr) bool { return public(a) && !ours(a) })
}

// connect dials and has may look at each address right before it is used.
func (g *Guard) connect(ctx context.Context, network, addr string, may func(netip.Addr) bool) (net.Conn, error) {
	d := &net.Dialer{
		Timeout: connectTimeout, Resolver: g.opts.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" || !may(to.Addr().Unmap()) {
				return errAddress
			}
			return nil
		},
	}
	return d.DialContext(ctx, network, addr)
}

// toThisMachine reports whether a host is one that a proxy must not be asked for.
func toThisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
