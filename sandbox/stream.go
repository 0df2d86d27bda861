package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	// window is how many bytes of a body may be on their way unread.
	window = 256 << 10
	// maxEvents and maxEventBytes bound the events of a request that nobody has taken
	// yet; more are dropped, and counted.
	maxEvents     = 256
	maxEventBytes = 1 << 20
	maxMessage    = 64 << 10 // of a failure, an event, a reason
)

// opening, ending and event are payloads of frames.
type opening struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

type ending struct {
	Bytes  int64           `json:"bytes"` // of the whole body: who has got fewer has lost some
	Result json.RawMessage `json:"result,omitempty"`
	Error  *RemoteError    `json:"error,omitempty"`
}

type event struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value,omitempty"`
}

var errEnded = errors.New("the request has ended")

// Stream is one request: a body of bytes each way, with flow control, events beside
// the body, and a result or a failure. Reading, writing and waiting for the result
// are each for one goroutine at a time.
type Stream struct {
	c      *Channel
	id     uint64
	method string
	params json.RawMessage
	opener bool

	ctx    context.Context // of a served request
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	wake    sync.Cond // on mu: something below has changed
	in      []byte    // received and not read
	got     int64     // bytes received
	owed    int       // bytes read, for which no credit was given
	ended   *ending   // of the peer
	events  []event
	waiting int // bytes of events
	dropped int
	on      func(kind string, value json.RawMessage)

	credit int   // bytes that may be sent
	sent   int64 // bytes
	closed bool  // no more is sent
	broken error // why nothing can be read or written any more

	release func() bool // lets go of the context of an opened request
}

func newStream(c *Channel, id uint64, method string, params json.RawMessage) *Stream {
	s := &Stream{c: c, id: id, method: method, params: params, credit: window}
	s.wake.L = &s.mu
	return s
}

// serveWithin gives a served request its context, before anybody else knows it.
func (s *Stream) serveWithin(ctx context.Context) {
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(s.ctx, func() { s.stop(context.Cause(s.ctx)) })
}

// endWith lets an opened request end with the context of its caller.
func (s *Stream) endWith(ctx context.Context) {
	release := context.AfterFunc(ctx, func() {
		if s.stop(context.Cause(ctx)) {
			s.sendCancel(context.Cause(ctx))
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() || s.broken != nil {
		release()
	}
	s.release = release
}

// over reports that both ends have ended; mu is held.
func (s *Stream) over() bool { return s.closed && s.ended != nil }

// stop makes reading and writing fail. It reports whether it was the first to.
func (s *Stream) stop(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opener && s.ended != nil || s.broken != nil || !s.opener && s.closed {
		return false
	}
	s.broken = cause
	s.wake.Broadcast()
	return true
}

// forget is called with mu held, when both ends have ended, or the served one has.
func (s *Stream) forget() {
	if s.release != nil {
		s.release()
	}
	s.c.forget(s.id)
}

// Method names what is asked.
func (s *Stream) Method() string { return s.method }

// Params decodes the parameters. An unknown field is no error: a newer peer may say
// more.
func (s *Stream) Params(v any) error {
	if err := json.Unmarshal(s.params, v); err != nil {
		return &RemoteError{Kind: RemoteRefused, Msg: fmt.Sprintf("%s: bad parameters: %v", s.method, err)}
	}
	return nil
}

// Read reads the peer's body. It returns io.EOF only when the peer has said that this
// is all and as many bytes came as it says; when the peer has failed the request, its
// *RemoteError.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.deliver()
		switch {
		case len(s.in) > 0:
			n := copy(p, s.in)
			s.in = s.in[n:]
			s.owed += n
			if s.owed >= window/2 && s.ended == nil && s.broken == nil {
				owed := s.owed
				s.owed = 0
				s.mu.Unlock()
				_ = s.send(frame{kind: frameCredit, payload: binary.BigEndian.AppendUint32(nil, uint32(owed))}) //nolint:gosec // at most window; where it fails, the next look says so
				s.mu.Lock()
			}
			return n, nil
		case s.broken != nil && !errors.Is(s.broken, ErrLost):
			return 0, s.broken // the caller's own end, whatever the peer answers to it
		case s.ended != nil && s.ended.Error != nil:
			return 0, s.ended.Error
		case s.ended != nil:
			return 0, io.EOF
		case s.broken != nil:
			return 0, s.broken
		case len(p) == 0:
			return 0, nil
		}
		s.wake.Wait()
	}
}

// deliver hands events over, in order; mu is held, and let go meanwhile.
func (s *Stream) deliver() {
	for len(s.events) > 0 {
		e, on := s.events[0], s.on
		s.events = s.events[1:]
		s.waiting -= len(e.Value)
		if on == nil {
			continue
		}
		s.mu.Unlock()
		on(e.Kind, e.Value)
		s.mu.Lock()
	}
}

// Write sends a piece of this end's body. It waits while the peer has too much that
// it has not read.
func (s *Stream) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		s.mu.Lock()
		for s.credit == 0 && s.broken == nil && !s.closed && (!s.opener || s.ended == nil) {
			s.wake.Wait()
		}
		switch {
		case s.broken != nil:
			defer s.mu.Unlock()
			return written, s.broken
		case s.closed || s.opener && s.ended != nil:
			defer s.mu.Unlock()
			return written, errEnded
		}
		n := min(len(p), s.credit, dataPiece)
		s.credit -= n
		s.sent += int64(n)
		s.mu.Unlock()
		if err := s.send(frame{kind: frameData, payload: p[:n]}); err != nil {
			return written, err
		}
		written += n
		p = p[n:]
	}
	return written, nil
}

