package egress

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMethods(t *testing.T) {
	_, p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.Method, body)
	})
	s, allowed := session(t, Options{}), patterns(t, atPort("localhost", p))
	for _, m := range []string{"", "get", "POST", "PUT", "Patch", "DELETE", "OPTIONS", "HEAD"} {
		resp, err := do(t, s, allowed, Request{Method: m, URL: atPort("localhost", p), Body: []byte("b")})
		want := strings.ToUpper(m) + " b"
		if m == "" {
			want = "GET b"
		}
		if m == "HEAD" {
			want = ""
		}
		if err != nil || string(resp.Body) != want {
			t.Errorf("%q: got %v, %v", m, resp, err)
		}
	}
	for _, m := range []string{"CONNECT", "TRACE", "connect", "PROPFIND", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", " GET", "PRI"} {
		_, err := do(t, s, allowed, Request{Method: m, URL: atPort("localhost", p)})
		failed(t, err, true, "method", "not allowed")
	}
}

func TestURLs(t *testing.T) {
	var hits atomic.Int32
	var line string
	_, p := serve(t, func(_ http.ResponseWriter, r *http.Request) { hits.Add(1); line = r.RequestURI })
	s, allowed := session(t, Options{}), patterns(t, atPort("localhost", p))
	for _, u := range []string{
		"", "localhost:" + p, "//localhost:" + p, "/x", "ftp://localhost:" + p, "file:///etc/passwd", "http:localhost:" + p, "http://", "http://:" + p,
		"http://localhost:0", "http://localhost:99999", "http://localhost:" + p + "x", "http://local host:" + p, "http://localhost\r\n:" + p, "http://localhost:" + p + "/\r\nX: y",
		"http://[localhost]:" + p, "http://[::1%25lo]:" + p, "unix:///run/x.sock", "http://localhost:" + p + "/" + strings.Repeat("a", maxURL),
		"http://a..b:" + p, "http://*.example.test:" + p,
	} {
		if _, err := do(t, s, allowed, Request{URL: u}); err == nil {
			t.Errorf("%.60q was requested", u)
		} else if strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("the error for %.60q has lines: %v", u, err)
		}
	}
	for _, u := range []string{
		"http://evil.test:" + p, "http://localhost@evil.test:" + p, "http://localhost:" + p + "@evil.test/", "http://evil.test#@localhost:" + p,
		"http://evil.test?@localhost:" + p, "http://localhost.evil.test:" + p, "http://evil.test/localhost:" + p, "https://localhost:" + p, "http://localhost", "HTTP://LOCALHOST",
	} {
		var e *NotGrantedError
		if _, err := do(t, s, allowed, Request{URL: u}); !errors.As(err, &e) {
			t.Errorf("%s: %v", u, err)
		}
	}
	if hits.Load() != 0 {
		t.Fatalf("the server was reached %d times", hits.Load())
	}
	get(t, s, allowed, "HTTP://LocalHost.:"+p+"/x y?z HTTP/1.0 #fragment")
	if line != "/x%20y?z%20HTTP/1.0%20" {
		t.Errorf("requested %q", line)
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	var host string
	_, p := serve(t, func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host })
	s, allowed := session(t, Options{}), patterns(t, atPort("localhost", p))
	url := atPort("localhost", p) + "/"
	send := func(url string, h http.Header) error {
		_, err := do(t, s, allowed, Request{URL: url, Header: h, Body: []byte("four")})
		return err
	}
	err := send(url, http.Header{"x-key": {"k"}, "Host": {"localhost:" + p}, "Content-Length": {"4"}, "connection": {"Keep-Alive"}, "Authorization": {"Bearer t"}})
	if err != nil || got.Get("X-Key") != "k" || got.Get("Authorization") != "Bearer t" || host != "localhost:"+p || got.Get("User-Agent") != "awaken-host" || got.Get("Accept-Encoding") != "" {
		t.Errorf("got %v for %s, %v", got, host, err)
	}
	if err := send(strings.Replace(url, "//", "//me:pass@", 1), nil); err != nil || got.Get("Authorization") != "Basic bWU6cGFzcw==" {
		t.Errorf("got %v, %v", got, err)
	}
	if err := send(url, http.Header{"User-Agent": {"mine"}}); err != nil || got.Get("User-Agent") != "mine" {
		t.Errorf("got %v, %v", got, err)
	}
	for name, value := range map[string]string{
		"Host": "evil.test", "Content-Length": "5", "Transfer-Encoding": "chunked", "Connection": "X-Key", "Upgrade": "h2c", "Te": "trailers",
		"Proxy-Authorization": "Basic x", "proxy-connection": "keep-alive", "Trailer": "X", "Keep-Alive": "1", "Expect": "100-continue", "HTTP2-Settings": "x",
		"X-A": "b\r\nX-Injected: yes", "X-B": "b\nc", "X-C": "b\x00", "X-D\r\nX-Injected": "b", "X E": "b", "": "b", "X-F:": "b", ":authority": "evil.test",
		"X-Long": strings.Repeat("a", MaxHeaderBytes),
	} {
		got = nil
		err := send(url, http.Header{name: {value}})
		failed(t, err, true, "header")
		if got != nil {
			t.Errorf("%q: the request was sent", name)
		}
	}
}

