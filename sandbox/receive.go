package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// What a peer may make this end keep, besides the bodies of its requests.
const (
	maxMethod   = 100      // bytes
	maxParams   = 16 << 20 // bytes, of all requests that are being served
	maxRefusals = 1024     // that it has not read
)

// receive reads frames until the channel is lost.
func (c *Channel) receive(r io.Reader) {
	for {
		f, err := readFrame(r)
		if err == nil {
			c.mu.Lock()
			c.heard = time.Now()
			c.mu.Unlock()
			err = violated(c.take(f))
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the other end is gone")
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// take deals with one frame; an error breaks the channel. It never waits for
// anything but the peer to read.
func (c *Channel) take(f frame) error {
	switch f.kind {
	case framePing:
		c.beatWith(framePong)
		return nil
	case framePong:
		return nil
	case frameOpen:
		return c.opened(f)
	case frameHello, frameWelcome:
		return errors.New("a second greeting came")
	}
	c.mu.Lock()
	s := c.streams[f.id]
	known := s != nil || f.id != 0 && (f.id%2 == c.next%2 && f.id < c.next || f.id%2 != c.next%2 && f.id <= c.last)
	c.mu.Unlock()
	switch {
	case !known:
		return fmt.Errorf("a frame of kind %d came for request %d, which was never opened", f.kind, f.id)
	case s == nil:
		return nil // it has ended here meanwhile
	}
	return s.take(f)
}

// opened begins to serve a request of the peer.
func (c *Channel) opened(f frame) error {
	var o opening
	if err := json.Unmarshal(f.payload, &o); err != nil {
		return fmt.Errorf("request %d cannot be read: %w", f.id, err)
	}
	if len(o.Method) > maxMethod {
		return fmt.Errorf("request %d names a method of %d bytes", f.id, len(o.Method))
	}
	c.mu.Lock()
	if c.streams == nil { // the channel is lost: nobody would hear the answer
		c.mu.Unlock()
		return nil
	}
	if f.id == 0 || f.id%2 == c.next%2 || f.id <= c.last {
		c.mu.Unlock()
		return fmt.Errorf("request %d comes out of order", f.id)
	}
	if n := c.serving; n >= c.o.MaxRequests+maxRefusals {
		c.mu.Unlock()
		// Each is answered: who does not read the answers only wants them kept.
		return fmt.Errorf("%d requests are open, and their refusals are not read", n)
	}
	c.last = f.id
	s := newStream(c, f.id, o.Method, o.Params)
	s.serveWithin(c.ctx)
	refused := ""
	switch {
	case c.o.Serve == nil:
		refused = fmt.Sprintf("%s is not served here", o.Method)
	case c.serving >= c.o.MaxRequests:
		refused = fmt.Sprintf("%s: %d requests are open already", o.Method, c.serving)
	case c.params+len(o.Params) > maxParams:
		refused = fmt.Sprintf("%s: the requests that are open have parameters of %d bytes already", o.Method, c.params)
	}
	if refused != "" {
		s.params = nil // it may be long until the refusal is read
	}
	c.params += len(s.params)
	c.streams[s.id] = s
	c.serving++
	c.served.Add(1)
	c.mu.Unlock()
	go c.serve(s, refused)
	return nil
}

func (c *Channel) serve(s *Stream, refused string) {
	defer c.served.Done()
	defer func() {
		c.mu.Lock()
		c.serving--
		c.params -= len(s.params)
		c.mu.Unlock()
	}()
	if refused != "" {
		s.end(nil, &RemoteError{Kind: RemoteRefused, Msg: refused})
		return
	}
	err := c.o.Serve(s.ctx, s)
	var remote *RemoteError
	switch {
	case err == nil:
		s.end(nil, nil)
		return
	case errors.As(err, &remote):
	case s.ctx.Err() != nil:
		remote = &RemoteError{Kind: RemoteCanceled, Msg: err.Error()}
	default:
		remote = &RemoteError{Kind: RemoteFailed, Msg: err.Error()}
	}
	s.end(nil, remote)
}

func (c *Channel) forget(id uint64) {
	c.mu.Lock()
	delete(c.streams, id)
	c.mu.Unlock()
}
