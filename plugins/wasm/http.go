package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	extism "github.com/extism/go-sdk"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// httpHostFunction takes a request and a body of Extism's shape and returns the
// body of the answer, as Extism's own function does, through the guarded way out. A
// PDK has no way to hear of an error: a request that fails ends the guest, here as
// there, and the call's result says why.
func httpHostFunction() extism.HostFunction {
	return extism.NewHostFunctionWithStack(httpFunction, func(ctx context.Context, p *extism.CurrentPlugin, stack []uint64) {
		offset, err := sendGuestRequest(ctx, p, stack[0], stack[1])
		if err != nil {
			panic(err)
		}
		stack[0] = offset
	}, []extism.ValueType{extism.ValueTypeI64, extism.ValueTypeI64}, []extism.ValueType{extism.ValueTypeI64})
}

func sendGuestRequest(ctx context.Context, p *extism.CurrentPlugin, request, body uint64) (offset uint64, err error) {
	g, ok := ctx.Value(guestCallKey{}).(*guestCall)
	if !ok {
		return 0, errors.New("http_request works only during a call")
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("sent an HTTP request on which the host failed: %v", r)
		}
		if err != nil {
			g.stopped = printable(g.log.known.String(err.Error()), maxErrorText)
		}
	}()
	r, err := g.readHTTPRequest(ctx, p, request, body)
	if err != nil {
		return 0, fmt.Errorf("sent an HTTP request that cannot be read: %w", err)
	}
	if name, has := g.log.known.Finds(hostOf(r.URL)); has {
		// Neither the log nor the result could name the host: it is lower case there, and
		// what is searched for is the secret as it is.
		return 0, fmt.Errorf("may not reach a host that has the value of the secret %s in its name", name)
	}
	g.inst.plugin.LastStatusCode, g.inst.plugin.LastResponseHeaders = 0, map[string]string{}
	answer, err := g.send(ctx, r)
	if err != nil {
		return 0, g.explain(err)
	}
	for name, values := range answer.Header {
		g.inst.plugin.LastResponseHeaders[strings.ToLower(name)] = strings.Join(values, ",")
	}
	g.inst.plugin.LastStatusCode = answer.Status
	if len(answer.Body) == 0 {
		return 0, nil
	}
	offset, err = p.AllocWithContext(ctx, uint64(len(answer.Body)))
	if err != nil || offset == 0 || offset > math.MaxUint32 || !p.Memory().Write(uint32(offset), answer.Body) {
		return 0, fmt.Errorf("has no memory left for an answer of %d bytes from %s", len(answer.Body), answer.Host)
	}
	return offset, nil
}

// readHTTPRequest takes both blocks out of the guest's memory and frees them.
func (g *guestCall) readHTTPRequest(ctx context.Context, p *extism.CurrentPlugin, request, body uint64) (*egress.Request, error) {
	text, err := readBlock(ctx, p, request, maxRequest)
	if err != nil {
		return nil, err
	}
	var q struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, errors.New(`it is not {"url":"…","method":"…","headers":{"…":"…"}}`)
	}
	r := &egress.Request{Method: q.Method, URL: q.URL, Header: http.Header{}, MaxResponse: g.inst.budget.room()}
	for name, value := range q.Headers {
		r.Header[name] = []string{value}
	}
	if r.Body, err = readBlock(ctx, p, body, g.maxRequestBody); err != nil {
		return nil, fmt.Errorf("%w ([egress].request_mib)", err)
	}
	for _, block := range []uint64{request, body} {
		if block != 0 {
			_ = p.FreeWithContext(ctx, block)
		}
	}
	return r, nil
}

// hostOf is the host of a URL as the guest wrote it.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// send leaves a line in the log, without what is said in either direction.
func (g *guestCall) send(ctx context.Context, r *egress.Request) (*egress.Response, error) {
	begun := time.Now()
	answer, err := g.carry(ctx, allowedHosts(g.plugin, g.call.Grant), r)
	attrs := append(g.log.attrs[:len(g.log.attrs):len(g.log.attrs)], "method", printable(g.log.known.String(r.Method), 16), "sent", len(r.Body), "ms", time.Since(begun).Milliseconds())
	if err != nil {
		detail := ""
		if cause := errors.Unwrap(err); cause != nil {
			detail = g.log.known.String(cause.Error())
		}
		g.log.logger.Debug("a guest's HTTP request came to nothing", append(attrs, "error", g.log.known.String(err.Error()), "detail", detail)...)
		return nil, err
	}
	g.log.logger.Debug("a guest's HTTP request was answered", append(attrs, "host", g.log.known.String(answer.Host), "status", answer.Status, "received", len(answer.Body))...)
	return answer, nil
}

func (g *guestCall) carry(ctx context.Context, allowed []plugins.HostPattern, r *egress.Request) (*egress.Response, error) {
	if g.carrier != nil {
		return g.carrier.Send(ctx, g.call, allowed, r)
	}
	return g.session.Do(ctx, allowed, r)
}

// allowedHosts is where a call may go: what the plugin may, and of that what the
// policy left.
func allowedHosts(p *plugins.Plugin, grant *batch.Grant) []plugins.HostPattern {
	if grant == nil || grant.Hosts == nil {
		return plugins.ParseHosts(p.Effective.Hosts)
	}
	return plugins.ParseHosts(plugins.IntersectHosts(p.Effective.Hosts, grant.Hosts))
}

// explain says what stands in the way, and who can move it.
func (g *guestCall) explain(err error) error {
	var no *egress.NotGrantedError
	if !errors.As(err, &no) {
		return fmt.Errorf("got no answer over HTTP: %w", err)
	}
	switch {
	case plugins.CoversHost(g.plugin.Effective.Hosts, no.Host):
		return fmt.Errorf("%w: the policy does not grant it to this call", err)
	case plugins.CoversHost(g.plugin.Manifest.Capabilities.Hosts, no.Host):
		return fmt.Errorf("%w: the operator has not granted it; to do so, add hosts = [%q] to [plugin.grant] of plugin %s", err, no.Host, g.plugin.Manifest.ID)
	}
	return fmt.Errorf("%w: the manifest of plugin %s does not ask for it in capabilities.hosts, and without that [plugin.grant] cannot grant it", err, g.plugin.Manifest.ID)
}
