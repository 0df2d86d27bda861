package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pair connects a host's end with a Hand's end that serves with hand.
func pair(t testing.TB, host, hand ChannelOptions) (h, w *Channel) {
	t.Helper()
	a, b := net.Pipe()
	type accepted struct {
		c   *Channel
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		c, hello, err := Accept(t.Context(), b, Welcome{Hand: "v1", PID: 7}, hand)
		if err == nil && hello.Environment != "env" {
			err = fmt.Errorf("hello is %+v", hello)
		}
		got <- accepted{c, err}
	}()
	h, welcome, err := Dial(t.Context(), a, Hello{Environment: "env"}, host)
	if err != nil {
		t.Fatal(err)
	}
	other := <-got
	if other.err != nil {
		t.Fatal(other.err)
	}
	if welcome.Hand != "v1" || welcome.PID != 7 {
		t.Errorf("welcome is %+v", welcome)
	}
	t.Cleanup(func() { _ = h.Close(); _ = other.c.Close(); h.Wait(); other.c.Wait() })
	return h, other.c
}

// echo answers with the parameters as the result, the body as the body.
func echo(_ context.Context, s *Stream) error {
	var p map[string]any
	if err := s.Params(&p); err != nil {
		return err
	}
	if _, err := io.Copy(writer{s}, reader{s}); err != nil {
		return err
	}
	return s.End(p)
}

type writer struct{ io.Writer }

func ask(t testing.TB, c *Channel, body []byte) (answer []byte, result map[string]any, err error) {
	t.Helper()
	s, err := c.Open(t.Context(), "echo", map[string]any{"n": 1})
	if err != nil {
		return nil, nil, err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := s.Write(body)
		sent <- errors.Join(err, s.CloseWrite())
	}()
	if answer, err = io.ReadAll(s); err == nil {
		err = s.Result(&result)
	}
	return answer, result, errors.Join(err, <-sent)
}

func TestRequestsInBothDirections(t *testing.T) {
	h, w := pair(t, ChannelOptions{Serve: echo}, ChannelOptions{Serve: echo})
	for name, c := range map[string]*Channel{"host": h, "hand": w} {
		for _, n := range []int{0, 1, dataPiece, window, window + 1, 5 * window} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				body := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
				answer, result, err := ask(t, c, body)
				if err != nil || !bytes.Equal(answer, body) || result["n"] != 1.0 {
					t.Errorf("got %d bytes, %v, %v", len(answer), result, err)
				}
			})
		}
	}
}

// A body and its end that go out at once are what they are when they go one by one.
func TestWholeBodies(t *testing.T) {
	h, w := pair(t, ChannelOptions{}, ChannelOptions{Serve: func(_ context.Context, s *Stream) error {
		body, err := io.ReadAll(s)
		if err != nil {
			return err
		}
		return s.EndWith(body, len(body))
	}})
	for _, n := range []int{0, 1, dataPiece, dataPiece + 1, window + 1, 3 * window} {
		body := bytes.Repeat([]byte("x"), n)
		s, err := h.Ask(t.Context(), "x", nil, body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		result := -1
		if err == nil {
			err = s.Result(&result)
		}
		if err != nil || !bytes.Equal(got, body) || result != n {
			t.Errorf("%d bytes: got %d, result %d, %v", n, len(got), result, err)
		}
	}
	for _, c := range []*Channel{h, w} {
		for begun := time.Now(); open(c) != 0; time.Sleep(time.Millisecond) {
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("%d requests are kept", open(c))
			}
		}
	}
}

func TestFailuresCross(t *testing.T) {
	hand := ChannelOptions{Serve: func(_ context.Context, s *Stream) error {
		switch s.Method() {
		case "typed":
			return fmt.Errorf("wrapped: %w", &RemoteError{Kind: "placement", Msg: "no place"})
		case "plain":
			return errors.New("it broke")
		case "late":
			_, _ = s.Write([]byte("half"))
			return errors.New("after half")
		}
		return &RemoteError{Kind: RemoteRefused, Msg: "unknown method " + s.Method()}
	}}
	h, _ := pair(t, ChannelOptions{}, hand)
	for method, want := range map[string]RemoteError{
		"typed": {"placement", "no place"}, "plain": {RemoteFailed, "it broke"},
		"late": {RemoteFailed, "after half"}, "other": {RemoteRefused, "unknown method other"},
	} {
		s, err := h.Open(t.Context(), method, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got *RemoteError
		if err := s.Result(nil); !errors.As(err, &got) || *got != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
	for begun := time.Now(); open(h) != 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d requests are kept", open(h))
		}
	}
}

