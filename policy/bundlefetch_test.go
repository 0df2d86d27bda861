package policy

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// bundleServer serves one archive, as it is told.
type bundleServer struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int64
	same   atomic.Int64 // answered with 304
}

func newBundleServer(t testing.TB) *bundleServer {
	s := &bundleServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *bundleServer) does(h http.HandlerFunc) { s.answer.Store(&h) }

// serves answers with an archive and an ETag, and with 304 to who has it.
func (s *bundleServer) serves(raw []byte, etag string) {
	s.does(func(w http.ResponseWriter, r *http.Request) {
		if etag != "" {
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				s.same.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		_, _ = w.Write(raw)
	})
}

func (s *bundleServer) fails(code int) {
	s.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// fromServer is a gate whose whole policy is a bundle of a server.
func fromServer(t testing.TB, s *bundleServer) Options {
	t.Helper()
	o := options(t, "")
	o.Paths = nil
	o.StateDir = filepath.Join(t.TempDir(), "state")
	o.Bundles = []BundleOptions{{Name: "acme", URL: s.URL + "/acme.tar.gz?sig=hunter2", AllowUnsigned: true, Timeout: time.Second}}
	return o
}

// checkNow does what polling does once.
func checkNow(t testing.TB, g *Gate) error {
	t.Helper()
	b := g.loader.bundles[0]
	if err := b.check(context.Background()); err != nil {
		g.noteBundle(b)
		return err
	}
	return g.Reload(context.Background())
}

func said(t testing.TB, g *Gate) string {
	t.Helper()
	return decide(t, g, query("read", `{}`)).Reasons[0].Message
}

func TestBundleFromServer(t *testing.T) {
	s := newBundleServer(t)
	s.serves(archive(t, policyFiles("v1")), `"1"`)
	g := open(t, fromServer(t, s))
	if got := said(t, g); got != "v1 v1" {
		t.Errorf("got %q", got)
	}
	if err := checkNow(t, g); err != nil || s.same.Load() != 1 {
		t.Errorf("%d answers were 304, %v", s.same.Load(), err)
	}
	s.serves(archive(t, policyFiles("v2")), `"2"`)
	if err := checkNow(t, g); err != nil || said(t, g) != "v2 v2" {
		t.Errorf("got %q, %v", said(t, g), err)
	}
	src := g.Status().Sources[0]
	if src.Revision != "v2" || src.ETag != `"2"` || src.Fetched == nil || src.Stale != nil || src.From != s.URL+"/acme.tar.gz?…" {
		t.Errorf("got %+v", src)
	}

	// The server goes back to what it had, with another tag.
	s.serves(archive(t, policyFiles("v1")), `"3"`)
	if err := checkNow(t, g); err != nil || said(t, g) != "v1 v1" {
		t.Errorf("got %q, %v", said(t, g), err)
	}
}

// Whatever the server does, what was good stays, and the status says what is wrong.
func TestServersThatFail(t *testing.T) {
	s := newBundleServer(t)
	good := archive(t, policyFiles("v1"))
	s.serves(good, `"1"`)
	o := fromServer(t, s)
	o.Bundles[0].Timeout = 150 * time.Millisecond
	o.Bundles[0].MaxBytes = 1 << 20
	g := open(t, o)
	stop := make(chan struct{})
	defer close(stop)
	hang := func(r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}
	for name, c := range map[string]struct {
		does http.HandlerFunc
		want string
	}{
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "the server answers 500"},
		"404": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "the server answers 404"},
		"401": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "check the token"},
		"206": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(good)
		}, "the server answers 206"},
		"silent":    {func(_ http.ResponseWriter, r *http.Request) { hang(r) }, "the download took longer than 150ms"},
		"drops off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			for i := range good {
				if _, err := w.Write(good[i : i+1]); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}, "the download took longer than 150ms"},
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			_, _ = w.Write(good[:len(good)/2])
		}, "the download broke off"},
		"cut, and says so": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good[:len(good)/2]) }, "it is damaged or was cut short"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999999")
			w.WriteHeader(http.StatusOK)
		}, "the archive is larger than 1 MiB"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			block := make([]byte, 64<<10)
			for {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "the archive is larger than 1 MiB"},
		"no bundle": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "it is not compressed with gzip"},
		"loop":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, "redirects more than three times"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, "redirects to 192.0.2.1 over http"},
		"does not compile": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(archive(t, map[string]string{"p.rego": "package awaken.policy\n\nalow contains 1\n"}))
		}, "bundle:acme/p.rego:3:1: rule alow is used by nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s.does(c.does)
			began := time.Now()
			err := checkNow(t, g)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			if said(t, g) != "v1 v1" || g.Status().Healthy() {
				t.Errorf("decided by %q, status %+v", said(t, g), g.Status())
			}
		})
	}
	s.serves(good, `"1"`)
	if err := checkNow(t, g); err != nil || !g.Status().Healthy() {
		t.Errorf("%v, status %+v", err, g.Status())
	}
}

