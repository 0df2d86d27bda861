package kube_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/kube"
)

// oldProxy stands before the API server and knows no WebSocket, as many proxies do.
type oldProxy struct {
	net.Listener

	mu         sync.Mutex
	conns      []net.Conn
	sockets    int // WebSockets that were refused
	spdy       int // streams over SPDY that were let through
	kubeconfig string
}

func (p *oldProxy) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err == nil {
		p.mu.Lock()
		p.conns = append(p.conns, conn)
		p.mu.Unlock()
	}
	return conn, err
}

// cut breaks every connection.
func (p *oldProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close() // it may be closed
	}
}

func (p *oldProxy) seen() (sockets, spdy int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets, p.spdy
}

func (r *real) behindOldProxy(t *testing.T) *oldProxy {
	t.Helper()
	config := rest.CopyConfig(r.config)
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrades
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) { out.SetURL(target) }, Transport: transport, FlushInterval: -1,
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &oldProxy{Listener: l, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server := &httptest.Server{Listener: p, Config: &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			protocol := strings.ToLower(q.Header.Get("Upgrade"))
			p.mu.Lock()
			switch {
			case protocol == "websocket":
				p.sockets++
			case strings.HasPrefix(protocol, "spdy/"):
				p.spdy++
			}
			p.mu.Unlock()
			if protocol == "websocket" {
				http.Error(w, "no such upgrade", http.StatusBadRequest)
				return
			}
			forward.ServeHTTP(w, q)
		}),
	}}
	server.Start()
	t.Cleanup(func() {
		p.cut()
		server.Close()
	})
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\n"+
		"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nusers: [{name: a, user: {}}]\n", server.URL)
	if err := os.WriteFile(p.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFallback: where a WebSocket is refused the Hand is spoken with over SPDY; and a
// connection that breaks in the middle of a request is lost, not an end.
func TestFallback(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	proxy := c.behindOldProxy(t)
	o := c.options()
	o.Kubeconfig = proxy.kubeconfig
	spec := newSpec()
	inst := start(t, kube.New(o), spec)
	ch, _ := greet(t, inst, spec)
	var inside sandbox.Properties
	ask(t, ch, sandbox.MethodProbe, struct{}{}, &inside)
	if sockets, spdy := proxy.seen(); len(inside) == 0 || sockets == 0 || spdy == 0 {
		t.Fatalf("%d WebSockets were refused, %d streams went over SPDY; the Hand says %v", sockets, spdy, inside)
	}

	s, err := ch.Open(t.Context(), sandbox.MethodPlugin, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	proxy.cut()
	if err := s.Result(nil); !errors.Is(err, sandbox.ErrLost) || errors.Is(err, sandbox.ErrNotSent) {
		t.Errorf("the request in the middle: %v; want an error that is ErrLost", err)
	}
	select {
	case <-inst.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it has not ended")
	}
	if err := inst.Ended(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonLost {
		t.Errorf("why it ended: %v", err)
	}
}