func open(c *Channel) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

func TestNobodyServes(t *testing.T) {
	h, w := pair(t, ChannelOptions{}, ChannelOptions{MaxRequests: 1, Serve: func(ctx context.Context, _ *Stream) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	var refused *RemoteError
	s, err := w.Open(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Result(nil); !errors.As(err, &refused) || refused.Kind != RemoteRefused {
		t.Errorf("a host that serves nothing: %v", err)
	}
	first, err := h.Open(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Open(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Result(nil); !errors.As(err, &refused) || !strings.Contains(refused.Msg, "open already") {
		t.Errorf("one more than MaxRequests: %v", err)
	}
	first.Cancel(errors.New("enough"))
	if err := first.Result(nil); !errors.As(err, &refused) || refused.Kind != RemoteCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestContextCancels(t *testing.T) {
	ended := make(chan error, 1)
	h, _ := pair(t, ChannelOptions{}, ChannelOptions{Serve: func(ctx context.Context, _ *Stream) error {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}})
	why := errors.New("the run was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := h.Open(ctx, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if err := s.Result(nil); !errors.Is(err, why) {
		t.Errorf("the opener sees %v", err)
	}
	if err := <-ended; err == nil || err.Error() != why.Error() {
		t.Errorf("the Hand sees %v", err)
	}
	if _, err := h.Open(ctx, "x", nil); !errors.Is(err, why) {
		t.Errorf("open after the end: %v", err)
	}
}

func TestEventsComeInOrder(t *testing.T) {
	h, _ := pair(t, ChannelOptions{}, ChannelOptions{Serve: func(_ context.Context, s *Stream) error {
		for i := range 100 {
			if err := s.Event(EventLog, i); err != nil {
				return err
			}
		}
		return s.End("done")
	}})
	s, err := h.Open(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	s.OnEvent(func(kind string, v json.RawMessage) { got = append(got, kind+string(v)) })
	var result string
	if err := s.Result(&result); err != nil || result != "done" {
		t.Errorf("result %q, %v", result, err)
	}
	if len(got) != 100 || got[0] != "log0" || got[99] != "log99" || s.DroppedEvents() != 0 {
		t.Errorf("%d events, dropped %d", len(got), s.DroppedEvents())
	}
}

// A peer that sends events and is never read must not cost memory without bound.
func TestEventsAreBounded(t *testing.T) {
	sent := make(chan struct{})
	h, _ := pair(t, ChannelOptions{}, ChannelOptions{Serve: func(_ context.Context, s *Stream) error {
		for range 4 * maxEvents {
			_ = s.Event(EventLog, "x")
		}
		close(sent)
		return nil
	}})
	s, err := h.Open(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-sent
	n := 0
	s.OnEvent(func(string, json.RawMessage) { n++ })
	if err := s.Result(nil); err != nil {
		t.Fatal(err)
	}
	if n+s.DroppedEvents() != 4*maxEvents || n < maxEvents {
		t.Errorf("%d came, %d dropped", n, s.DroppedEvents())
	}
}

func TestLostWhileAsked(t *testing.T) {
	begun := make(chan struct{})
	h, w := pair(t, ChannelOptions{}, ChannelOptions{Serve: func(ctx context.Context, s *Stream) error {
		_, _ = s.Write([]byte("half of it"))
		close(begun)
		<-ctx.Done()
		return nil
	}})
	s, err := h.Open(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	_ = w.Close()
	if got, err := io.ReadAll(s); !errors.Is(err, ErrLost) {
		t.Errorf("half a body was taken for a whole one: %q, %v", got, err)
	}
	if err := s.Result(nil); !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
		t.Errorf("result: %v", err)
	}
	<-h.Done()
	if _, err := h.Open(t.Context(), "x", nil); !errors.Is(err, ErrNotSent) || !errors.Is(h.Err(), ErrLost) {
		t.Errorf("open on a lost channel: %v", err)
	}
}

func TestSilentPeerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		go func() { // a Hand that says welcome, and nothing ever after
			_, _ = readFrame(b)
			_, _ = b.Write(appendFrame(nil, frame{kind: frameWelcome, payload: mustJSON(acceptance{Protocol: protocolName, Version: 1})}))
			_, _ = io.Copy(io.Discard, b)
		}()
		begun := time.Now()
		c, _, err := Dial(t.Context(), a, Hello{}, ChannelOptions{Heartbeat: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		if took := time.Since(begun); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("lost after %s", took)
		}
		if err := c.Err(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "nothing was heard for 3s") {
			t.Errorf("err is %v", err)
		}
		c.Wait()
	})
}

func TestHeartbeatKeepsAnIdleChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := pair(t, ChannelOptions{Heartbeat: time.Second}, ChannelOptions{Heartbeat: time.Hour, Serve: echo})
		time.Sleep(time.Minute)
		if _, _, err := ask(t, h, []byte("still there")); err != nil {
			t.Error(err)
		}
		_, _ = h.Close(), w.Close()
		h.Wait()
		w.Wait()
	})
}

// A body that nobody reads holds up no other request.
func TestOneFullBodyHoldsUpNoOther(t *testing.T) {
	h, _ := pair(t, ChannelOptions{}, ChannelOptions{Serve: func(ctx context.Context, s *Stream) error {
		if s.Method() == "stuck" {
			<-ctx.Done()
			return nil
		}
		return echo(ctx, s)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	stuck, err := h.Open(ctx, "stuck", nil)
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := stuck.Write(make([]byte, 4*window))
		wrote <- err
	}()
	if _, _, err := ask(t, h, make([]byte, 3*window)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-wrote; !errors.Is(err, context.Canceled) {
		t.Errorf("the stuck body ended with %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	var served atomic.Int64
	count := func(ctx context.Context, s *Stream) error { served.Add(1); return echo(ctx, s) }
	h, w := pair(t, ChannelOptions{Serve: count}, ChannelOptions{Serve: count})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			c := h
			if i%2 == 0 {
				c = w
			}
			body := bytes.Repeat([]byte{byte(i)}, i*1000)
			if got, _, err := ask(t, c, body); err != nil || !bytes.Equal(got, body) {
				t.Errorf("request %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	if served.Load() != 64 {
		t.Errorf("%d were served", served.Load())
	}
}

func TestGreetings(t *testing.T) {
	welcome := func(a acceptance) []byte { return appendFrame(nil, frame{kind: frameWelcome, payload: mustJSON(a)}) }
	for name, c := range map[string]struct {
		says []byte
		want string
	}{
		"a shell":       {[]byte("sh: 1: /awaken/hand: not found\n"), `says "sh: 1: /awaken/hand: not found`},
		"a short word":  {[]byte("no such"), `says "no such"`},
		"nothing":       {nil, "EOF"},
		"half":          {welcome(acceptance{Protocol: protocolName, Version: 1})[:20], "unexpected EOF"},
		"another":       {welcome(acceptance{Protocol: "ssh"}), `speaks "ssh"`},
		"a newer Hand":  {welcome(acceptance{Protocol: protocolName, Versions: []int{2, 3}, Welcome: Welcome{Hand: "v9"}}), "(v9) speaks versions [2 3]"},
		"a wrong frame": {appendFrame(nil, frame{kind: framePing}), "kind 9 came"},
		"too long":      {[]byte{0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0}, "does not speak the protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			go func() {
				_, _ = readFrame(b)
				_, _ = b.Write(c.says)
				_ = b.Close()
			}()
			_, _, err := Dial(t.Context(), a, Hello{}, ChannelOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		a, b := net.Pipe()
		go func() { _, _ = readFrame(b) }()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, _, err := Dial(ctx, a, Hello{}, ChannelOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// What breaks the rules breaks the channel, and nothing else.
func TestHostilePeer(t *testing.T) {
	openX := frame{kind: frameOpen, id: 2, payload: []byte(`{"method":"x"}`)}
	for name, c := range map[string]struct {
		send []frame
		want string
	}{
		"more than it may":    {[]frame{openX, {frameData, 2, make([]byte, window)}, {frameData, 2, []byte("x")}}, "more than it may"},
		"never opened":        {[]frame{{frameData, 4, nil}}, "never opened"},
		"the host's own id":   {[]frame{{frameOpen, 3, openX.payload}}, "out of order"},
		"an id twice":         {[]frame{openX, openX}, "out of order"},
		"a second greeting":   {[]frame{{kind: frameHello}}, "second greeting"},
		"bad opening":         {[]frame{{frameOpen, 2, []byte("{")}}, "cannot be read"},
		"a lie about bytes":   {[]frame{openX, {frameData, 2, []byte("abc")}, {frameEnd, 2, []byte(`{"bytes":4}`)}}, "lost bytes: 4 were sent and 3 came"},
		"two ends":            {[]frame{openX, {frameEnd, 2, []byte(`{"bytes":0}`)}, {frameEnd, 2, []byte(`{"bytes":0}`)}}, "ends twice"},
		"bytes after the end": {[]frame{openX, {frameEnd, 2, []byte(`{"bytes":0}`)}, {frameData, 2, []byte("x")}}, "after its end"},
		"too much credit":     {[]frame{openX, {frameCredit, 2, []byte{0, 0, 0, 1}}}, "too much credit"},
		"short credit":        {[]frame{openX, {frameCredit, 2, []byte{1}}}, "bad credit"},
		"bad event":           {[]frame{openX, {frameEvent, 2, []byte("[")}}, "bad event"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			go func() {
				_, _ = readFrame(b)
				_, _ = b.Write(appendFrame(nil, frame{kind: frameWelcome, payload: mustJSON(acceptance{Protocol: protocolName, Version: 1})}))
				go func() { _, _ = io.Copy(io.Discard, b) }()
				for _, f := range c.send {
					_, _ = b.Write(appendFrame(nil, f))
				}
			}()
			h, _, err := Dial(t.Context(), a, Hello{}, ChannelOptions{Serve: func(ctx context.Context, _ *Stream) error {
				<-ctx.Done()
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			<-h.Done()
			if err := h.Err(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			h.Wait()
		})
	}
}

func FuzzChannel(f *testing.F) {
	f.Add([]byte("bash: no such file"))
	f.Add(appendFrame(appendFrame(nil, frame{frameOpen, 2, []byte(`{"method":"x","params":{"n":1}}`)}), frame{frameEnd, 2, []byte(`{"bytes":0}`)}))
	f.Add(appendFrame(appendFrame(nil, frame{frameOpen, 2, []byte(`{"method":"x"}`)}), frame{frameCancel, 2, []byte("no")}))
	f.Add(appendFrame(nil, frame{kind: framePing}))
	f.Fuzz(func(t *testing.T, says []byte) {
		a, b := net.Pipe()
		go func() {
			_, _ = readFrame(b)
			_, _ = b.Write(appendFrame(nil, frame{kind: frameWelcome, payload: mustJSON(acceptance{Protocol: protocolName, Version: 1})}))
			go func() { _, _ = io.Copy(io.Discard, b) }()
			_, _ = b.Write(says)
			_ = b.Close()
		}()
		h, _, err := Dial(context.Background(), a, Hello{}, ChannelOptions{Serve: echo})
		if err != nil {
			t.Fatal(err)
		}
		<-h.Done()
		h.Wait()
		if !errors.Is(h.Err(), ErrLost) {
			t.Error(h.Err())
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, frame{frameData, 9, []byte("abc")}))
	f.Add([]byte{0, 0, 0, 9, 4, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := readFrame(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if back := appendFrame(nil, got); !bytes.Equal(back, raw[:len(back)]) {
			t.Errorf("%x came back as %x", raw, back)
		}
	})
}

func BenchmarkChannelRequest(b *testing.B) {
	h, _ := pair(b, ChannelOptions{}, ChannelOptions{Serve: echo})
	body := bytes.Repeat([]byte("x"), 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ask(b, h, body); err != nil {
			b.Fatal(err)
		}
	}
}
