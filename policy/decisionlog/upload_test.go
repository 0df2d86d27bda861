package decisionlog

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// server is a decision log service that answers as the test says.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	got      []string // ids of accepted events, in order
	sizes    []int    // events of each request
	headers  []http.Header
	answer   func(ids []string) int // 0: 200
	requests int
}

func newServer(t *testing.T, tls bool) *server {
	s := &server{answer: func([]string) int { return 0 }}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		var events []struct {
			ID   string `json:"decision_id"`
			Path string `json:"path"`
		}
		if err := json.NewDecoder(body).Decode(&events); err != nil || r.Method != http.MethodPost || r.URL.Path != "/base/logs" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		ids := make([]string, len(events))
		for i, e := range events {
			ids[i] = e.ID
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		s.headers = append(s.headers, r.Header.Clone())
		s.sizes = append(s.sizes, len(ids))
		if code := s.answer(ids); code != 0 {
			w.Header().Set("Location", "/elsewhere")
			http.Error(w, "because", code)
			return
		}
		s.got = append(s.got, ids...)
	})
	if tls {
		s.Server = httptest.NewTLSServer(h)
	} else {
		s.Server = httptest.NewServer(h)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *server) say(f func(ids []string) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func always(code int) func([]string) int { return func([]string) int { return code } }

// toServer is a scene whose log goes to srv alone.
func toServer(t *testing.T, srv *server) *scene {
	s := newScene(t)
	s.o.File = nil
	s.o.HTTP = &HTTP{URL: srv.URL + "/base", MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond, Timeout: 5 * time.Second}
	return s
}

func (s *scene) decide(l *Log, runs ...string) {
	s.t.Helper()
	e := s.engine(l)
	for _, r := range runs {
		s.run(e, batch.RunID(r), "allow", "block")
	}
}

// arrived checks that the server has every decision of the ledger once.
func (s *scene) arrived(srv *server) {
	s.t.Helper()
	got := srv.ids()
	slices.Sort(got)
	if want := s.committed(); !slices.Equal(got, want) {
		s.t.Errorf("the server has\n  %v\nthe ledger\n  %v", got, want)
	}
}

func TestUpload(t *testing.T) {
	srv := newServer(t, true)
	s := toServer(t, srv)
	s.o.HTTP.RootCAs = x509.NewCertPool()
	s.o.HTTP.RootCAs.AddCert(srv.Certificate())
	s.o.HTTP.Token = func(context.Context) (string, error) { return "sesame", nil }
	l := s.open()
	s.decide(l, "a", "b", "c")
	eventually(t, "sent", func() bool { return len(srv.ids()) == 6 })
	s.close(l)
	if got := srv.ids(); !slices.Equal(got, []string{"a/1/0/1", "a/1/1/1", "b/1/0/1", "b/1/1/1", "c/1/0/1", "c/1/1/1"}) {
		t.Errorf("order %v", got)
	}
	h := srv.headers[0]
	if h.Get("Authorization") != "Bearer sesame" || h.Get("Content-Encoding") != "gzip" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
	if st := l.Stats(); st.Uploaded != 6 || st.Waiting != 0 || st.Refused != 0 {
		t.Errorf("%+v", st)
	}
	// What was sent is not sent again.
	s.close(s.open())
	s.arrived(srv)
}

// A host that nobody vouches for gets nothing.
func TestUploadToAStranger(t *testing.T) {
	srv := newServer(t, true)
	s := toServer(t, srv)
	l := s.open()
	s.decide(l, "a")
	eventually(t, "said", func() bool { return strings.Contains(s.logs.String(), "certificate") })
	s.close(l)
	if srv.requests != 0 {
		t.Error("a request went out")
	}
}

// A server that fails, for whatever reason that may pass, gets everything once it is
// back, in order; meanwhile no call waits.
func TestServerFails(t *testing.T) {
	for _, code := range []int{500, 502, 503, 429, 401, 403, 404, 408, 302, 307} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			srv := newServer(t, false)
			s := toServer(t, srv)
			srv.say(always(code))
			l := s.open()
			s.decide(l, "a", "b")
			eventually(t, "tried twice", func() bool { srv.mu.Lock(); defer srv.mu.Unlock(); return srv.requests >= 2 })
			if st := l.Stats(); st.Waiting != 4 || st.Behind {
				t.Errorf("%+v", st)
			}
			srv.say(always(0))
			eventually(t, "sent", func() bool { return len(srv.ids()) == 4 })
			s.close(l)
			s.arrived(srv)
			if !strings.Contains(s.logs.String(), "decisions cannot be sent; they wait on disk") {
				t.Error("nothing was said")
			}
		})
	}
}

