package hand

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// carrier sends the requests of guests over the channel: the host knows what each
// call may reach, and asks nobody here.
type carrier struct{ h *hand }

// Send implements wasm.Carrier.
func (c *carrier) Send(ctx context.Context, call *batch.Call, _ []plugins.HostPattern, r *egress.Request) (*egress.Response, error) {
	stream, err := c.h.channel.Open(ctx, sandbox.MethodHTTP, sandbox.HTTPParams{
		Operation: call.Operation(), Method: r.Method, URL: r.URL, Header: r.Header, MaxResponse: r.MaxResponse,
	})
	if err != nil {
		return nil, notCarried(ctx, err)
	}
	// A host that has refused it takes no body; its answer says why.
	if _, err := stream.Write(r.Body); err == nil {
		_ = stream.CloseWrite()
	}
	most := int64(maxAnswerBytes)
	if r.MaxResponse != 0 {
		most = min(most, max(r.MaxResponse, 0))
	}
	body, err := io.ReadAll(io.LimitReader(stream, most+1))
	if err == nil && int64(len(body)) > most {
		err = errors.New("its answer is larger than the memory that is left")
		stream.Cancel(err)
		return nil, &egress.FailedError{TooLarge: true, What: err.Error()}
	}
	var a sandbox.HTTPAnswer
	if err := stream.Result(&a); err != nil {
		return nil, notCarried(ctx, err)
	}
	switch {
	case a.NotGranted != "":
		return nil, &egress.NotGrantedError{Host: a.NotGranted, From: a.From}
	case a.Failed != "":
		return nil, &egress.FailedError{Host: a.Host, Refused: a.Refused, TooLarge: a.TooLarge, What: a.Failed}
	}
	return &egress.Response{Status: a.Status, Header: http.Header(a.Header), Body: body, Host: a.Host}, nil
}

// maxAnswerBytes bounds an answer where neither the guest's memory nor the host does.
const maxAnswerBytes = 256 << 20

// notCarried is a request that came to nothing between guest and host.
func notCarried(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &egress.FailedError{What: err.Error()}
}
