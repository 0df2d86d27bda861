package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Session is the way out of one plugin. Its connections are used for nothing else,
// and are kept for a while between requests. It is safe for concurrent use.
type Session struct {
	guard   *Guard
	direct  *http.Transport
	proxied *http.Transport // nil: there is no proxy
}

// Session returns a new one; the caller closes it.
func (g *Guard) Session() *Session {
	s := &Session{guard: g, direct: g.direct()}
	if g.opts.Proxy != nil {
		s.proxied = g.proxied()
	}
	return s
}

// Close ends the connections that no request uses.
func (s *Session) Close() {
	s.direct.CloseIdleConnections()
	if s.proxied != nil {
		s.proxied.CloseIdleConnections()
	}
}

// Response is the last answer of a chain of redirects, as it came.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Host   string // who answered, as a pattern
}

var errTimeout = errors.New("[egress].timeout")

// Do sends r where one of the patterns allows it, follows redirects where one
// allows that too, and returns the last answer whole. It ends with ctx.
//
// The error is a *NotGrantedError, a *FailedError, or that of ctx, wrapped. All are
// worded for a model, and say nothing of addresses.
func (s *Session) Do(ctx context.Context, allowed []plugins.HostPattern, r *Request) (*Response, error) {
	h, err := newHop(r)
	if err != nil {
		return nil, &FailedError{Refused: true, What: err.Error()}
	}
	if n, most := int64(len(r.Body)), s.guard.opts.MaxRequestBytes; n > most {
		return nil, h.refuse("its body has %d bytes, at most %d are sent ([egress].request_mib)", n, most)
	}
	within, cancel := context.WithTimeoutCause(ctx, s.guard.opts.Timeout, errTimeout)
	defer cancel()
	from := ""
	for n := 0; ; n++ {
		if !slices.ContainsFunc(allowed, func(p plugins.HostPattern) bool { return p.Match(h.origin.scheme, h.origin.host, h.origin.port) }) {
			return nil, &NotGrantedError{Host: h.origin.String(), From: from}
		}
		answer, next, err := s.exchange(within, h, s.room(r))
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("the request to %s was stopped: %w", h.origin, context.Cause(ctx))
		case err != nil && errors.Is(context.Cause(within), errTimeout):
			return nil, &FailedError{Host: h.origin.String(), What: fmt.Sprintf("it took longer than %s ([egress].timeout)", s.guard.opts.Timeout)}
		case err != nil:
			return nil, err
		case next == nil:
			return answer, nil
		case n == maxRedirects:
			return nil, h.refuse("it redirects more than %d times", maxRedirects)
		}
		from, h = h.origin.String(), next
	}
}

// room is how large an answer may be.
func (s *Session) room(r *Request) int64 {
	most := s.guard.opts.MaxResponseBytes
	if r.MaxResponse != 0 {
		most = min(most, max(r.MaxResponse, 0))
	}
	return most
}

// exchange sends one request, and returns its answer or what to request next.
func (s *Session) exchange(ctx context.Context, h *hop, room int64) (*Response, *hop, error) {
	req, err := http.NewRequestWithContext(ctx, h.method, h.url.String(), bytes.NewReader(h.body))
	if err != nil {
		return nil, nil, h.refuse("it cannot be written: %v", err)
	}
	req.Header = h.header.Clone()
	way := s.direct
	if s.proxied != nil && !toThisMachine(h.origin.host) {
		way = s.proxied
	}
	resp, err := way.RoundTrip(req)
	if err != nil {
		return nil, nil, h.fail(err)
	}
	defer func() { _ = resp.Body.Close() }()
	next, err := h.redirect(resp)
	if err != nil {
		return nil, nil, h.refuse("%v", err)
	}
	if next != nil {
		// A connection is used again only when its answer was read.
		_, _ = io.CopyN(io.Discard, resp.Body, 2<<10)
		return nil, next, nil
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil, h.refuse("it wants to speak another protocol")
	}
	tooLarge := func() error {
		if room < s.guard.opts.MaxResponseBytes {
			return &FailedError{Host: h.origin.String(), TooLarge: true, What: fmt.Sprintf("its answer is larger than the %d bytes of memory that are left", room)}
		}
		return &FailedError{Host: h.origin.String(), TooLarge: true, What: fmt.Sprintf("its answer is larger than %d bytes ([egress].response_mib)", room)}
	}
	if h.method != http.MethodHead && resp.ContentLength > room {
		return nil, nil, tooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, room+1))
	if err != nil {
		return nil, nil, h.fail(err)
	}
	if int64(len(body)) > room {
		return nil, nil, tooLarge()
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body, Host: h.origin.String()}, nil, nil
}
