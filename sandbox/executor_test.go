package sandbox

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// TestLostHand: a boundary that dies in the middle of a call. What its ledger says is
// what is known.
func TestLostHand(t *testing.T) {
	record := func(t *testing.T, h *fakeHand, f func(l *Ledger) error) {
		l, err := h.records()
		if err == nil {
			err = errors.Join(f(l), l.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, h *fakeHand, p CallParams)
		want   string
		kind   batch.ToolErrorKind
	}{
		"not begun": {func(*testing.T, *fakeHand, CallParams) {}, "", batch.ToolErrorUnavailable},
		"begun": {func(t *testing.T, h *fakeHand, p CallParams) {
			record(t, h, func(l *Ledger) error { return l.Begin(p.Operation(), p.Attempt) })
		}, "", batch.ToolErrorExecution},
		"ended": {func(t *testing.T, h *fakeHand, p CallParams) {
			record(t, h, func(l *Ledger) error {
				return errors.Join(l.Begin(p.Operation(), p.Attempt), l.Finish(LedgerRecord{Operation: p.Operation(), Attempt: p.Attempt,
					Output: &batch.Output{CallID: p.ID, Content: []batch.ContentBlock{batch.TextBlock("in time")}}}))
			})
		}, "in time", ""},
		"failed": {func(t *testing.T, h *fakeHand, p CallParams) {
			record(t, h, func(l *Ledger) error {
				return l.Finish(LedgerRecord{Operation: p.Operation(), Attempt: p.Attempt, Failed: batch.ToolErrorInvalidArguments, Message: "no"})
			})
		}, "", batch.ToolErrorInvalidArguments},
		"forged": {func(t *testing.T, h *fakeHand, p CallParams) {
			l, err := OpenLedger(h.spec.State, make([]byte, ledgerKeyBytes))
			if err == nil {
				err = errors.Join(l.Finish(LedgerRecord{Operation: p.Operation(), Attempt: p.Attempt, Output: &batch.Output{}}), l.Close())
			}
			if err != nil {
				t.Error(err)
			}
		}, "", batch.ToolErrorExecution},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier := newFakeTier(TierNamespace)
				tier.call = func(_ context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
					c.before(t, h, p)
					h.die(ReasonMemory)
					return nil, ErrLost
				}
				w := newFakeWorld(t, tier, nil)
				out, err := w.invoke("r1", 1)
				if c.kind == "" {
					if err != nil || out.Text() != c.want || out.Tier != TierNamespace {
						t.Errorf("%+v, %v", out, err)
					}
				} else {
					wantKind(t, err, c.kind)
				}
				if c.kind == batch.ToolErrorExecution && !strings.Contains(err.Error(), string(ReasonMemory)) {
					t.Errorf("it does not say why: %v", err)
				}
				tier.call = nil
				w.mustRun("r1", 2) // in a fresh boundary of the same Environment
				if n := len(w.m.Environments()); n != 1 {
					t.Errorf("%d environments", n)
				}
			})
		})
	}
}

// TestEndOfACall: when its caller goes, the Hand hears of it; one that does not listen
// is stopped, and so is one that does not end a call at its timeout.
func TestEndOfACall(t *testing.T) {
	for name, c := range map[string]struct {
		deaf  bool
		leave bool // the caller goes
		took  time.Duration
	}{
		"the caller goes":                          {leave: true, took: time.Second},
		"the caller goes, the Hand is deaf":        {deaf: true, leave: true, took: time.Second + cancelWait},
		"the Hand forgets the timeout":             {took: 5*time.Second + overtime + compileTime},
		"the Hand forgets the timeout and is deaf": {deaf: true, took: 5*time.Second + overtime + compileTime + cancelWait},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier := newFakeTier(TierNamespace)
				tier.call = func(ctx context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
					l, err := h.records()
					if err == nil {
						err = errors.Join(l.Begin(p.Operation(), p.Attempt), l.Close())
					}
					if err != nil {
						t.Error(err)
					}
					if c.deaf {
						<-h.ctx.Done()
					} else {
						<-ctx.Done()
					}
					return nil, &RemoteError{Kind: string(batch.ToolErrorExecution), Msg: "it was stopped"}
				}
				w := newFakeWorld(t, tier, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.leave {
					time.AfterFunc(time.Second, cancel)
				}
				begun := time.Now()
				_, err := w.x.Invoke(ctx, w.request("r1", 1))
				wantKind(t, err, batch.ToolErrorExecution)
				if took := time.Since(begun); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if _, running := tier.count(); running == 1 == c.deaf {
					t.Errorf("%d run afterwards", running)
				}
			})
		})
	}
}