// A process that ends does not wait for a server that hangs, says so, and the next one
// goes on where it was.
func TestServerHangsAndTheProcessEnds(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	release := make(chan struct{})
	srv.say(func([]string) int { <-release; return 500 })
	l := s.open()
	s.decide(l, "a")
	began := time.Now()
	s.close(l)
	if took := time.Since(began); took > flushMost+2*time.Second {
		t.Errorf("closing took %v", took)
	}
	if !strings.Contains(s.logs.String(), "events=2") {
		t.Errorf("nothing was said: %s", s.logs.String())
	}
	close(release)
	srv.say(always(0))
	l = s.open()
	s.decide(l, "b")
	s.close(l)
	s.arrived(srv)
}

// Requests that are too large are halved; an event that is refused alone is set aside
// and keeps nobody from being sent.
func TestServerRefuses(t *testing.T) {
	for _, code := range []int{413, 400, 422} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			srv := newServer(t, false)
			s := toServer(t, srv)
			srv.say(func(ids []string) int {
				if len(ids) > 3 || slices.Contains(ids, "b/1/0/1") {
					return code
				}
				return 0
			})
			s.o.HTTP.MinDelay = 50 * time.Millisecond
			l := s.open()
			s.decide(l, "a", "b", "c", "d")
			s.close(l)
			want := slices.DeleteFunc(s.committed(), func(id string) bool { return id == "b/1/0/1" })
			if got := srv.ids(); !slices.Equal(got, want) {
				t.Errorf("the server has %v", got)
			}
			if got := lines(t, filepath.Join(s.o.Dir, "upload", "refused.jsonl")); !slices.Equal(got, []string{"b/1/0/1"}) {
				t.Errorf("set aside: %v", got)
			}
			if st := l.Stats(); st.Refused != 1 || st.Uploaded != 7 || st.Waiting != 0 {
				t.Errorf("%+v", st)
			}
			if !strings.Contains(s.logs.String(), "because") {
				t.Error("what the server said is not in the log")
			}
		})
	}
}

func TestBatches(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	s.o.HTTP.MinDelay, s.o.HTTP.BatchEvents, s.o.HTTP.NoGzip = time.Hour, 3, true
	l := s.open()
	s.decide(l, "a", "b", "c", "d")
	s.close(l)
	if !slices.Equal(srv.sizes, []int{3, 3, 2}) || srv.headers[0].Get("Content-Encoding") != "" {
		t.Errorf("requests of %v, %v", srv.sizes, srv.headers[0])
	}
	srv.sizes = nil
	s.o.HTTP.BatchEvents, s.o.HTTP.BatchBytes = 100, 10 // less than one event
	l = s.open()
	s.decide(l, "e")
	s.close(l)
	if !slices.Equal(srv.sizes, []int{1, 1}) {
		t.Errorf("requests of %v", srv.sizes)
	}
	s.arrived(srv)
}

// Kills at any moment: everything arrives, perhaps more than once, under the same ids.
func TestUploadAfterCrashes(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	for i := range 10 {
		n := 0
		srv.say(func([]string) int {
			if n++; n%2 == i%2 {
				return 503
			}
			return 0
		})
		l := s.open()
		if i%3 == 1 {
			breakSink(l, 0).set(errDisk)
		}
		s.decide(l, fmt.Sprint("a", i), fmt.Sprint("b", i))
		time.Sleep(time.Duration(i) * time.Millisecond)
		s.crash(l)
	}
	srv.say(always(0))
	l := s.open()
	s.close(l)
	got := srv.ids()
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, s.committed()) {
		t.Errorf("the server has %v of %v", got, s.committed())
	}
}

