package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// TestUnrecordedCalls: what a call becomes of which the ledger has nothing. It did not
// begin only where the Hand ended, kept to the protocol and asked for nothing.
func TestUnrecordedCalls(t *testing.T) {
	for name, c := range map[string]struct {
		does func(h *fakeHand, p CallParams) error
		kind batch.ToolErrorKind
		says string
	}{
		"it ends": {func(h *fakeHand, _ CallParams) error { h.die(ReasonKilled); return ErrLost }, batch.ToolErrorUnavailable, string(ReasonKilled)},
		"it asks for a secret and ends": {func(h *fakeHand, p CallParams) error {
			_, _ = readAll(h.ctx, h, MethodSecret, SecretParams{Operation: p.Operation(), Name: "NONE"}) // which it is not given
			h.die(ReasonKilled)
			return ErrLost
		}, batch.ToolErrorExecution, "was running"},
		"it breaks the protocol": {func(h *fakeHand, _ CallParams) error {
			_ = h.channel().w.write(frame{kind: frameData, id: 4243})
			<-h.ctx.Done()
			return ErrLost
		}, batch.ToolErrorExecution, "never opened"},
		"it sends what is no output": {func(*fakeHand, CallParams) error { return nil }, batch.ToolErrorExecution, "result cannot be read"},
		"it says that nothing ran":   {func(*fakeHand, CallParams) error { return &RemoteError{Kind: "unavailable_before_dispatch", Msg: "no"} }, batch.ToolErrorUnavailable, "no"},
		"it asks, and says that nothing ran": {func(h *fakeHand, p CallParams) error {
			_, _ = readAll(h.ctx, h, MethodSecret, SecretParams{Operation: p.Operation(), Name: "NONE"})
			return &RemoteError{Kind: "unavailable_before_dispatch", Msg: "no"}
		}, batch.ToolErrorExecution, "had begun"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier := newFakeTier(TierNamespace)
				tier.odd = func(h *fakeHand, s *Stream) (bool, error) {
					if s.Method() != MethodCall {
						return false, nil
					}
					var p CallParams
					if err := s.Params(&p); err != nil {
						return false, err
					}
					return true, c.does(h, p)
				}
				w := newFakeWorld(t, tier, nil)
				_, err := w.invoke("r1", 1)
				wantKind(t, err, c.kind)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it does not say %q: %v", c.says, err)
				}
				tier.odd = nil
				w.mustRun("r1", 2)
			})
		})
	}
}

// TestListingThatLies: a sandbox that keeps its files inside names what it likes.
func TestListingThatLies(t *testing.T) {
	for text, want := range map[string]string{
		`[{"path":"dir/a","bytes":1},{"path":"dir/b/c"}]`: "",
		`null`:                          "",
		`[{"path":"dir/../../x"}]`:      "not there",
		`[{"path":"/etc/passwd"}]`:      "not there",
		`[{"path":"other/a"}]`:          "not there",
		`[{"path":"dirt"}]`:             "not there",
		`[{}]`:                          "not there",
		`[{"path":"dir/a","bytes":-1}]`: "not there",
		`[{"path":"dir/a"}`:             "EOF",
		`{"path":"dir/a"}`:              "no list",
		"[" + strings.Repeat("{},", MaxWorkspaceEntries) + "{}]": "more than",
	} {
		t.Run(fmt.Sprintf("%.40s", text), func(t *testing.T) {
			tier := newFakeTier(TierKube)
			tier.carry = true
			tier.odd = func(_ *fakeHand, s *Stream) (bool, error) {
				if s.Method() != MethodList {
					return false, nil
				}
				if _, err := s.Write([]byte(text)); err != nil {
					return true, err
				}
				return true, s.End(nil)
			}
			w := newFakeWorld(t, tier, nil)
			w.mustRun("r1", 1)
			files, err := w.m.Files("r1")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			list, err := files.List(ctx, "dir")
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(list) > 0):
				t.Errorf("%d files, %v; want an error that says %q", len(list), err, want)
			}
		})
	}
}