// CloseWrite says that this end's body is whole.
func (s *Stream) CloseWrite() error { return s.finish(nil, nil) }

// End says the same of a served request, and gives the result, which must be small.
func (s *Stream) End(result any) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if len(raw) > maxPayload/2 {
		return fmt.Errorf("%s: a result of %d bytes, at most %d can be sent: use the body", s.method, len(raw), maxPayload/2)
	}
	return s.finish(raw, nil)
}

// EndWith is Write and End in one: a body that is small goes out with its end.
func (s *Stream) EndWith(body []byte, result any) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if len(body) > min(s.credit, dataPiece) || len(raw) > dataPiece || s.closed || s.broken != nil || s.sent > 0 {
		s.mu.Unlock()
		if _, err := s.Write(body); err != nil {
			return err
		}
		return s.End(result)
	}
	frames := s.last(body, raw)
	s.mu.Unlock()
	err = s.send(frames...)
	s.ending()
	return err
}

// last are the frames of a whole body, and the end of this end; mu is held, or nobody
// else knows the stream yet.
func (s *Stream) last(body []byte, result json.RawMessage) []frame {
	var frames []frame
	if len(body) > 0 {
		frames = append(frames, frame{kind: frameData, id: s.id, payload: body})
	}
	s.credit -= len(body)
	s.sent += int64(len(body))
	s.closed = true
	s.wake.Broadcast()
	return append(frames, frame{kind: frameEnd, id: s.id, payload: mustJSON(ending{Bytes: s.sent, Result: result})})
}

// end is End of a request that may have ended before.
func (s *Stream) end(result json.RawMessage, failure *RemoteError) {
	if failure != nil {
		failure.Msg = cut(failure.Msg, maxMessage)
	}
	_ = s.finish(result, failure)
	s.cancel(errEnded)
}

func (s *Stream) finish(result json.RawMessage, failure *RemoteError) error {
	s.mu.Lock()
	// A cancelled request is answered too, so that the peer need not wait for more.
	if s.closed || errors.Is(s.broken, ErrLost) {
		defer s.mu.Unlock()
		if s.closed {
			return nil
		}
		return s.broken
	}
	s.closed = true
	e := ending{Bytes: s.sent, Result: result, Error: failure}
	s.wake.Broadcast()
	s.mu.Unlock()
	err := s.send(frame{kind: frameEnd, payload: mustJSON(e)})
	s.ending()
	return err
}

// ending is after the end was sent.
func (s *Stream) ending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() || !s.opener {
		// What still comes of a served request is of no interest.
		s.forget()
	}
}

