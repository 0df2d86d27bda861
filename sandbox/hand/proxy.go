package hand

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// proxy is the way out of the commands of one call where the network is "allowlist":
// an HTTP proxy on the boundary's own loopback, which asks the host for every
// connection. The host decides; here nothing is known of what a call may reach.
type proxy struct {
	open      func(ctx context.Context, method string, params any) (*sandbox.Stream, error)
	operation batch.OperationID
	listener  net.Listener
	server    *http.Server
	token     string
	forward   *httputil.ReverseProxy
	ctx       context.Context
	cancel    context.CancelFunc
}

// newProxy listens; the caller closes it. It ends with ctx too.
func newProxy(ctx context.Context, c *sandbox.Channel, operation batch.OperationID) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the proxy for commands cannot listen on the loopback of the sandbox: %w", err)
	}
	p := &proxy{open: c.Open, operation: operation, listener: l, token: rand.Text()}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.forward = &httputil.ReverseProxy{
		// The request goes on as it came, but for what belongs to this hop.
		Rewrite:      func(r *httputil.ProxyRequest) { r.Out.Header.Del("Proxy-Authorization"); r.Out.Host = r.In.Host },
		Transport:    &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: p.dialHTTP},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 256 << 10,
		BaseContext: func(net.Listener) context.Context { return p.ctx },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// Close ends every connection.
func (p *proxy) Close() {
	p.cancel()
	_ = p.server.Close()
}

// env is what tells commands of the proxy.
func (p *proxy) env() []string {
	url := fmt.Sprintf("http://awaken:%s@%s", p.token, p.listener.Addr())
	return []string{"http_proxy=" + url, "https_proxy=" + url, "HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "ALL_PROXY=" + url, "all_proxy=" + url}
}

// ServeHTTP takes CONNECT host:port, and plain requests with an absolute URL.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.knows(r) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="awaken"`)
		http.Error(w, "this proxy is for the commands of another call", http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		p.forward.ServeHTTP(w, r)
	default:
		http.Error(w, "this is a proxy: send CONNECT host:port, or a request with an absolute http:// URL", http.StatusBadRequest)
	}
}

// knows compares the word that only the call's own commands were given. In a tier
// without a network of its own everybody on the machine can connect.
func (p *proxy) knows(r *http.Request) bool {
	encoded, ok := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	got, err := base64.StdEncoding.DecodeString(encoded)
	return ok && err == nil && subtle.ConstantTimeCompare(got, []byte("awaken:"+p.token)) == 1
}

func (p *proxy) dialHTTP(ctx context.Context, _, address string) (net.Conn, error) {
	return p.dial(ctx, "http", address)
}

// dial asks the host for a connection, and returns when there is one.
func (p *proxy) dial(ctx context.Context, scheme, address string) (*dialed, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is no port", text)
	}
	s, err := p.open(ctx, sandbox.MethodDial, sandbox.DialParams{Operation: p.operation, Scheme: scheme, Host: host, Port: int(port)})
	if err != nil {
		return nil, err
	}
	var first [1]byte
	if _, err := io.ReadFull(s, first[:]); err != nil {
		return nil, err
	}
	if first[0] != sandbox.DialReady {
		s.Cancel(errors.New("it is not connected"))
		return nil, errors.New("the host did not say that it is connected")
	}
	return &dialed{s}, nil
}

func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	there, err := p.dial(ctx, "https", r.URL.Host)
	if err != nil {
		refuse(w, err)
		return
	}
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, err)
		return
	}
	defer func() { _ = here.Close() }()
	// Hijacked connections are no longer the server's to close.
	stop := context.AfterFunc(p.ctx, func() { _ = here.Close() })
	defer stop()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		_, err := io.Copy(there, buffered)
		if err != nil {
			cancel()
			return
		}
		_ = there.s.CloseWrite()
	}()
	_, _ = io.Copy(here, there)
	if half, ok := here.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	select {
	case <-out:
	case <-time.After(30 * time.Second): // the other half may still speak, but not for ever
	case <-p.ctx.Done():
	}
}

// refuse says why, in the words of the host.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	var remote *sandbox.RemoteError
	if errors.As(err, &remote) && remote.Kind == sandbox.RemoteRefused {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

// dialed is a stream as a connection.
type dialed struct{ s *sandbox.Stream }

func (d *dialed) Read(p []byte) (int, error)  { return d.s.Read(p) }
func (d *dialed) Write(p []byte) (int, error) { return d.s.Write(p) }

func (d *dialed) Close() error {
	_ = d.s.CloseWrite()
	d.s.Cancel(errors.New("the command closed the connection"))
	return nil
}

func (d *dialed) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (d *dialed) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (d *dialed) SetDeadline(time.Time) error      { return nil } // the call's own ends it
func (d *dialed) SetReadDeadline(time.Time) error  { return nil }
func (d *dialed) SetWriteDeadline(time.Time) error { return nil }
