package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/awaken-agents/awaken-host/plugins"
)

// serve runs a real server on loopback and returns its port.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s, port(t, s.URL)
}

func port(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// serveRaw answers every connection with what answer writes.
func serveRaw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				_, _ = c.Read(make([]byte, 4096))
				answer(c)
			})
		}
	})
	t.Cleanup(func() { stop(); _ = l.Close(); wg.Wait() })
	_, p, _ := net.SplitHostPort(l.Addr().String())
	return p
}

// names is a real name server: what it answers each time is asked of it.
type names struct {
	resolver *net.Resolver
	mu       sync.Mutex
	asked    []string
}

func (n *names) seen() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}

// serveNames answers with addresses for a name (lower case, without its dot); nth
// counts the questions for it from 0, those for IPv4 and IPv6 apart.
func serveNames(t *testing.T, answer func(name string, nth int) []string) *names {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{}
	done := make(chan struct{})
	count := map[string]int{}
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			size, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var p dnsmessage.Parser
			head, err := p.Start(buf[:size])
			if err != nil {
				continue
			}
			q, err := p.Question()
			if err != nil {
				continue
			}
			name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
			n.mu.Lock()
			n.asked = append(n.asked, name)
			n.mu.Unlock()
			key := name + q.Type.String()
			b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: head.ID, Response: true, Authoritative: true})
			_ = b.StartQuestions()
			_ = b.Question(q)
			_ = b.StartAnswers()
			for _, a := range answer(name, count[key]) {
				ip := net.ParseIP(a)
				h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
				if v4 := ip.To4(); v4 != nil && !strings.Contains(a, ":") {
					if q.Type == dnsmessage.TypeA {
						_ = b.AResource(h, dnsmessage.AResource{A: [4]byte(v4)})
					}
				} else if q.Type == dnsmessage.TypeAAAA {
					_ = b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: [16]byte(ip.To16())})
				}
			}
			count[key]++
			if out, err := b.Finish(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	n.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp4", pc.LocalAddr().String())
	}}
	return n
}

func session(t *testing.T, o Options) *Session {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := g.Session()
	t.Cleanup(s.Close)
	return s
}

func patterns(t *testing.T, list ...string) []plugins.HostPattern {
	t.Helper()
	out := make([]plugins.HostPattern, len(list))
	for i, s := range list {
		p, err := plugins.ParseHostPattern(s)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = p
	}
	return out
}

func do(t *testing.T, s *Session, allowed []plugins.HostPattern, r Request) (*Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.Do(ctx, allowed, &r)
}

// get wants an answer with status 200 and returns its body.
func get(t *testing.T, s *Session, allowed []plugins.HostPattern, rawURL string) string {
	t.Helper()
	resp, err := do(t, s, allowed, Request{URL: rawURL})
	if err != nil {
		t.Fatalf("%s: %v", rawURL, err)
	}
	if resp.Status != http.StatusOK {
		t.Fatalf("%s: status %d", rawURL, resp.Status)
	}
	return string(resp.Body)
}

// notGranted wants a refusal by the patterns.
func notGranted(t *testing.T, err error, host string) {
	t.Helper()
	var e *NotGrantedError
	if !errors.As(err, &e) || e.Host != host {
		t.Errorf("got %v, want a refusal of %s", err, host)
	}
}

// failed wants a *FailedError that says all of want, and no address besides those
// in its own URL.
func failed(t *testing.T, err error, refused bool, want ...string) {
	t.Helper()
	var e *FailedError
	if !errors.As(err, &e) || e.Refused != refused {
		t.Errorf("got %v (%T), want a failure, refused %t", err, err, refused)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func roots(s *httptest.Server) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.Certificate())
	return p
}

func atPort(host, port string) string { return "http://" + host + ":" + port }