func TestTokenGoesToTheServerAlone(t *testing.T) {
	other := newBundleServer(t)
	other.does(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("another server was sent the token")
		}
	})
	s := newBundleServer(t)
	good := archive(t, policyFiles("v1"))
	s.does(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(good)
	})
	o := fromServer(t, s)
	token, tokenErr := "t0ken", error(nil)
	o.Bundles[0].Token = func(context.Context) (string, error) { return token, tokenErr }
	g := open(t, o)
	s.does(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
	})
	if err := checkNow(t, g); err == nil || !strings.Contains(err.Error(), "which must not see the token") || other.asked.Load() != 0 {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"", "a\nb", "a b"} {
		token = bad
		if err := checkNow(t, g); err == nil || !strings.Contains(err.Error(), "its token is empty or has characters") || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	tokenErr = errors.New("no such file")
	if err := checkNow(t, g); err == nil || !strings.Contains(err.Error(), "its token cannot be had: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestTLSIsVerified(t *testing.T) {
	good := archive(t, policyFiles("v1"))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good) }))
	defer s.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good) }))
	defer plain.Close()
	o := options(t, "")
	o.Paths = nil
	o.Bundles = []BundleOptions{{Name: "acme", URL: s.URL, AllowUnsigned: true}}
	if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Bundles[0].CAFile = ca
	g := open(t, o)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	if err := checkNow(t, g); err == nil || !strings.Contains(err.Error(), "redirects from https to http") {
		t.Errorf("got %v", err)
	}
}

func TestNoProxyOfTheEnvironment(t *testing.T) {
	s := newBundleServer(t)
	s.serves(archive(t, policyFiles("v1")), "")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	o := fromServer(t, s)
	open(t, o)
	proxied := newBundleServer(t)
	proxied.does(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "policies.example.com" {
			t.Errorf("the proxy is asked for %s", r.URL)
		}
		_, _ = w.Write(archive(t, policyFiles("v9")))
	})
	k := newSigner(t, "k1")
	proxied.does(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "policies.example.com" {
			t.Errorf("the proxy is asked for %s", r.URL)
		}
		_, _ = w.Write(archive(t, k.sign(t, policyFiles("v9"), "")))
	})
	o.Bundles = []BundleOptions{{Name: "far", URL: "http://policies.example.com/a.tar.gz", Keys: []BundleKey{k.key(t, "")}, Proxy: proxied.URL}}
	if got := said(t, open(t, o)); got != "v9 v9" {
		t.Errorf("got %q", got)
	}
}

// A start while the server is down takes the copy that was kept, verified again.
func TestStartWhileTheServerIsDown(t *testing.T) {
	s := newBundleServer(t)
	k := newSigner(t, "k1")
	o := fromServer(t, s)
	o.Bundles[0].AllowUnsigned = false
	o.Bundles[0].Keys = []BundleKey{k.key(t, "")}
	ctx := context.Background()
	s.fails(503)
	if _, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "the server answers 503") || !strings.Contains(err.Error(), "there is no copy of an earlier start") {
		t.Fatalf("got %v", err)
	}
	s.serves(archive(t, k.sign(t, policyFiles("v1"), "")), `"1"`)
	g := open(t, o)
	if _, err := os.Stat(o.StateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was touched before it is held: %v", err)
	}
	if err := g.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	s.fails(503)
	g = open(t, o)
	st := g.Status()
	if said(t, g) != "v1 v1" || st.Healthy() || !st.Sources[0].Restored || st.Sources[0].Stale == nil || !strings.Contains(st.Sources[0].Problem, "503") {
		t.Errorf("decided by %q, status %+v", said(t, g), st)
	}
	r, err := Check(ctx, o)
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].String(), "bundle:acme: cannot be checked: the server answers 503 Service Unavailable; the copy of ") {
		t.Errorf("Check says %+v, %v", r, err)
	}

	// Its tag is still good.
	s.serves(archive(t, k.sign(t, policyFiles("v1"), "")), `"1"`)
	g = open(t, o)
	if s.same.Load() == 0 || !g.Status().Healthy() || g.Status().Sources[0].Restored {
		t.Errorf("%d times 304, status %+v", s.same.Load(), g.Status())
	}

	// The newest does not compile: the copy is used, and the host starts.
	files := policyFiles("v2")
	files["allow.rego"] = "package awaken.policy\n\nalow contains 1\n"
	s.serves(archive(t, k.sign(t, files, "")), `"2"`)
	g = open(t, o)
	if st := g.Status(); said(t, g) != "v1 v1" || st.Healthy() || st.Sources[0].Waiting != "v2" || !strings.Contains(st.Problem, "rule alow") {
		t.Errorf("decided by %q, status %+v", said(t, g), st)
	}

	// Another key, a changed copy, another address: the copy is not used.
	s.fails(503)
	otherKey, kept := o, filepath.Join(o.StateDir, "acme.tar.gz")
	otherKey.Bundles = []BundleOptions{o.Bundles[0]}
	otherKey.Bundles[0].Keys = []BundleKey{newSigner(t, "k1").key(t, "")}
	if _, err := Open(ctx, otherKey); err == nil || !strings.Contains(err.Error(), "the copy of an earlier start cannot be used: policy: bundle:acme: is signed by none") {
		t.Errorf("another key: %v", err)
	}
	elsewhere := o
	elsewhere.Bundles = []BundleOptions{o.Bundles[0]}
	elsewhere.Bundles[0].URL = s.URL + "/other.tar.gz"
	if _, err := Open(ctx, elsewhere); err == nil || !strings.Contains(err.Error(), "there is no copy") {
		t.Errorf("another address: %v", err)
	}
	if err := os.WriteFile(kept, archive(t, k.sign(t, policyFiles("v0"), "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "is not what was kept") {
		t.Errorf("changed copy: %v", err)
	}
	if err := os.Chmod(o.StateDir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "can be written to by others") {
		t.Errorf("open folder: %v", err)
	}
}