type fixedSecret string

func (f fixedSecret) Resolve(context.Context) ([]byte, error) { return []byte(f), nil }
func (f fixedSecret) String() string                          { return "test" }

// asks has the Hand ask the host for something during a call.
func asks(t *testing.T, change func(*Options), p func(*plugins.Plugin), ask func(ctx context.Context, h *fakeHand, p CallParams) (string, error)) (*fakeWorld, *batch.Output) {
	t.Helper()
	tier := newFakeTier(TierNamespace)
	w := newFakeWorld(t, tier, change)
	w.catalog = fakeTool(t, p)
	tier.call = func(ctx context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
		text, err := ask(ctx, h, p)
		if err != nil {
			text = "error: " + err.Error()
		}
		return &batch.Output{CallID: p.ID, Content: []batch.ContentBlock{batch.TextBlock(text)}}, nil
	}
	return w, w.mustRun("r1", 1)
}

func readAll(ctx context.Context, h *fakeHand, method string, params any) (string, error) {
	s, err := h.channel().Open(ctx, method, params)
	if err != nil {
		return "", err
	}
	_ = s.CloseWrite()
	raw, err := io.ReadAll(struct{ io.Reader }{s})
	return string(raw), err
}

// TestSecretsOfRunningCalls: a Hand gets the secrets of the plugins that it runs now,
// and no result shows them.
func TestSecretsOfRunningCalls(t *testing.T) {
	const value = "correct-horse-battery"
	give := func(p *plugins.Plugin) {
		p.Manifest.Capabilities.Secrets = []string{"TOKEN"}
		p.Effective.Secrets = []string{"TOKEN"}
		p.Secrets = map[string]plugins.SecretSource{"TOKEN": fixedSecret(value), "OTHER": fixedSecret("another-secret-value")}
	}
	w, out := asks(t, nil, give, func(ctx context.Context, h *fakeHand, p CallParams) (string, error) {
		got, err := readAll(ctx, h, MethodSecret, SecretParams{Operation: p.Operation(), Name: "TOKEN"})
		if got != value {
			t.Errorf("the Hand got %q, %v", got, err)
		}
		for _, q := range []SecretParams{{p.Operation(), "OTHER"}, {"r9/1/0", "TOKEN"}, {p.Operation(), ""}} {
			if got, err := readAll(ctx, h, MethodSecret, q); err == nil || got != "" {
				t.Errorf("%+v gave %q", q, got)
			}
		}
		return "the token is " + got, nil
	})
	if out.Text() != "the token is [redacted:TOKEN]" {
		t.Errorf("the result is %q", out.Text())
	}
	h := w.tier.one(t)
	if got, err := readAll(t.Context(), h, MethodSecret, SecretParams{Operation: "r1/1/0", Name: "TOKEN"}); err == nil || got != "" {
		t.Errorf("after the call it gave %q", got)
	}
}

