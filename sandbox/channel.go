package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// ChannelVersion is the version of the protocol that this release speaks.
const ChannelVersion = 1

const protocolName = "awaken-hand"

// Defaults of ChannelOptions.
const (
	DefaultHeartbeat   = 10 * time.Second
	defaultMaxRequests = 256
)

// ErrLost says that the channel broke, or was closed: nobody knows whether the peer
// still works on what it was asked.
var ErrLost = errors.New("the channel to the Hand is lost")

// ErrNotSent says that the channel was lost before a request crossed it.
var ErrNotSent = fmt.Errorf("nothing was sent: %w", ErrLost)

// RemoteError is a failure that the peer reports of one request.
type RemoteError struct {
	Kind string `json:"kind"` // a batch.ToolErrorKind, or one of the kinds below
	Msg  string `json:"msg"`
}

// Kinds of a RemoteError besides those of batch.ToolErrorKind.
const (
	RemoteCanceled = "canceled" // the request's context ended
	RemoteRefused  = "refused"  // the peer does not serve it, or too many at once
	RemoteFailed   = "failed"   // anything else
)

func (e *RemoteError) Error() string { return e.Msg }

// Is makes a request that the peer canceled a canceled one for whoever serves it, who
// would say so once more otherwise.
func (e *RemoteError) Is(target error) bool {
	return e.Kind == RemoteCanceled && target == context.Canceled
}

// ChannelOptions configure one end of a Channel. They are copied.
type ChannelOptions struct {
	// Serve answers a request of the peer, on a goroutine of its own. Its context ends
	// when the peer cancels the request or the channel is lost. A returned error fails
	// the request, a *RemoteError with its kind; nil ends it without a result where
	// Stream.End has not. Nil: every request is refused.
	Serve  func(ctx context.Context, s *Stream) error
	Logger *slog.Logger // nil: discard
	// Heartbeat is how long the peer may be silent before it is asked whether it is
	// there; after three of them it is lost. 0: DefaultHeartbeat.
	Heartbeat time.Duration
	// MaxRequests bounds the requests of the peer that are open at once. 0: 256.
	MaxRequests int
}

// Channel is one end of the connection of a host and a Hand: requests in both
// directions, many at once, over one stream of bytes each way. It is safe for
// concurrent use.
type Channel struct {
	o  ChannelOptions
	rw io.ReadWriteCloser
	w  frameWriter

	ctx  context.Context // of requests of the peer
	lose context.CancelCauseFunc
	done chan struct{}

	opening sync.Mutex // ids go out in order

	mu      sync.Mutex
	err     error // set once, before done is closed
	next    uint64
	last    uint64 // highest id that the peer opened
	streams map[uint64]*Stream
	serving int
	params  int // bytes, of what is being served
	heard   time.Time

	served sync.WaitGroup
	closer sync.Once
	beats  chan frameKind // pings and pongs to send
}

type greeting struct {
	Protocol string `json:"protocol"`
	Versions []int  `json:"versions"`
	Hello    Hello  `json:"hello"`
}

type acceptance struct {
	Protocol string  `json:"protocol"`
	Version  int     `json:"version"` // 0: none of those offered
	Versions []int   `json:"versions"`
	Welcome  Welcome `json:"welcome"`
}

// Dial is the host's end: it says hello and waits for the welcome. The caller closes
// the Channel, which closes rw; when Dial fails, rw is closed.
func Dial(ctx context.Context, rw io.ReadWriteCloser, hello Hello, o ChannelOptions) (*Channel, Welcome, error) {
	var a acceptance
	r := bufio.NewReaderSize(rw, dataPiece)
	c := newChannel(rw, o, 1)
	err := c.within(ctx, func() error {
		if err := c.w.write(frame{kind: frameHello, payload: mustJSON(greeting{protocolName, []int{ChannelVersion}, hello})}); err != nil {
			return err
		}
		return expect(r, frameWelcome, &a)
	})
	switch {
	case err != nil:
		err = fmt.Errorf("the Hand did not answer: %w", err)
	case a.Protocol != protocolName:
		err = fmt.Errorf("what answered is not a Hand: it speaks %q", a.Protocol)
	case a.Version != ChannelVersion:
		err = fmt.Errorf("the Hand (%s) speaks versions %v of the protocol, this host speaks %d: use an awaken-hand of the host's own release", a.Welcome.Hand, a.Versions, ChannelVersion)
	default:
		c.start(r)
		return c, a.Welcome, nil
	}
	_ = c.Close()
	return nil, Welcome{}, err
}

// Accept is the Hand's end: it waits for the hello and answers it. The caller closes
// the Channel, which closes rw; when Accept fails, rw is closed.
func Accept(ctx context.Context, rw io.ReadWriteCloser, welcome Welcome, o ChannelOptions) (*Channel, Hello, error) {
	var g greeting
	r := bufio.NewReaderSize(rw, dataPiece)
	c := newChannel(rw, o, 2)
	err := c.within(ctx, func() error { return expect(r, frameHello, &g) })
	if err == nil && g.Protocol != protocolName {
		err = fmt.Errorf("what speaks is not a host: it speaks %q", g.Protocol)
	}
	if err == nil {
		a := acceptance{Protocol: protocolName, Versions: []int{ChannelVersion}, Welcome: welcome}
		if slices.Contains(g.Versions, ChannelVersion) {
			a.Version = ChannelVersion
		}
		err = c.within(ctx, func() error { return c.w.write(frame{kind: frameWelcome, payload: mustJSON(a)}) })
		if err == nil && a.Version == 0 {
			err = fmt.Errorf("the host speaks versions %v of the protocol, this Hand speaks %d", g.Versions, ChannelVersion)
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, Hello{}, err
	}
	c.start(r)
	return c, g.Hello, nil
}

func newChannel(rw io.ReadWriteCloser, o ChannelOptions, first uint64) *Channel {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = defaultMaxRequests
	}
	c := &Channel{o: o, rw: rw, next: first, streams: map[uint64]*Stream{}, done: make(chan struct{}), heard: time.Now(), beats: make(chan frameKind, 2)}
	c.w.w = rw
	c.ctx, c.lose = context.WithCancelCause(context.Background())
	return c
}

