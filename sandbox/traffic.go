package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// closedNetwork is why a sandbox without a network gets none through the host either.
func (d *desk) closedNetwork() error {
	if d.network == NetworkAllowlist || d.network == NetworkHost {
		return nil
	}
	return fmt.Errorf(`sandboxes have no network here ([sandbox].network = "none"): with "allowlist" they reach the hosts that the plugin is granted`)
}

// allowed is where a call may go: what the plugin may, and of that what policy left.
func (r *running) allowed() []plugins.HostPattern {
	if r.grant == nil || r.grant.Hosts == nil {
		return plugins.ParseHosts(r.plugin.Effective.Hosts)
	}
	return plugins.ParseHosts(plugins.IntersectHosts(r.plugin.Effective.Hosts, r.grant.Hosts))
}

// http sends one request of a guest. What comes of it is a result in every case, so
// that the guest's side can say it in the words that it has in the Brain.
func (d *desk) http(ctx context.Context, s *Stream) error {
	var q HTTPParams
	if err := s.Params(&q); err != nil {
		return err
	}
	r, err := d.of(q.Operation)
	if err != nil {
		return err
	}
	if err := d.closedNetwork(); err != nil {
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{s}); err != nil {
			return err
		}
		return s.End(HTTPAnswer{Refused: true, Failed: err.Error()})
	}
	out, err := d.session(r.plugin)
	if err != nil {
		return err
	}
	ctx, cancel := both(ctx, r.ctx)
	defer cancel()
	select {
	case d.exchanges <- struct{}{}:
		defer func() { <-d.exchanges }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// A body that never ends does not outlive the call.
	defer context.AfterFunc(ctx, func() { s.stop(context.Cause(ctx)) })()
	body, err := io.ReadAll(io.LimitReader(s, d.guard.MaxRequestBytes()+1))
	if err != nil {
		return err
	}
	req := &egress.Request{Method: q.Method, URL: q.URL, Header: http.Header(q.Header), Body: body, MaxResponse: q.MaxResponse}
	begun := time.Now()
	answer, err := out.Do(ctx, r.allowed(), req)
	attrs := []any{"plugin", r.plugin.Manifest.ID, "operation", string(q.Operation), "sent", len(body), "ms", time.Since(begun).Milliseconds()}
	if err != nil {
		d.log.Debug("an HTTP request of a sandbox came to nothing", append(attrs, "error", d.redactor.String(err.Error()))...)
		a, known := answerOf(err)
		if !known {
			return err
		}
		return s.End(a)
	}
	d.log.Debug("an HTTP request of a sandbox was answered", append(attrs, "host", d.redactor.String(answer.Host), "status", answer.Status, "received", len(answer.Body))...)
	if _, err := s.Write(answer.Body); err != nil {
		return err
	}
	return s.End(HTTPAnswer{Status: answer.Status, Header: answer.Header, Host: answer.Host})
}

// answerOf puts the errors of the way out into an answer.
func answerOf(err error) (HTTPAnswer, bool) {
	var no *egress.NotGrantedError
	if errors.As(err, &no) {
		return HTTPAnswer{NotGranted: no.Host, From: no.From}, true
	}
	var failed *egress.FailedError
	if errors.As(err, &failed) {
		return HTTPAnswer{Failed: failed.What, Host: failed.Host, Refused: failed.Refused, TooLarge: failed.TooLarge}, true
	}
	return HTTPAnswer{}, false
}

// dial connects a command to a host. The bodies are the connection.
func (d *desk) dial(ctx context.Context, s *Stream) error {
	var q DialParams
	if err := s.Params(&q); err != nil {
		return err
	}
	r, err := d.of(q.Operation)
	if err != nil {
		return err
	}
	if err := d.closedNetwork(); err != nil {
		return &RemoteError{Kind: RemoteRefused, Msg: err.Error()}
	}
	out, err := d.session(r.plugin)
	if err != nil {
		return err
	}
	ctx, cancel := both(ctx, r.ctx)
	defer cancel()
	conn, err := out.Dial(ctx, r.allowed(), q.Scheme, q.Host, q.Port)
	if err != nil {
		d.log.Debug("a connection of a sandbox came to nothing", "plugin", r.plugin.Manifest.ID, "operation", string(q.Operation), "error", d.redactor.String(err.Error()))
		kind := RemoteFailed
		var no *egress.NotGrantedError
		var failed *egress.FailedError
		if errors.As(err, &no) || errors.As(err, &failed) && failed.Refused {
			kind = RemoteRefused
		}
		return &RemoteError{Kind: kind, Msg: err.Error()}
	}
	d.log.Debug("a sandbox was connected", "plugin", r.plugin.Manifest.ID, "operation", string(q.Operation), "host", d.redactor.String(q.Host), "port", q.Port)
	if _, err := s.Write([]byte{DialReady}); err != nil {
		_ = conn.Close()
		return err
	}
	return relay(ctx, s, conn)
}

// relay copies both ways until both ends have ended, one has broken, or ctx ends.
func relay(ctx context.Context, s *Stream, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan struct{})
	go func() {
		_, err := io.Copy(conn, struct{ io.Reader }{s})
		if half, is := conn.(interface{ CloseWrite() error }); is && err == nil {
			err = half.CloseWrite()
		}
		if err != nil {
			_ = conn.Close()
		}
		close(sent)
	}()
	_, err := io.Copy(s, struct{ io.Reader }{conn})
	_ = conn.Close()
	s.cancel(errEnded) // reading what else the command sends ends
	<-sent
	if err != nil {
		return &RemoteError{Kind: RemoteFailed, Msg: "the connection broke"}
	}
	return s.End(nil)
}