// Result ends this end's body, waits for the peer's end, skipping what of its body
// was not read, and decodes the result into v unless that is nil. The error is a
// *RemoteError when the peer failed the request, wraps ErrLost when the channel broke,
// or is the cause of the context's end.
func (s *Stream) Result(v any) error {
	_ = s.CloseWrite() // where it fails, reading says more
	if _, err := io.Copy(io.Discard, reader{s}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v == nil || s.ended.Result == nil {
		return nil
	}
	return json.Unmarshal(s.ended.Result, v)
}

// reader hides every method but Read.
type reader struct{ io.Reader }

// Event tells the peer, which asked, something beside the body. It is dropped where the
// peer does not take it in time.
func (s *Stream) Event(kind string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(raw) > maxMessage {
		return fmt.Errorf("an event of %d bytes, at most %d can be sent", len(raw), maxMessage)
	}
	s.mu.Lock()
	closed, broken := s.closed, s.broken
	s.mu.Unlock()
	switch {
	case broken != nil:
		return broken
	case closed:
		return errEnded
	}
	return s.send(frame{kind: frameEvent, payload: mustJSON(event{kind, raw})})
}

// OnEvent is called for events, in order and one at a time, by whoever reads or waits
// for the result. Set it before either.
func (s *Stream) OnEvent(f func(kind string, value json.RawMessage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = f
}

// DroppedEvents is how many events came faster than they were taken.
func (s *Stream) DroppedEvents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Cancel tells the peer that an opened request is not wanted any more. This end may
// go on reading, to learn how it ended: unlike the end of the context of Open.
func (s *Stream) Cancel(cause error) {
	if s.opener {
		s.sendCancel(cause)
	}
}

func (s *Stream) sendCancel(cause error) {
	text := "canceled"
	if cause != nil {
		text = cut(cause.Error(), maxMessage)
	}
	_ = s.send(frame{kind: frameCancel, payload: []byte(text)})
}

func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") // not within a character
	}
	return text
}

func (s *Stream) send(frames ...frame) error {
	for i := range frames {
		frames[i].id = s.id
	}
	if err := s.c.w.write(frames...); err != nil {
		s.c.fail(err)
		return s.c.Err()
	}
	return nil
}

// lost is called when the channel is.
func (s *Stream) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = err
	}
	s.wake.Broadcast()
	if s.release != nil {
		s.release()
	}
}

// take deals with a frame for this stream; an error breaks the channel.
func (s *Stream) take(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake.Broadcast()
	switch f.kind {
	case frameData:
		if s.ended != nil {
			return fmt.Errorf("request %d goes on after its end", s.id)
		}
		s.got += int64(len(f.payload))
		if s.broken != nil { // nobody reads it any more
			return nil
		}
		if len(s.in)+s.owed+len(f.payload) > window {
			return fmt.Errorf("request %d sends more than it may", s.id)
		}
		s.in = append(s.in, f.payload...)
	case frameCredit:
		if len(f.payload) != 4 {
			return fmt.Errorf("request %d has a bad credit", s.id)
		}
		n := binary.BigEndian.Uint32(f.payload)
		if n > window || s.credit+int(n) > window {
			return fmt.Errorf("request %d has too much credit", s.id)
		}
		s.credit += int(n)
	case frameEvent:
		var e event
		if err := json.Unmarshal(f.payload, &e); err != nil || len(f.payload) > 2*maxMessage {
			return fmt.Errorf("request %d has a bad event", s.id)
		}
		// Only who asked listens.
		if !s.opener || len(s.events) >= maxEvents || s.waiting+len(e.Value) > maxEventBytes {
			s.dropped++
			return nil
		}
		s.waiting += len(e.Value)
		s.events = append(s.events, e)
	case frameCancel:
		if s.opener {
			return fmt.Errorf("request %d is cancelled by who serves it", s.id)
		}
		s.cancel(&RemoteError{Kind: RemoteCanceled, Msg: cut(string(f.payload), maxMessage)})
	case frameEnd:
		return s.peerEnded(f.payload)
	}
	return nil
}

// peerEnded is called with mu held.
func (s *Stream) peerEnded(payload []byte) error {
	var e ending
	if err := json.Unmarshal(payload, &e); err != nil {
		return fmt.Errorf("request %d has a bad end", s.id)
	}
	if s.ended != nil {
		return fmt.Errorf("request %d ends twice", s.id)
	}
	if e.Bytes != s.got {
		return fmt.Errorf("request %d has lost bytes: %d were sent and %d came", s.id, e.Bytes, s.got)
	}
	if e.Error != nil {
		e.Error.Msg = cut(e.Error.Msg, maxMessage)
	}
	s.ended = &e
	if !s.opener {
		return nil
	}
	if s.closed {
		s.forget()
	} else {
		// The peer does not want the rest of this body.
		go func() { _ = s.finish(nil, nil) }()
	}
	return nil
}

// ReadJSON decodes a whole body of at most so many bytes.
func ReadJSON(r io.Reader, limit int64, v any) error {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(raw)) > limit {
		return fmt.Errorf("the body is larger than %d bytes", limit)
	}
	return json.Unmarshal(raw, v)
}
