package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// desk answers what a Hand asks the host for on behalf of the calls that run in it.
type desk struct {
	network  Network
	guard    *egress.Guard
	redactor *plugins.Redactor
	log      *slog.Logger

	// exchanges has a place for each HTTP request that is under way: its body and its
	// answer are held here, and a Hand may ask for as many as it likes.
	exchanges chan struct{}

	inst Instance // set before the Hand is heard

	mu       sync.Mutex
	running  map[batch.OperationID]*running
	sessions map[string]*egress.Session // by plugin digest
	closed   bool
}

// running is a call that was sent to the Hand and has not ended.
type running struct {
	ctx    context.Context
	plugin *plugins.Plugin
	grant  *batch.Grant
	asked  atomic.Bool // the Hand has asked for something on its behalf: so it has begun
}

// maxExchanges bounds the HTTP requests of one Hand that are under way at once; more
// wait.
const maxExchanges = 16

var errNotRunning = errors.New("no such call runs in this sandbox now")

func (d *desk) begin(ctx context.Context, p *plugins.Plugin, call *batch.Call) (r *running, end func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	op := call.Operation()
	if _, twice := d.running[op]; twice {
		return nil, nil, fmt.Errorf("operation %s runs already", op)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r = &running{ctx: ctx, plugin: p, grant: call.Grant}
	d.running[op] = r
	return r, func() {
		cancel(errNotRunning)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.running, op)
	}, nil
}

func (d *desk) of(op batch.OperationID) (*running, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.running[op]
	if r == nil {
		return nil, &RemoteError{Kind: RemoteRefused, Msg: fmt.Sprintf("operation %s: %v", op, errNotRunning)}
	}
	r.asked.Store(true)
	return r, nil
}

// session is the way out of one plugin from one Hand.
func (d *desk) session(p *plugins.Plugin) (*egress.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.guard == nil {
		return nil, errNotRunning
	}
	s := d.sessions[p.Digest]
	if s == nil {
		s = d.guard.Session()
		d.sessions[p.Digest] = s
	}
	return s, nil
}

func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, s := range d.sessions {
		s.Close()
	}
	d.sessions = nil
}

func (d *desk) serve(ctx context.Context, s *Stream) error {
	switch s.Method() {
	case MethodSecret:
		return d.secret(ctx, s)
	case MethodOOMKills:
		return d.oomKills(s)
	case MethodHTTP:
		return d.http(ctx, s)
	case MethodDial:
		return d.dial(ctx, s)
	}
	return &RemoteError{Kind: RemoteRefused, Msg: fmt.Sprintf("a host does not serve %q", s.Method())}
}

// both ends with whichever of two contexts ends first.
func both(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(a)
	stop := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func() { stop(); cancel(nil) }
}

func (d *desk) oomKills(s *Stream) error {
	var q OOMParams
	if err := s.Params(&q); err != nil {
		return err
	}
	if _, err := d.of(q.Operation); err != nil {
		return err
	}
	c, is := d.inst.(OOMCounter)
	if !is {
		return &RemoteError{Kind: RemoteRefused, Msg: "nobody counts here what the kernel kills for memory"}
	}
	n, err := c.OOMKills()
	if err != nil {
		return &RemoteError{Kind: RemoteRefused, Msg: err.Error()}
	}
	return s.End(OOMCount{Kills: n})
}

func (d *desk) secret(ctx context.Context, s *Stream) error {
	var q SecretParams
	if err := s.Params(&q); err != nil {
		return err
	}
	r, err := d.of(q.Operation)
	if err != nil {
		return err
	}
	ctx, cancel := both(ctx, r.ctx)
	defer cancel()
	value, err := r.plugin.ReadSecret(ctx, q.Name, d.redactor)
	if err != nil {
		d.log.Warn("a secret cannot be read", "operation", string(q.Operation), "error", err)
		return &RemoteError{Kind: RemoteFailed, Msg: fmt.Sprintf("the secret %.80q cannot be read now; the host's log says why", q.Name)}
	}
	if _, err := s.Write(value); err != nil {
		return err
	}
	return s.End(nil)
}
