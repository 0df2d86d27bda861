package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// website NAME starts a server on loopback, whose port is the variable NAME from
// then on. It answers with what was requested, and at /to?url= redirects to a URL.
// It writes one line for each request to the file NAME.log.
func website(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "website NAME")
	var mu sync.Mutex
	log := ts.MkAbs(args[0] + ".log")
	ts.Check(appendTo(log, ""))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		err := appendTo(log, fmt.Sprintln(r.Method, r.URL.Path))
		mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if to := r.URL.Query().Get("url"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	ts.Defer(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
