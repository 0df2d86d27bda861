package sandbox

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// greeted is a host's channel to a peer that has said welcome, and what the peer writes
// to and never reads.
func greeted(t *testing.T, o ChannelOptions) (*Channel, *frameWriter) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _ = b.Close() })
	w := &frameWriter{w: b}
	go func() {
		_, _ = readFrame(b)
		_ = w.write(frame{kind: frameWelcome, payload: mustJSON(acceptance{Protocol: protocolName, Version: 1})})
	}()
	h, _, err := Dial(t.Context(), a, Hello{}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(); h.Wait() })
	return h, w
}

func held(h *Channel) (requests, params, events int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		s.mu.Lock()
		params += len(s.params)
		events += len(s.events)
		s.mu.Unlock()
	}
	return h.serving, params, events
}

func waiting(ctx context.Context, _ *Stream) error { <-ctx.Done(); return nil }

// A peer that opens requests and reads no answer is not remembered without bound.
func TestUnreadRefusalsBreakTheChannel(t *testing.T) {
	h, w := greeted(t, ChannelOptions{Serve: waiting, MaxRequests: 8})
	pad := mustJSON(strings.Repeat("x", 4<<10))
	var sent int
	for id := uint64(2); ; id += 2 {
		if w.write(frame{frameOpen, id, mustJSON(opening{Method: "x", Params: pad})}) != nil {
			break
		}
		sent++
		if _, params, _ := held(h); params > 8*len(pad) {
			t.Fatalf("after %d requests %d bytes of parameters are kept", sent, params)
		}
		if sent > 3*maxRefusals {
			t.Fatal("the channel goes on")
		}
	}
	<-h.Done()
	if err := h.Err(); !strings.Contains(err.Error(), "refusals are not read") {
		t.Errorf("after %d requests: %v", sent, err)
	}
}

func TestParametersAreBounded(t *testing.T) {
	h, w := greeted(t, ChannelOptions{Serve: waiting})
	pad := mustJSON(strings.Repeat("x", maxPayload-200))
	for i := range 40 {
		if err := w.write(frame{frameOpen, uint64(2 * (i + 1)), mustJSON(opening{Method: "x", Params: pad})}); err != nil {
			t.Fatal(err)
		}
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		requests, params, _ := held(h)
		if params > maxParams {
			t.Fatalf("%d bytes of parameters are kept", params)
		}
		if requests == 40 {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%d requests came", requests)
		}
	}
}

// Nobody listens to events of who asks, and who listens keeps so many bytes of them.
func TestUnheardEventsAreNotKept(t *testing.T) {
	h, w := greeted(t, ChannelOptions{Serve: waiting})
	if err := w.write(frame{frameOpen, 2, mustJSON(opening{Method: "x"})}); err != nil {
		t.Fatal(err)
	}
	loud := frame{frameEvent, 2, mustJSON(event{"log", mustJSON(strings.Repeat("x", 60<<10))})}
	for range 2 * maxEvents {
		if err := w.write(loud); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, events := held(h); events != 0 {
		t.Errorf("%d events of a request that is served are kept", events)
	}
	s := newStream(h, 1, "x", nil)
	s.opener = true
	for range 2 * maxEvents {
		if err := s.take(loud); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.events) * len(loud.payload); n > maxEventBytes+len(loud.payload) || s.DroppedEvents() != 2*maxEvents-len(s.events) {
		t.Errorf("%d bytes are kept, %d events were dropped", n, s.DroppedEvents())
	}
}

func TestLongMethod(t *testing.T) {
	h, w := greeted(t, ChannelOptions{Serve: waiting})
	_ = w.write(frame{frameOpen, 2, mustJSON(opening{Method: strings.Repeat("m", maxMethod+1)})})
	<-h.Done()
	if err := h.Err(); !strings.Contains(err.Error(), "a method of 101 bytes") {
		t.Error(err)
	}
}

// halfPipe is a channel of pipes: closing it closes the input of a peer, whose output
// stays open.
type halfPipe struct {
	io.Reader
	io.WriteCloser
}

// TestAPeerThatSaysNothingIsNotWaitedFor: also where closing the channel does not end
// reading from it.
func TestAPeerThatSaysNothingIsNotWaitedFor(t *testing.T) {
	silent, never := io.Pipe()
	t.Cleanup(func() { _ = never.Close() })
	swallowed, input := io.Pipe()
	go func() { _, _ = io.Copy(io.Discard, swallowed) }()
	gaveUp := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, gaveUp)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := Dial(ctx, halfPipe{silent, input}, Hello{}, ChannelOptions{})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, gaveUp) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is waited for")
	}
	if _, err := input.Write([]byte("x")); err == nil {
		t.Error("its input is open")
	}
}