func TestRedirects(t *testing.T) {
	type seen struct {
		method, body string
		header       http.Header
	}
	var mu sync.Mutex
	var at []seen
	_, other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		at = append(at, seen{r.Method, string(body), r.Header})
		mu.Unlock()
		_, _ = w.Write([]byte("other"))
	})
	var where string
	code := http.StatusFound
	var loops atomic.Int32
	_, p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			loops.Add(1)
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/end":
			fmt.Fprint(w, r.Header.Get("Authorization"), r.Header.Get("Cookie"))
		case "/cookie":
			w.Header().Set("Set-Cookie", "a=b")
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			w.Header()["Location"] = []string{where}
			w.WriteHeader(code)
		}
	})
	here, there := atPort("localhost", p), atPort("127.0.0.1", other)
	s := session(t, Options{})
	both := patterns(t, here, there)
	secret := func() http.Header {
		return http.Header{"Authorization": {"Bearer t"}, "Cookie": {"c=1"}, "X-Api-Key": {"k"}, "Accept": {"a/b"}, "Content-Type": {"t/x"}, "Referer": {"r"}}
	}

	where = there
	_, err := do(t, s, patterns(t, here), Request{URL: here + "/go"})
	notGranted(t, err, there)
	if err == nil || !strings.Contains(err.Error(), "where "+here+" redirects to") || len(at) != 0 {
		t.Errorf("got %v, and %d requests", err, len(at))
	}
	for _, to := range []string{
		"http://evil.test/", "https://localhost:" + p + "/", "http://localhost:1/", "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/",
		"http://localhost@evil.test/", "//evil.test/", "http://localhost.:81/",
	} {
		where = to
		_, err := do(t, s, both, Request{URL: here + "/go"})
		var e *NotGrantedError
		if !errors.As(err, &e) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	for _, to := range []string{"file:///etc/passwd", "gopher://localhost/", "http://127.1/", "data:text/plain,x", "http://%zz/", "http://" + strings.Repeat("a", maxURL)} {
		where = to
		_, err := do(t, s, both, Request{URL: here + "/go"})
		failed(t, err, true, "redirects to")
	}
	if len(at) != 0 {
		t.Fatalf("%d requests went there", len(at))
	}

	where = strings.Replace(there, "//", "//u:p@", 1) + "/x"
	for _, tt := range []struct {
		code                       int
		method, wantMethod, wanted string
	}{
		{301, "POST", "GET", ""}, {302, "POST", "GET", ""}, {303, "PUT", "GET", ""}, {303, "HEAD", "HEAD", ""},
		{302, "PUT", "PUT", "body"}, {307, "POST", "POST", "body"}, {308, "POST", "POST", "body"},
	} {
		code = tt.code
		body := []byte("body")
		if tt.method == "HEAD" {
			body = nil
		}
		at = nil
		resp, err := do(t, s, both, Request{Method: tt.method, URL: here + "/go", Header: secret(), Body: body})
		if err != nil || resp.Host != there || len(at) != 1 {
			t.Fatalf("%d: %v, %v", tt.code, resp, err)
		}
		h := at[0].header
		if at[0].method != tt.wantMethod || at[0].body != tt.wanted {
			t.Errorf("%d %s: got %s %q", tt.code, tt.method, at[0].method, at[0].body)
		}
		for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Referer"} {
			if h.Get(name) != "" {
				t.Errorf("%d: %s went to another origin", tt.code, name)
			}
		}
		if h.Get("Accept") != "a/b" || (h.Get("Content-Type") != "") != (tt.wantMethod != "GET") {
			t.Errorf("%d: got %v", tt.code, h)
		}
	}
	resp, err := do(t, s, both, Request{URL: here + "/same", Header: secret()})
	if err != nil || string(resp.Body) != "Bearer tc=1" {
		t.Errorf("within one origin: %v, %v", resp, err)
	}
	if got := get(t, s, both, here+"/cookie"); got != "" {
		t.Errorf("a cookie was kept: %q", got)
	}
	_, err = do(t, s, both, Request{URL: here + "/loop"})
	failed(t, err, true, "more than 10 times")
	if loops.Load() != 11 {
		t.Errorf("%d requests", loops.Load())
	}
	where = ""
	if resp, err := do(t, s, both, Request{URL: here + "/go"}); err != nil || resp.Status != code {
		t.Errorf("a redirect to nowhere: %v, %v", resp, err)
	}
}