// within runs f, which blocks on rw, and closes rw to free it when ctx ends. That may
// end only the writing: a read goes on as long as a peer that says nothing, so that f
// is not waited for then.
func (c *Channel) within(ctx context.Context, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		_ = c.rw.Close()
		return context.Cause(ctx)
	}
}

func expect(r io.Reader, kind frameKind, v any) error {
	f, err := readFrame(r)
	if err != nil {
		return err
	}
	if f.kind != kind || f.id != 0 {
		return fmt.Errorf("a frame of kind %d came in place of kind %d", f.kind, kind)
	}
	return json.Unmarshal(f.payload, v)
}

// mustJSON is for values whose types always encode.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (c *Channel) start(r io.Reader) {
	go c.receive(r)
	go c.beat()
	go c.sendBeats()
}

// Done is closed when the channel is lost or closed.
func (c *Channel) Done() <-chan struct{} { return c.done }

// Err says why, wrapping ErrLost; nil before Done.
func (c *Channel) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the channel and what was asked over it in both directions. It does not
// wait: see Wait.
func (c *Channel) Close() error {
	c.fail(errors.New("it was closed"))
	return nil
}

// Wait returns when the channel is lost or closed and no request of the peer is
// being served any more.
func (c *Channel) Wait() {
	<-c.done
	c.served.Wait()
}

// fail ends everything, once.
func (c *Channel) fail(cause error) {
	c.closer.Do(func() {
		err := fmt.Errorf("%w: %w", ErrLost, cause)
		c.mu.Lock()
		c.err = err
		streams := make([]*Stream, 0, len(c.streams))
		for _, s := range c.streams {
			streams = append(streams, s)
		}
		c.streams = nil
		c.mu.Unlock()
		// First of all nothing may go out any more: who is told to stop might end what it
		// does as if it were whole.
		_ = c.rw.Close()
		for _, s := range streams {
			s.lost(err)
		}
		c.lose(err)
		close(c.done)
	})
}

// Open begins a request. The parameters must be small; what is large goes into the
// body. When ctx ends, the request is cancelled, and reading and writing fail with
// ctx's cause. An error that wraps ErrNotSent proves that the peer heard nothing.
func (c *Channel) Open(ctx context.Context, method string, params any) (*Stream, error) {
	return c.request(ctx, method, params, nil, false)
}

// Ask is Open with a whole body, which is sent at once where it is small.
func (c *Channel) Ask(ctx context.Context, method string, params any, body []byte) (*Stream, error) {
	if len(body) <= dataPiece {
		return c.request(ctx, method, params, body, true)
	}
	s, err := c.Open(ctx, method, params)
	if err == nil {
		go func() {
			// Where the peer does not want it, its own end says why.
			if _, err := s.Write(body); err == nil {
				_ = s.CloseWrite()
			}
		}()
	}
	return s, err
}

func (c *Channel) request(ctx context.Context, method string, params any, body []byte, whole bool) (*Stream, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	payload := mustJSON(opening{Method: method, Params: raw})
	if len(payload) > maxPayload {
		return nil, fmt.Errorf("%s: parameters of %d bytes, at most %d can be sent: %w", method, len(raw), maxPayload, ErrNotSent)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, err := c.open(method, raw, payload, body, whole)
	if err != nil {
		return nil, err
	}
	s.endWith(ctx)
	return s, nil
}

func (c *Channel) open(method string, raw, payload, body []byte, whole bool) (*Stream, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w: %w", method, ErrNotSent, c.err)
	}
	s := newStream(c, c.next, method, raw)
	s.opener = true
	frames := []frame{{kind: frameOpen, id: s.id, payload: payload}}
	if whole {
		frames = append(frames, s.last(body, nil)...)
	}
	c.next += 2
	c.streams[s.id] = s
	c.mu.Unlock()
	if err := c.w.write(frames...); err != nil {
		c.fail(err)
		return nil, fmt.Errorf("%s: %w: %w", method, ErrLost, err)
	}
	return s, nil
}

// beat asks after a silent peer.
func (c *Channel) beat() {
	t := time.NewTicker(c.o.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-t.C:
		}
		c.mu.Lock()
		silent := time.Since(c.heard)
		c.mu.Unlock()
		switch {
		case silent >= 3*c.o.Heartbeat:
			c.fail(fmt.Errorf("nothing was heard for %s", silent.Round(time.Millisecond)))
		case silent >= c.o.Heartbeat:
			c.beatWith(framePing)
		}
	}
}

// beatWith never waits: who reads frames, or looks at the clock, must go on where
// the peer does not read.
func (c *Channel) beatWith(kind frameKind) {
	select {
	case c.beats <- kind:
	default: // enough are on their way
	}
}

func (c *Channel) sendBeats() {
	for {
		select {
		case <-c.done:
			return
		case kind := <-c.beats:
			if err := c.w.write(frame{kind: kind}); err != nil {
				c.fail(err)
			}
		}
	}
}
