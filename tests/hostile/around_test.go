package hostile

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// servers starts the one that may be granted and the one that never is.
func (w *world) servers() {
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, canaryServer)
	}))
	done := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "granted") })
	mux.HandleFunc("/redirect", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, other.URL, http.StatusFound) })
	mux.HandleFunc("/endless", func(rw http.ResponseWriter, r *http.Request) {
		block := bytes.Repeat([]byte("e"), 1<<16)
		for r.Context().Err() == nil {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		case <-time.After(time.Hour):
		}
	})
	mux.HandleFunc("/bomb", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		_, _ = rw.Write(bomb())
	})
	granted := httptest.NewServer(mux)
	w.t.Cleanup(func() {
		close(done)
		granted.Close()
		other.Close()
	})
	w.addresses = strings.NewReplacer("HTTP_PROXY", "HTTP_PROXY",
		"HTTP", granted.Listener.Addr().String(), "OTHER", other.Listener.Addr().String())
}

// bomb is 32 MiB of zeros, in gzip.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	block := make([]byte, 1<<20)
	for range 32 {
		_, _ = z.Write(block)
	}
	_ = z.Close()
	return b.Bytes()
})

// folder makes the folder that may be granted, work, and the one beside it, outside:
// data.txt, links of both kinds to the outside, and a pipe.
func (w *world) folder() {
	w.t.Helper()
	w.write("outside/canary.txt", canaryFile)
	w.write("outside/hard.txt", canaryFile)
	w.write("work/data.txt", "data")
	in := func(name string) string { return filepath.Join(w.dir, "work", name) }
	for _, err := range []error{
		os.Symlink(filepath.Join(w.dir, "outside", "canary.txt"), in("found_link")),
		os.Symlink("../outside", in("found_folder")),
		os.Link(filepath.Join(w.dir, "outside", "hard.txt"), in("found_hard")),
		syscall.Mkfifo(in("pipe"), 0o600),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
