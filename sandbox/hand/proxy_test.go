package hand

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// proxied is a proxy whose host lets requests for allowed.test through, to the server
// at an address, and records what it is asked.
func proxied(t *testing.T, address string, asked *atomic.Value) *proxy {
	t.Helper()
	a, b := net.Pipe()
	hands := make(chan *sandbox.Channel, 1)
	go func() {
		c, _, err := sandbox.Accept(context.Background(), b, sandbox.Welcome{}, sandbox.ChannelOptions{})
		if err != nil {
			t.Error(err)
		}
		hands <- c
	}()
	host, _, err := sandbox.Dial(t.Context(), a, sandbox.Hello{}, sandbox.ChannelOptions{Serve: func(ctx context.Context, s *sandbox.Stream) error {
		var p sandbox.DialParams
		if err := s.Params(&p); err != nil {
			return err
		}
		asked.Store(p)
		if p.Host != "allowed.test" {
			return &sandbox.RemoteError{Kind: sandbox.RemoteRefused, Msg: p.Host + " is not granted"}
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := s.Write([]byte{sandbox.DialReady}); err != nil {
			return err
		}
		go func() { _, _ = io.Copy(conn, s); _ = conn.(*net.TCPConn).CloseWrite() }()
		_, err = io.Copy(s, conn)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	hand := <-hands
	p, err := newProxy(t.Context(), hand, batch.NewOperationID("run", 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); _ = host.Close(); _ = hand.Close() })
	return p
}

func clientOf(t *testing.T, p *proxy) *http.Client {
	t.Helper()
	for _, v := range p.env() {
		if raw, ok := strings.CutPrefix(v, "http_proxy="); ok {
			u, err := url.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}, Timeout: 10 * time.Second}
		}
	}
	t.Fatal("no http_proxy")
	return nil
}

// answered does one request and returns the status and the whole body.
func answered(client *http.Client, method, url, body string) (int, string, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got), err
}

func TestProxyAsksTheHost(t *testing.T) {
	var asked atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s auth=%q", r.Method, r.Host, body, r.Header.Get("Proxy-Authorization"))
	}))
	defer server.Close()
	p := proxied(t, server.Listener.Addr().String(), &asked)
	client := clientOf(t, p)

	status, body, err := answered(client, http.MethodPost, "http://allowed.test:8080/x", "hello")
	if err != nil || status != http.StatusOK || body != `POST allowed.test:8080 hello auth=""` {
		t.Errorf("got %d %q, %v", status, body, err)
	}
	want := sandbox.DialParams{Operation: batch.NewOperationID("run", 1, 0), Scheme: "http", Host: "allowed.test", Port: 8080}
	if got := asked.Load(); got != want {
		t.Errorf("the host was asked for %+v, want %+v", got, want)
	}
	status, body, err = answered(client, http.MethodGet, "http://other.test/", "")
	if err != nil || status != http.StatusForbidden || !strings.Contains(body, "other.test is not granted") {
		t.Errorf("a host that is not granted: %d %q, %v", status, body, err)
	}
}

func TestProxyTunnels(t *testing.T) {
	var asked atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat(r.URL.Path, 100_000))
	}))
	defer server.Close()
	p := proxied(t, server.Listener.Addr().String(), &asked)
	client := clientOf(t, p)
	client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"

	if _, body, err := answered(client, http.MethodGet, "https://allowed.test/abc", ""); err != nil || len(body) != 400_000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if got := asked.Load().(sandbox.DialParams); got.Scheme != "https" || got.Port != 443 {
		t.Errorf("the host was asked for %+v", got)
	}
	if _, _, err := answered(client, http.MethodGet, "https://[::1]:443/", ""); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a literal that is not granted: %v", err)
	}
}

// Others on the loopback do not get what a call may reach.
func TestProxyIsForOneCall(t *testing.T) {
	var asked atomic.Value
	p := proxied(t, "127.0.0.1:1", &asked)
	for _, credentials := range []*url.Userinfo{nil, url.UserPassword("awaken", "guess"), url.User(p.token)} {
		u := &url.URL{Scheme: "http", User: credentials, Host: p.listener.Addr().String()}
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}}
		if status, _, err := answered(client, http.MethodGet, "http://allowed.test/", ""); err != nil || status != http.StatusProxyAuthRequired {
			t.Errorf("with %v: %d, %v", credentials, status, err)
		}
	}
	if asked.Load() != nil {
		t.Error("the host was asked")
	}
}

func TestProxyEndsItsConnections(t *testing.T) {
	var asked atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	p := proxied(t, server.Listener.Addr().String(), &asked)
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, _ := http.NewRequest(http.MethodConnect, "http://allowed.test:443", nil)
	r.SetBasicAuth("awaken", p.token)
	fmt.Fprintf(conn, "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\nProxy-Authorization: %s\r\n\r\n", r.Header.Get("Authorization"))
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200" {
		t.Fatalf("%q, %v", head, err)
	}
	p.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection outlives the call")
	}
	if _, err := net.Dial("tcp", p.listener.Addr().String()); err == nil {
		t.Error("the proxy outlives the call")
	}
}