// A full buffer loses nothing: what finds no room stays in the ledger.
func TestBufferIsFull(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	srv.say(always(503))
	s.o.HTTP.BufferBytes = 3000
	l := s.open()
	s.decide(l, "a", "b", "c", "d", "e")
	if st := l.Stats(); !st.Behind || st.Waiting == 0 || st.Waiting == 10 {
		t.Errorf("%+v", st)
	}
	srv.say(always(0))
	eventually(t, "sent", func() bool { return len(srv.ids()) == 10 })
	s.close(l)
	s.arrived(srv)
}

func TestBufferIsFullAndRequired(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	srv.say(always(503))
	s.o.HTTP.BufferBytes, s.o.Require = 3000, true
	l := s.open()
	e := s.engine(l)
	var last *batch.Batch
	for i := range 8 {
		last = s.run(e, batch.RunID(fmt.Sprint("r", i)), "allow")
	}
	if last.Calls[0].Answer != batch.AnswerBlocked || !strings.Contains(s.logs.String(), "buffer of events") || len(s.ran) == 0 {
		t.Errorf("the call is %s, %d ran", last.Calls[0].Answer, len(s.ran))
	}
	srv.say(always(0))
	eventually(t, "room again", func() bool { return l.Ready(t.Context()) == nil })
	s.close(l)
	s.arrived(srv)
}

// A damaged position or line costs repetitions, not events.
func TestDamagedSpool(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	srv.say(always(503))
	l := s.open()
	s.decide(l, "a")
	s.close(l)
	dir := filepath.Join(s.o.Dir, "upload")
	segment := filepath.Join(dir, "events.000001")
	raw, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	raw = append([]byte("\x00\x00\x00\n"), raw...)
	if err := os.WriteFile(segment, append(raw, "{\"decision_id\":\"torn"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sent.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv.say(always(0))
	l = s.open()
	s.decide(l, "b")
	s.close(l)
	s.arrived(srv)
	if st := l.Stats(); st.Refused != 1 || st.Waiting != 0 {
		t.Errorf("%+v", st)
	}
}

// Segments go once they are sent, and the count survives a start.
func TestSegments(t *testing.T) {
	dir := t.TempDir()
	p, err := openSpool(dir, 1<<30, false)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		if err := p.append(testLine(n, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, dir); got != "events.000001 events.000002 events.000003" {
		t.Errorf("files %s", got)
	}
	for range 5 {
		got, end, err := p.next(1, 1<<20)
		if err != nil || len(got) != 1 || p.sent(end, 1) != nil {
			t.Fatal(err)
		}
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	p, err = openSpool(dir, 1<<30, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.close() }()
	if got := names(t, dir); p.pending() != 7 || p.bytes != 7<<20 || got != "events.000002 events.000003 sent.json" {
		t.Errorf("%d wait, %d bytes, files %s", p.pending(), p.bytes, got)
	}
	for p.pending() > 0 {
		got, end, err := p.next(2, 3<<20)
		if err != nil || len(got) == 0 || p.sent(end, len(got)) != nil {
			t.Fatal(err)
		}
	}
	if p.bytes != 0 {
		t.Errorf("%d bytes wait", p.bytes)
	}
}

func TestBackoff(t *testing.T) {
	u := &uploader{o: HTTP{MinDelay: time.Second, MaxDelay: time.Minute}}
	for failures := 1; failures < 70; failures++ {
		most := min(time.Minute, time.Second<<min(failures, 10))
		for range 20 {
			if d := u.backoff(failures); d < most/2 || d > most {
				t.Fatalf("after %d failures %v, want %v to %v", failures, d, most/2, most)
			}
		}
	}
}
