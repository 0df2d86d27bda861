package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Dial connects to a host for somebody who speaks for himself, such as a command
// behind a proxy. One of the patterns must allow scheme ("http" or "https"), host and
// port, as for a request; what is said over the connection is not looked at. The rules
// about addresses, and the operator's proxy, are those of Do: with a proxy, the
// connection is a tunnel through it for both schemes. It ends with ctx until it is
// made; after that the caller closes it.
//
// The error is a *NotGrantedError, a *FailedError, or that of ctx, wrapped, as of Do.
func (s *Session) Dial(ctx context.Context, allowed []plugins.HostPattern, scheme, host string, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, &FailedError{Refused: true, What: "the port is not a number from 1 to 65535"}
	}
	_, o, err := normalize(&url.URL{Scheme: scheme, Host: net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))})
	if err != nil {
		return nil, &FailedError{Refused: true, What: err.Error()}
	}
	h := &hop{origin: o}
	if !slices.ContainsFunc(allowed, func(p plugins.HostPattern) bool { return p.Match(o.scheme, o.host, o.port) }) {
		return nil, &NotGrantedError{Host: o.String()}
	}
	within, cancel := context.WithTimeoutCause(ctx, min(s.guard.opts.Timeout, connectTimeout), errTimeout)
	defer cancel()
	target := net.JoinHostPort(o.host, strconv.Itoa(int(o.port)))
	var conn net.Conn
	if s.guard.opts.Proxy != nil && !toThisMachine(o.host) {
		conn, err = s.guard.tunnel(within, target)
	} else {
		conn, err = s.guard.dial(within, "tcp", target)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("the connection to %s was stopped: %w", o, context.Cause(ctx))
	case err != nil:
		return nil, h.fail(err)
	}
	return conn, nil
}

// tunnel asks the operator's proxy for a connection.
func (g *Guard) tunnel(ctx context.Context, target string) (_ net.Conn, err error) {
	p := g.opts.Proxy
	port := p.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[p.Scheme]
	}
	conn, err := (&net.Dialer{Timeout: connectTimeout, Resolver: g.opts.Resolver}).DialContext(ctx, "tcp", net.JoinHostPort(p.Hostname(), port))
	if err != nil {
		return nil, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			_ = conn.Close()
		}
	}()
	if p.Scheme == "https" {
		secure := tls.Client(conn, &tls.Config{RootCAs: g.opts.Roots, MinVersion: tls.VersionTLS12, ServerName: p.Hostname(), NextProtos: []string{"http/1.1"}})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
		}
		conn = secure
	}
	auth := ""
	if p.User != nil {
		password, _ := p.User.Password()
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, target, auth); err != nil {
		return nil, fmt.Errorf("%w: %w", errProxy, err)
	}
	return answeredTunnel(conn)
}

// answeredTunnel reads the proxy's answer, and nothing of what comes after it.
func answeredTunnel(conn net.Conn) (net.Conn, error) {
	if err := conn.SetReadDeadline(time.Now().Add(connectTimeout)); err != nil {
		return nil, err
	}
	head := make([]byte, 0, 512)
	one := make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if len(head) == maxTunnelAnswer {
			return nil, fmt.Errorf("%w: its answer is larger than %d bytes", errProxy, maxTunnelAnswer)
		}
		if _, err := conn.Read(one); err != nil {
			return nil, fmt.Errorf("%w: %w", errProxy, err)
		}
		head = append(head, one[0])
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxy, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d", errProxy, resp.StatusCode)
	}
	return conn, conn.SetReadDeadline(time.Time{})
}

const maxTunnelAnswer = 8 << 10