// A redirect from TLS to plain HTTP needs an entry of its own.
func TestDowngrade(t *testing.T) {
	_, plain := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "plain", r.Header.Get("Authorization")) })
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, atPort("127.0.0.1", plain), http.StatusFound)
	}))
	defer tls.Close()
	s := session(t, Options{Roots: roots(tls)})
	secure := "127.0.0.1:" + port(t, tls.URL)
	_, err := do(t, s, patterns(t, secure, "127.0.0.1:"+plain), Request{URL: tls.URL})
	notGranted(t, err, atPort("127.0.0.1", plain))
	resp, err := do(t, s, patterns(t, secure, atPort("127.0.0.1", plain)), Request{URL: tls.URL, Header: http.Header{"Authorization": {"x"}}})
	if err != nil || string(resp.Body) != "plain" {
		t.Errorf("granted: %v, %v", resp, err)
	}
}

func TestTLS(t *testing.T) {
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	tls.EnableHTTP2 = true
	tls.StartTLS()
	defer tls.Close()
	allowed := patterns(t, "127.0.0.1:"+port(t, tls.URL), "localhost:"+port(t, tls.URL))
	_, err := do(t, session(t, Options{}), allowed, Request{URL: tls.URL})
	failed(t, err, false, "not trusted", "ca_file")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	pool, err := LoadRoots(file)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, Options{Roots: pool})
	if got := get(t, s, allowed, tls.URL); got != "HTTP/2.0" {
		t.Errorf("spoke %s", got)
	}
	// The certificate does not name localhost.
	_, err = do(t, s, allowed, Request{URL: strings.Replace(tls.URL, "127.0.0.1", "localhost", 1)})
	failed(t, err, false, "another name")
	_, plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, err = do(t, s, patterns(t, "localhost:"+plain), Request{URL: "https://localhost:" + plain})
	failed(t, err, false, "does not speak TLS")
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRoots(file); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("got %v", err)
	}
	if _, err := LoadRoots(file + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestLimits(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(make([]byte, 4<<20))
	_ = z.Close()
	_, p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			_, _ = w.Write(make([]byte, 1000))
		case "/declared":
			w.Header().Set("Content-Length", "1001")
			_, _ = w.Write(make([]byte, 1001))
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		case "/slow":
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte("x")); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		case "/silent":
			<-r.Context().Done()
		}
	})
	here := atPort("localhost", p)
	allowed := patterns(t, here)
	s := session(t, Options{MaxResponseBytes: 1000, MaxRequestBytes: 10, Timeout: 300 * time.Millisecond})
	if got := get(t, s, allowed, here+"/exact"); len(got) != 1000 {
		t.Errorf("got %d bytes", len(got))
	}
	for _, path := range []string{"/declared", "/endless", "/bomb"} {
		_, err := do(t, s, allowed, Request{URL: here + path})
		failed(t, err, false, "larger than 1000 bytes ([egress].response_mib)")
	}
	_, err := do(t, s, allowed, Request{URL: here + "/exact", MaxResponse: 999})
	failed(t, err, false, "larger than the 999 bytes of memory that are left")
	_, err = do(t, s, allowed, Request{URL: here + "/exact", MaxResponse: -1})
	failed(t, err, false, "0 bytes of memory")
	_, err = do(t, s, allowed, Request{Method: "POST", URL: here + "/exact", Body: make([]byte, 11)})
	failed(t, err, true, "11 bytes", "request_mib")
	for _, path := range []string{"/slow", "/silent"} {
		_, err := do(t, s, allowed, Request{URL: here + path})
		failed(t, err, false, "longer than 300ms ([egress].timeout)")
	}
	// What is packed comes as it is, and what is small when packed stays small.
	resp, err := do(t, session(t, Options{}), allowed, Request{URL: here + "/bomb"})
	if err != nil || !bytes.Equal(resp.Body, packed.Bytes()) || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %d bytes, %v", len(resp.Body), err)
	}
}

