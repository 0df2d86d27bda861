package decisionlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// HTTP says where decisions are sent, as OPA sends its decision log: a POST of a JSON
// array of events to URL/logs. Every event arrives at least once; its decision_id tells
// a second one.
type HTTP struct {
	URL         string                                // required; http or https
	Token       func(context.Context) (string, error) // bearer token, asked for each request; nil: none
	NoGzip      bool
	RootCAs     *x509.CertPool // who may vouch for the server; nil: the system's
	BatchEvents int            // most events of one request; 0: 1000
	BatchBytes  int64          // most bytes of one request before compression; 0: 1 MiB
	MinDelay    time.Duration  // for events to gather, and before the first repetition; 0: 1 s
	MaxDelay    time.Duration  // between repetitions; 0: 1 min
	Timeout     time.Duration  // of one request; 0: 10 s
	BufferBytes int64          // most bytes that wait on disk; 0: 1 GiB
}

// uploader sends what is in the spool, in order.
type uploader struct {
	o      HTTP
	logs   string // URL of the requests
	spool  *spool
	dir    string
	client *http.Client
	log    *slog.Logger
	most   int           // events of the next request: fewer after a refusal, to find which one it is
	abort  chan struct{} // closed when the request under way has had its time

	uploaded, refused atomic.Uint64
}

func newUploader(o HTTP, dir string, durable bool, log *slog.Logger) (*uploader, error) {
	orElse(&o.BatchEvents, 1000)
	orElse(&o.BatchBytes, 1<<20)
	orElse(&o.MinDelay, time.Second)
	orElse(&o.MaxDelay, time.Minute)
	orElse(&o.Timeout, 10*time.Second)
	orElse(&o.BufferBytes, 1<<30)
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("url %q is not an http or https address", o.URL)
	}
	s, err := openSpool(dir, o.BufferBytes, durable)
	if err != nil {
		return nil, err
	}
	return &uploader{
		o: o, logs: u.JoinPath("logs").String(), spool: s, dir: dir, log: log, most: o.BatchEvents,
		abort: make(chan struct{}),
		client: &http.Client{
			// No proxy of the process's environment, and no redirect that would carry
			// decisions elsewhere.
			Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}, MaxIdleConns: 2},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       o.Timeout,
		},
	}, nil
}

func orElse[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// run sends until ctx ends. A request that is under way then goes on until abort is
// closed: cut short, its events would be sent again.
func (u *uploader) run(ctx context.Context) {
	defer u.client.CloseIdleConnections()
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-u.abort:
			cancel()
		case <-request.Done():
		}
	}()
	failures := 0
	for {
		delay := u.o.MinDelay
		if failures > 0 {
			delay = u.backoff(failures)
		} else if u.spool.pending() == 0 {
			select {
			case <-ctx.Done():
				return
			case <-u.spool.more:
			}
		}
		if !wait(ctx, delay) {
			return
		}
		err := u.flush(ctx, request)
		var later retryAfter
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			failures++
			u.log.Error("decisions cannot be sent; they wait on disk", "url", u.logs, "events", u.spool.pending(), "err", err)
			if errors.As(err, &later) && !wait(ctx, min(later.delay, u.o.MaxDelay)) {
				return
			}
		}
	}
}

// backoff doubles from MinDelay to MaxDelay, and is spread so that many hosts do not
// come back at one moment.
func (u *uploader) backoff(failures int) time.Duration {
	d := u.o.MinDelay << min(failures, 20)
	if d <= 0 || d > u.o.MaxDelay {
		d = u.o.MaxDelay
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // a spread, not a secret
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// flush sends everything that waits, until the first failure. No request is begun once
// ctx has ended; those that are go on under a context of their own.
func (u *uploader) flush(ctx, request context.Context) error {
	for {
		lines, end, err := u.spool.next(u.most, u.o.BatchBytes)
		if err != nil || len(lines) == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.send(request, lines, end); err != nil {
			return err
		}
	}
}

// refusal is an answer that will be the same for the same events.
type refusal struct{ status, body string }

func (r refusal) Error() string { return "the server answered " + r.status + ": " + r.body }

// retryAfter is an answer with a time to come back.
type retryAfter struct {
	error
	delay time.Duration
}

func (r retryAfter) Unwrap() error { return r.error }

// send delivers lines and moves on behind them. A request that is refused is made
// smaller, and an event that is refused alone is set aside.
func (u *uploader) send(ctx context.Context, lines [][]byte, end position) error {
	err := u.check(lines)
	if err == nil {
		err = u.post(ctx, lines)
	}
	var no refusal
	switch {
	case err == nil:
		u.uploaded.Add(uint64(len(lines)))
		u.most = min(2*u.most, u.o.BatchEvents)
	case !errors.As(err, &no):
		return err
	case len(lines) > 1:
		u.most = len(lines) / 2
		return nil
	default:
		if err := u.setAside(lines[0], no); err != nil {
			return err
		}
	}
	return u.spool.sent(end, len(lines))
}

// check keeps one line that a failing disk has damaged from spoiling its neighbours.
func (u *uploader) check(lines [][]byte) error {
	for _, l := range lines {
		if !json.Valid(l) {
			return refusal{"nothing", "a line in " + u.dir + " is damaged"}
		}
	}
	return nil
}

func (u *uploader) setAside(line []byte, why refusal) error {
	path := filepath.Join(u.dir, "refused.jsonl")
	l, err := openLines(path)
	if err != nil {
		return err
	}
	if _, err = l.append(append(bytes.Clone(line), '\n')); err == nil {
		err = l.flush()
	}
	if err = errors.Join(err, l.close()); err != nil {
		return err
	}
	u.refused.Add(1)
	id, _ := lineID(line)
	u.log.Error("the server refuses a decision; it is set aside and not sent again", "decision", id, "file", path, "err", why)
	return nil
}

func (u *uploader) post(ctx context.Context, lines [][]byte) error {
	body, err := u.body(lines)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.logs, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if !u.o.NoGzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if u.o.Token != nil {
		token, err := u.o.Token(ctx)
		if err != nil {
			return fmt.Errorf("the token: %w", err)
		}
		if token == "" {
			return errors.New("the token is empty")
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	_ = resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	answer := refusal{resp.Status, strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return answer
	}
	err = errors.New(answer.Error())
	if s, aerr := strconv.Atoi(resp.Header.Get("Retry-After")); aerr == nil && s > 0 && s < 1<<30 {
		return retryAfter{err, time.Duration(s) * time.Second}
	}
	return err
}

func (u *uploader) body(lines [][]byte) (*bytes.Reader, error) {
	var b bytes.Buffer
	var w io.Writer = &b
	var z *gzip.Writer
	if !u.o.NoGzip {
		z = gzip.NewWriter(&b)
		w = z
	}
	sep := []byte{'['}
	for _, l := range lines {
		if _, err := w.Write(sep); err != nil {
			return nil, err
		}
		if _, err := w.Write(l); err != nil {
			return nil, err
		}
		sep = []byte{','}
	}
	_, err := w.Write([]byte{']'})
	if z != nil {
		err = errors.Join(err, z.Close())
	}
	return bytes.NewReader(b.Bytes()), err
}