// TestTraffic: what a call reaches through the host, by each network.
func TestTraffic(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "you said "+string(body))
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().(*net.TCPAddr)
	guard, err := egress.New(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	grant := func(p *plugins.Plugin) {
		p.Manifest.Capabilities.Hosts = []string{srv.URL}
		p.Effective.Hosts = []string{srv.URL}
	}
	send := func(url string) func(ctx context.Context, h *fakeHand, p CallParams) (string, error) {
		return func(ctx context.Context, h *fakeHand, p CallParams) (string, error) {
			s, err := h.channel().Open(ctx, MethodHTTP, HTTPParams{Operation: p.Operation(), Method: "POST", URL: url})
			if err != nil {
				return "", err
			}
			_, _ = io.WriteString(s, "hello") // what comes back says more
			_ = s.CloseWrite()
			body, err := io.ReadAll(struct{ io.Reader }{s})
			if err != nil {
				return "", err
			}
			var a HTTPAnswer
			if err := s.Result(&a); err != nil {
				return "", err
			}
			if a.NotGranted != "" {
				return "not granted: " + a.NotGranted, nil
			}
			return string(body) + a.Failed, nil
		}
	}
	dial := func(host string, port int) func(ctx context.Context, h *fakeHand, p CallParams) (string, error) {
		return func(ctx context.Context, h *fakeHand, p CallParams) (string, error) {
			s, err := h.channel().Open(ctx, MethodDial, DialParams{Operation: p.Operation(), Scheme: "http", Host: host, Port: port})
			if err != nil {
				return "", err
			}
			_, _ = io.WriteString(s, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
			raw, err := io.ReadAll(struct{ io.Reader }{s})
			if err == nil && (len(raw) == 0 || raw[0] != DialReady) {
				err = errors.New("a connection begins with " + strconv.QuoteToASCII(string(raw)))
			}
			return string(raw), err
		}
	}
	for name, c := range map[string]struct {
		network Network
		ask     func(ctx context.Context, h *fakeHand, p CallParams) (string, error)
		want    string
	}{
		"a request by the list":        {NetworkAllowlist, send(srv.URL), "you said hello"},
		"a request in the host's":      {NetworkHost, send(srv.URL), "you said hello"},
		"a request without a network":  {NetworkNone, send(srv.URL), "[sandbox].network"},
		"a request beside the list":    {NetworkAllowlist, send("https://evil.test"), "not granted: evil.test:443"},
		"a connection by the list":     {NetworkAllowlist, dial("127.0.0.1", addr.Port), "you said hello"},
		"a connection without":         {NetworkNone, dial("127.0.0.1", addr.Port), "[sandbox].network"},
		"a connection beside the list": {NetworkAllowlist, dial("127.0.0.1", 1), "may not reach"},
		"a connection of another call": {NetworkAllowlist, func(ctx context.Context, h *fakeHand, p CallParams) (string, error) {
			p.Run = "r9"
			return dial("127.0.0.1", addr.Port)(ctx, h, p)
		}, "no such call"},
		"something that no host serves": {NetworkAllowlist, func(ctx context.Context, h *fakeHand, _ CallParams) (string, error) {
			return readAll(ctx, h, "shell", nil)
		}, "does not serve"},
	} {
		t.Run(name, func(t *testing.T) {
			_, out := asks(t, func(o *Options) { o.Network, o.Egress = c.network, guard }, grant, c.ask)
			if !strings.Contains(out.Text(), c.want) {
				t.Errorf("got %q, want %q", out.Text(), c.want)
			}
		})
	}
}

// TestFallback: only where the operator lets it, and every result says so.
func TestFallback(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		fallback bool
		kind     batch.ToolErrorKind
		why      string
	}{
		"missing":                 {err: &UnavailableError{Tier: TierDocker, Reason: ReasonTool, What: "no docker"}, kind: batch.ToolErrorPlacement},
		"down":                    {err: &UnavailableError{Tier: TierDocker, Reason: ReasonEngine, What: "no socket", Transient: true}, kind: batch.ToolErrorUnavailable},
		"missing, with fallback":  {err: &UnavailableError{Tier: TierDocker, Reason: ReasonTool, What: "no\ndocker"}, fallback: true, why: "no docker"},
		"no tier at all":          {kind: batch.ToolErrorPlacement},
		"no tier, but a fallback": {fallback: true, why: "there is no awaken-hand"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier, local := newFakeTier(TierDocker), newFakeTier(TierLocal)
				tier.startErr = func(int) error { return c.err }
				w := newFakeWorld(t, tier, func(o *Options) {
					if c.err == nil {
						o.Tier, o.TierError = nil, errors.New("there is no awaken-hand beside awaken-host")
					}
					if c.fallback {
						o.Fallback = local
					}
				})
				for step := 1; step <= 2; step++ {
					out, err := w.invoke("r1", step)
					if c.kind != "" {
						wantKind(t, err, c.kind)
					} else if err != nil || out.Tier != TierLocal || !strings.Contains(out.Fallback, c.why) || strings.Contains(out.Fallback, "\n") {
						t.Errorf("%+v, %v", out, err)
					}
				}
				if n := len(w.m.Environments()); n > 1 {
					t.Errorf("%d environments of one session", n)
				}
			})
		})
	}
}