// What is not HTTP, or has no end, ends.
func TestHostileServers(t *testing.T) {
	until := func(c net.Conn, s string) {
		for {
			if _, err := io.WriteString(c, s); err != nil {
				return
			}
		}
	}
	s := session(t, Options{Timeout: 30 * time.Second})
	for name, tt := range map[string]struct {
		answer func(net.Conn)
		want   string
	}{
		"endless headers": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			until(c, "X-A: "+strings.Repeat("a", 500)+"\r\n")
		}, "header of its answer is larger than 64 KiB"},
		"one endless header": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			until(c, strings.Repeat("a", 500))
		}, "header of its answer is larger than 64 KiB"},
		"endless status": {func(c net.Conn) { until(c, strings.Repeat("a", 500)) }, "failed"},
		"endless 1xx":    {func(c net.Conn) { until(c, "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n") }, "failed"},
		"endless chunk size": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			until(c, "0")
		}, "failed"},
		"endless trailer": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
			until(c, "X: y\r\n")
		}, "failed"},
		"not HTTP":   {func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n") }, "not HTTP"},
		"nothing":    {func(net.Conn) {}, "ended the connection"},
		"short body": {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc") }, "ended the connection"},
		"switching protocols": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = c.Read(make([]byte, 1))
		}, "another protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serveRaw(t, tt.answer)
			begun := time.Now()
			_, err := do(t, s, patterns(t, atPort("127.0.0.1", p)), Request{URL: atPort("127.0.0.1", p)})
			if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(begun) > 25*time.Second {
				t.Errorf("got %v after %s, want %q", err, time.Since(begun), tt.want)
			}
		})
	}
}

// Connections are kept for the session that made them, and for no other.
func TestConnectionsAreNotShared(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }))
	srv.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	allowed := patterns(t, srv.URL)
	var from []string
	for range 2 {
		s := g.Session()
		defer s.Close()
		for range 2 {
			from = append(from, get(t, s, allowed, srv.URL))
		}
	}
	if from[0] != from[1] || from[2] != from[3] || from[0] == from[2] || conns.Load() != 2 {
		t.Errorf("%d connections: %q", conns.Load(), from)
	}
}

// Whatever a URL looks like, it is sent to the origin that was checked.
func FuzzURL(f *testing.F) {
	for _, u := range []string{"https://a.b/c?d#e", "http://u:p@a.b:81/", "http://[::ffff:1.2.3.4]:80//x", "http://a.b\\@c.d/", "https://ａ.b:443", "http://a.b:080", "http:/a", "//a", "HTTP://A.B.?#", "http://a.b/ ?x y HTTP/1.1"} {
		f.Add(u, "/x")
		f.Add("https://a.b", u)
	}
	f.Fuzz(func(t *testing.T, u, location string) {
		h, err := newHop(&Request{URL: u, Header: http.Header{"Authorization": {"x"}}})
		if err != nil {
			return
		}
		checkHop(t, h)
		next, err := h.redirect(&http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {location}}})
		if err != nil || next == nil {
			return
		}
		checkHop(t, next)
		if h.origin != next.origin && next.header.Get("Authorization") != "" {
			t.Fatalf("%q to %q: the credentials went along", u, location)
		}
	})
}

func checkHop(t *testing.T, h *hop) {
	req, err := http.NewRequest(h.method, h.url.String(), nil)
	if err != nil {
		return // not sent
	}
	_, o, err := normalize(req.URL)
	if err != nil || o != h.origin || req.URL.User != nil {
		t.Fatalf("%q: checked %v, sent to %v, %v", h.url, h.origin, o, err)
	}
	pattern := patterns(t, h.origin.String())[0]
	if !pattern.Match(h.origin.scheme, h.origin.host, h.origin.port) {
		t.Fatalf("%v does not match itself", pattern)
	}
	if strings.ContainsAny(h.url.RequestURI(), " \t\r\n") {
		t.Fatalf("the request line has a space: %q", h.url.RequestURI())
	}
	if !slices.Contains(methods, h.method) {
		t.Fatal(h.method)
	}
}