// TestExchangesAreBounded: of the requests that a Hand makes at once, and whose bodies
// it never ends, few are taken in, and all end with the call.
func TestExchangesAreBounded(t *testing.T) {
	guard, err := egress.New(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const asked = 4 * maxExchanges
	tier := newFakeTier(TierNamespace)
	open := make(chan error, 1)
	answered := make(chan struct{}, asked)
	ended := make(chan struct{})
	tier.call = func(ctx context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
		for range asked {
			s, err := h.channel().Open(h.ctx, MethodHTTP, HTTPParams{Operation: p.Operation(), Method: "POST", URL: "http://host.test"})
			if err == nil {
				_, err = s.Write(make([]byte, window))
			}
			if err != nil {
				open <- err
				return nil, err
			}
			go func() { // what is taken in of it is more than its window
				_, _ = s.Write(make([]byte, 64<<10))
				_, _ = io.Copy(io.Discard, reader{s}) // the body stays without an end
				answered <- struct{}{}
			}()
		}
		open <- nil
		<-ended
		return &batch.Output{CallID: p.ID}, nil
	}
	w := newFakeWorld(t, tier, func(o *Options) { o.Network, o.Egress = NetworkAllowlist, guard })
	w.catalog = fakeTool(t, func(p *plugins.Plugin) {
		p.Manifest.Capabilities.Hosts, p.Effective.Hosts = []string{"http://host.test"}, []string{"http://host.test"}
		p.Effective.Timeout = time.Minute
	})
	called := make(chan error, 1)
	go func() { _, err := w.invoke("r1", 1); called <- err }()
	if err := <-open; err != nil {
		t.Fatal(err)
	}
	w.m.mu.Lock()
	h := w.m.sessions["r1"].hand
	w.m.mu.Unlock()
	within(t, "the places are taken", func() bool { return len(h.desk.exchanges) == maxExchanges })
	reading := 0
	h.ch.mu.Lock()
	for _, s := range h.ch.streams {
		s.mu.Lock()
		if s.method == MethodHTTP && s.got > int64(len(s.in)) {
			reading++
		}
		s.mu.Unlock()
	}
	h.ch.mu.Unlock()
	if reading > maxExchanges {
		t.Errorf("the bodies of %d requests are taken in", reading)
	}
	close(ended)
	if err := <-called; err != nil {
		t.Error(err)
	}
	for range asked {
		<-answered
	}
	within(t, "no request is under way", func() bool { return len(h.desk.exchanges) == 0 })
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// TestDecodeOutput: small to send and large to keep is refused, and nothing else is.
func TestDecodeOutput(t *testing.T) {
	many := func(field string, n int) []byte {
		return []byte(`{"` + field + `":[` + strings.Repeat("{},", n-1) + `{}]}`)
	}
	for _, field := range []string{"content", "state"} {
		if _, err := DecodeOutput(many(field, maxBlocks)); err != nil {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := DecodeOutput(many(field, maxBlocks+1)); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%d of %s: %v", maxBlocks+1, field, err)
		}
	}
	want := &batch.Output{CallID: "c", IsError: true, Content: []batch.ContentBlock{batch.JSONBlock([]byte("[" + strings.Repeat("1,", 2*maxBlocks) + "1]"))}}
	raw, err := EncodeOutput(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeOutput(raw); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("an output with many commas: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "null", "[]", `{"content":7}`, `{"content":[]} more`} {
		if out, err := DecodeOutput([]byte(bad)); err == nil {
			t.Errorf("%q gives %+v", bad, out)
		}
	}
	if _, err := DecodeOutput([]byte("null")); !errors.Is(err, errNoOutput) {
		t.Error(err)
	}
}

func FuzzDecodeOutput(f *testing.F) {
	f.Add([]byte(`{"call_id":"c","content":[{"type":"text","text":"a"},{"type":"json","json":[1,{}]}],"state":[{"op":"set","key":"k","value":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b blocks
		if b.UnmarshalJSON(raw) == nil && len(b) > maxBlocks {
			t.Errorf("%d blocks", len(b))
		}
		out, err := DecodeOutput(raw)
		if err != nil {
			return
		}
		if len(out.Content) > maxBlocks || len(out.State) > maxBlocks {
			t.Errorf("%d blocks, %d commands", len(out.Content), len(out.State))
		}
	})
}

// A failure that is cut stays text.
func TestCutWithinACharacter(t *testing.T) {
	for most := range 8 {
		got := cut("žluť!", most)
		if len(got) > most || !strings.HasPrefix("žluť!", got) || len(got) < most-1 {
			t.Errorf("cut at %d: %q", most, got)
		}
	}
}
