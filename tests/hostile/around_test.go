package hostile

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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

// inSandbox are the settings of sandboxes. What is outside of the workspace is in them,
// where a link out of the workspace leads to.
const inSandbox = `[sandbox]
tier = %q
network = "allowlist"
[[sandbox.mount]]
target = "/outside"
folder = "outside"
mode = "ro"
`

// foundHard is another name of a file outside.
const foundHard = "found_hard"

// folder makes the folder that may be granted, and the one beside it, outside. The first
// is work, or the workspace of the run where tools are in sandboxes; it is made only when
// it is used. In it are data.txt, links of both kinds to the outside, and a pipe.
func (w *world) folder(used bool) {
	w.t.Helper()
	w.write("outside/canary.txt", canaryFile)
	w.write("outside/hard.txt", canaryFile)
	if !used {
		return
	}
	w.write("work/data.txt", "data")
	work, outside := filepath.Join(w.dir, "work"), filepath.Join(w.dir, "outside")
	if w.tier != brain {
		cmd := exec.CommandContext(w.t.Context(), binary, "run", "--run", attacked, "-")
		cmd.Dir, cmd.Env, cmd.Stdin = w.dir, w.env, strings.NewReader(`{"calls":[{"id":"before","tool":"neighbour__run"}]}`)
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("%v\n%s", err, out)
		}
		found, err := filepath.Glob(filepath.Join(w.dir, "data", "sandbox", "*", "workspace"))
		if err != nil || len(found) != 1 {
			w.t.Fatalf("the workspaces are %v: %v", found, err)
		}
		if err := os.Rename(filepath.Join(work, "data.txt"), filepath.Join(found[0], "data.txt")); err != nil {
			w.t.Fatal(err)
		}
		work, outside = found[0], "/outside"
	}
	in := func(name string) string { return filepath.Join(work, name) }
	for _, err := range []error{
		os.Symlink(filepath.Join(outside, "canary.txt"), in("found_link")),
		os.Symlink("../outside", in("found_folder")),
		os.Link(filepath.Join(w.dir, "outside", "hard.txt"), in(foundHard)),
		syscall.Mkfifo(in("pipe"), 0o600),
		// A Hand may be another user, whom no mode is to stop.
		os.Chmod(in("data.txt"), 0o666),
		os.Chmod(in(foundHard), 0o666),
		os.Chmod(in("pipe"), 0o666),
		os.Chmod(filepath.Join(w.dir, "outside", "canary.txt"), 0o666),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