// TestPlacesOfPlugins: a path that there is not in the boundary is a placement error.
func TestPlacesOfPlugins(t *testing.T) {
	data := t.TempDir()
	for name, c := range map[string]struct {
		path, mode string
		ok         bool
	}{
		"workspace":   {"/workspace", "rw", true},
		"mount":       {"/data", "ro", true},
		"mount, rw":   {"/data", "rw", false},
		"no such":     {"/elsewhere", "ro", false},
		"a part of a": {"/data/x", "ro", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeWorld(t, newFakeTier(TierNamespace), func(o *Options) {
				o.Mounts = []MountSpec{{Target: "/data", Folder: data}}
			})
			w.catalog = fakeTool(t, func(p *plugins.Plugin) {
				p.Manifest.Capabilities.Paths = map[string]string{c.path: c.mode}
				p.Effective.Paths = map[string]string{c.path: c.mode}
			})
			_, err := w.invoke("r1", 1)
			if c.ok != (err == nil) {
				t.Errorf("got %v", err)
			}
			if !c.ok {
				wantKind(t, err, batch.ToolErrorPlacement)
			}
		})
	}
}

// TestPolicyOfWorkspaces: what becomes of a folder when its session ends, or is gone.
func TestPolicyOfWorkspaces(t *testing.T) {
	for name, c := range map[string]struct {
		state  SessionState
		remove bool
		gone   bool
		final  EnvironmentState
	}{
		"open":            {state: SessionOpen, final: EnvironmentReady},
		"ended, kept":     {state: SessionEnded, final: EnvironmentReleased},
		"ended, removed":  {state: SessionEnded, remove: true, gone: true},
		"pruned":          {state: SessionGone, gone: true},
		"nobody can tell": {state: "", final: EnvironmentReady},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newFakeWorld(t, newFakeTier(TierDocker), func(o *Options) {
					o.RemoveWorkspaces = c.remove
					o.Session = func(context.Context, string) (SessionState, error) {
						if c.state == "" {
							return "", errors.New("the ledger does not answer")
						}
						return c.state, nil
					}
				})
				w.mustRun("r1", 1)
				dir := filepath.Join(w.m.o.Dir, w.m.Environments()[0].ID)
				ctx, cancel := context.WithTimeout(t.Context(), 2*watchEvery+time.Second)
				defer cancel()
				w.m.Watch(ctx)
				_, err := os.Stat(dir)
				if errors.Is(err, os.ErrNotExist) != c.gone || w.state("r1") != c.final {
					t.Errorf("the folder: %v; it is %q", err, w.state("r1"))
				}
				if c.final == EnvironmentReleased {
					if _, err := w.invoke("r1", 2); err == nil {
						t.Error("a released environment ran something")
					}
				}
			})
		})
	}
}
