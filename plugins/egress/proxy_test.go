package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// proxy is a real one, which connects everything to one server.
type proxy struct {
	mu    sync.Mutex
	asked []string // "METHOD host"
	auth  []string
}

func (p *proxy) seen() (asked, auth []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...), append([]string(nil), p.auth...)
}

func startProxy(t *testing.T, to string) (*proxy, *url.URL) {
	t.Helper()
	p := &proxy{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+r.Host)
		p.auth = append(p.auth, r.Header.Get("Proxy-Authorization"))
		p.mu.Unlock()
		if r.Method != http.MethodConnect {
			fmt.Fprint(w, "by proxy for ", r.URL)
			return
		}
		if to == "" {
			http.Error(w, "internal: 10.1.2.3 is forbidden", http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, bufio.NewReader(rw)) }()
		_, _ = io.Copy(here, there)
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("us", "pw")
	return p, u
}

// No variable of the environment has any effect.
func TestProxyVariablesAreIgnored(t *testing.T) {
	p, u := startProxy(t, "")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, u.String())
	}
	dns := serveNames(t, func(string, int) []string { return []string{"10.0.0.1"} })
	s := session(t, Options{Resolver: dns.resolver})
	for _, scheme := range []string{"http", "https"} {
		_, err := do(t, s, patterns(t, scheme+"://a.example.test"), Request{URL: scheme + "://a.example.test"})
		failed(t, err, true, "not public")
	}
	if asked, _ := p.seen(); len(asked) != 0 {
		t.Errorf("the proxy was asked %q", asked)
	}
	if s.direct.Proxy != nil {
		t.Error("the direct way has a proxy")
	}
}

// With the operator's proxy every name goes through it, patterns are held, and this
// machine is not asked of it.
func TestProxy(t *testing.T) {
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the server sees the proxy's password")
		}
		fmt.Fprint(w, "by TLS for ", r.Host)
	}))
	defer tls.Close()
	p, u := startProxy(t, tls.Listener.Addr().String())
	dns := serveNames(t, func(string, int) []string { return []string{"127.0.0.1"} })
	s := session(t, Options{Proxy: u, Roots: roots(tls), Resolver: dns.resolver})
	allowed := patterns(t, "example.com", "http://plain.example.test", "http://10.0.0.1")
	if got := get(t, s, allowed, "https://example.com/x"); got != "by TLS for example.com" {
		t.Errorf("got %q", got)
	}
	for _, to := range []string{"http://plain.example.test/", "http://10.0.0.1/"} {
		if got := get(t, s, allowed, to); got != "by proxy for "+to {
			t.Errorf("got %q", got)
		}
	}
	_, err := do(t, s, allowed, Request{URL: "https://evil.example.test"})
	notGranted(t, err, "evil.example.test:443")
	_, direct := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "direct") })
	if got := get(t, s, patterns(t, atPort("localhost", direct)), atPort("localhost", direct)); got != "direct" {
		t.Errorf("got %q", got)
	}
	asked, auth := p.seen()
	if fmt.Sprint(asked) != "[CONNECT example.com:443 GET plain.example.test GET 10.0.0.1]" || strings.Count(fmt.Sprint(auth), "Basic dXM6cHc=") != 3 {
		t.Errorf("the proxy was asked %q with %q", asked, auth)
	}
	if names := dns.seen(); len(names) != 0 {
		t.Errorf("resolved %q", names)
	}
}

func TestProxyThatRefuses(t *testing.T) {
	_, u := startProxy(t, "")
	_, err := do(t, session(t, Options{Proxy: u}), patterns(t, "example.com"), Request{URL: "https://example.com"})
	failed(t, err, false, "the proxy does not connect to it")
	dead := *u
	l, errListen := net.Listen("tcp4", "127.0.0.1:0")
	if errListen != nil {
		t.Fatal(errListen)
	}
	dead.Host = l.Addr().String()
	_ = l.Close()
	_, err = do(t, session(t, Options{Proxy: &dead}), patterns(t, "example.com"), Request{URL: "https://example.com"})
	failed(t, err, false, "the proxy cannot be reached")
	for _, secret := range []string{"127.0.0.1", "pw", "10.1.2.3"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%v says %s", err, secret)
		}
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Options{Timeout: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
	if _, err := New(Options{Proxy: &url.URL{Scheme: "ftp", Host: "a:1"}}); err == nil {
		t.Error("a proxy that speaks FTP was taken")
	}
}
