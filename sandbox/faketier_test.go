package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
)

// fakeTier is a tier on command: its Hands are goroutines that speak the real channel,
// and its engine is a map. What it does wrong is scripted.
type fakeTier struct {
	name     string
	carry    bool
	startErr func(n int) error // nil: none; n from 1
	holds    Properties
	call     func(ctx context.Context, h *fakeHand, p CallParams, body CallBody) (*batch.Output, error)
	get      func(s *Stream) error // answers MethodGet
	say      func(s *Stream) error // during a call
	down     error                 // of Leftovers
	// odd answers what it likes in the place of a Hand.
	odd func(h *fakeHand, s *Stream) (done bool, err error)

	oomKills func() (uint64, error) // nil: not known

	mu      sync.Mutex
	starts  int
	running map[string]*fakeHand // by environment id
	left    []Leftover           // of dead owners
	removed []string
	specs   []Spec
}

func newFakeTier(name string) *fakeTier {
	return &fakeTier{name: name, running: map[string]*fakeHand{}, holds: Properties{}}
}

func (f *fakeTier) Name() string                { return f.name }
func (f *fakeTier) Check(context.Context) error { return nil }
func (f *fakeTier) Carries() bool               { return f.carry }

func (f *fakeTier) Start(_ context.Context, spec *Spec) (Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	if f.startErr != nil {
		if err := f.startErr(f.starts); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(spec.Workspace), recordFile)); err != nil {
		return nil, fmt.Errorf("nobody would know of it: %w", err)
	}
	if f.running[spec.ID] != nil {
		return nil, errors.New("its name is taken")
	}
	f.specs = append(f.specs, *spec)
	return f.hand(spec.ID, spec), nil
}

// hand starts a Hand; f.mu is held.
func (f *fakeTier) hand(id string, spec *Spec) *fakeHand {
	host, inside := net.Pipe()
	h := &fakeHand{tier: f, spec: *spec, rw: host, done: make(chan struct{}), up: make(chan struct{}), known: map[string]bool{}}
	f.running[id] = h
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.wg.Go(func() {
		ch, hello, err := Accept(h.ctx, inside, Welcome{Hand: "fake"}, ChannelOptions{Serve: h.serve})
		if err != nil {
			h.end(&EndedError{Tier: f.name, Reason: ReasonExited, What: err.Error()})
			return
		}
		h.mu.Lock()
		h.ch, h.hello = ch, hello
		h.mu.Unlock()
		close(h.up)
		<-ch.Done()
		h.end(&EndedError{Tier: f.name, Reason: ReasonExited, What: "its input was closed"})
	})
	return h
}

func (f *fakeTier) Leftovers(_ context.Context, host string) ([]Leftover, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return nil, f.down
	}
	list := append([]Leftover(nil), f.left...)
	for id, h := range f.running {
		list = append(list, Leftover{Tier: f.name, ID: "run-" + id, Labels: h.spec.Labels})
	}
	return list, nil
}

func (f *fakeTier) Remove(ctx context.Context, l Leftover) error {
	f.mu.Lock()
	f.removed = append(f.removed, l.ID)
	for i, have := range f.left {
		if have.ID == l.ID {
			f.left = append(f.left[:i:i], f.left[i+1:]...)
			break
		}
	}
	h := f.running[l.Labels.Environment]
	f.mu.Unlock()
	if h != nil && l.ID == "run-"+l.Labels.Environment {
		return h.Stop(ctx)
	}
	return nil
}

func (f *fakeTier) count() (starts, running int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts, len(f.running)
}

func (f *fakeTier) one(t *testing.T) *fakeHand {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.running {
		return h
	}
	t.Fatal("no Hand runs")
	return nil
}

type fakeHand struct {
	tier   *fakeTier
	spec   Spec
	rw     io.ReadWriteCloser
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	done   chan struct{}
	up     chan struct{} // closed when ch and hello are set
	once   sync.Once

	mu     sync.Mutex
	ch     *Channel
	hello  Hello
	ended  error
	known  map[string]bool
	ledger *Ledger
	calls  int
}

// channel is the Hand's end; requests may come before Accept has returned it.
func (h *fakeHand) channel() *Channel {
	<-h.up
	return h.ch
}

func (h *fakeHand) Channel() io.ReadWriteCloser { return h.rw }
func (h *fakeHand) Done() <-chan struct{}       { return h.done }

func (h *fakeHand) OOMKills() (uint64, error) {
	if h.tier.oomKills == nil {
		return 0, errors.New("the sandbox has no cgroup")
	}
	return h.tier.oomKills()
}

func (h *fakeHand) Ended(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

func (h *fakeHand) Inspect(context.Context) (*Effective, error) {
	return &Effective{Tier: h.tier.name, ID: "run-" + h.spec.ID, Properties: h.tier.holds}, nil
}

func (h *fakeHand) end(err error) {
	h.once.Do(func() {
		h.mu.Lock()
		h.ended = err
		ch := h.ch
		h.mu.Unlock()
		close(h.done)
		h.cancel()
		if ch != nil {
			_ = ch.Close()
		}
	})
}

func (h *fakeHand) Stop(context.Context) error {
	h.end(&EndedError{Tier: h.tier.name, Reason: ReasonKilled, What: "it was stopped"})
	h.wg.Wait()
	h.mu.Lock()
	ch := h.ch
	h.mu.Unlock()
	if ch != nil {
		ch.Wait() // for calls, which take the lock
	}
	h.tier.mu.Lock()
	defer h.tier.mu.Unlock()
	if h.tier.running[h.spec.ID] == h {
		delete(h.tier.running, h.spec.ID)
	}
	return nil
}

// die ends the boundary as the kernel would.
func (h *fakeHand) die(reason Reason) {
	h.end(&EndedError{Tier: h.tier.name, Reason: reason, What: "it died"})
}

// records opens the ledger that the host will read.
func (h *fakeHand) records() (*Ledger, error) {
	<-h.up
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ledger == nil {
		l, err := OpenLedger(h.spec.State, h.hello.Key)
		if err != nil {
			return nil, err
		}
		h.ledger = l
	}
	return h.ledger, nil
}

func (h *fakeHand) serve(ctx context.Context, s *Stream) error {
	if h.tier.odd != nil {
		if done, err := h.tier.odd(h, s); done || err != nil {
			return err
		}
	}
	switch s.Method() {
	case MethodPlugin:
		var img PluginImage
		if err := ReadJSON(s, 1<<20, &img); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		need := !h.known[img.Key]
		h.known[img.Key] = true
		return s.End(PluginKnown{NeedModule: need})
	case MethodModule:
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{s}); err != nil {
			return err
		}
		return s.End(nil)
	case MethodProbe:
		return s.End(Properties{})
	case MethodCall:
		return h.run(ctx, s)
	case MethodLedger:
		var q LedgerQuery
		if err := s.Params(&q); err != nil {
			return err
		}
		l, err := h.records()
		if err != nil {
			return err
		}
		rec, err := l.Lookup(q.Operation)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(s).Encode(rec); err != nil {
			return err
		}
		return s.End(nil)
	case MethodSeed, MethodHarvest:
		return h.carry(s)
	case MethodGet:
		return h.tier.get(s)
	}
	return &RemoteError{Kind: RemoteRefused, Msg: s.Method()}
}

// inside is where a carrying tier keeps a folder.
func (h *fakeHand) inside(target string) (*os.Root, error) {
	dir := filepath.Join(filepath.Dir(h.spec.Workspace), "inside", filepath.Base(target))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

func (h *fakeHand) carry(s *Stream) error {
	var p FileParams
	if err := s.Params(&p); err != nil {
		return err
	}
	root, err := h.inside(p.Path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if s.Method() == MethodSeed {
		if err := UnpackTree(struct{ io.Reader }{s}, root, TreeBounds{}); err != nil {
			return err
		}
	} else if _, err := PackTree(s, root); err != nil {
		return err
	}
	return s.End(nil)
}

func (h *fakeHand) run(ctx context.Context, s *Stream) error {
	var p CallParams
	if err := s.Params(&p); err != nil {
		return err
	}
	var body CallBody
	if err := ReadJSON(s, 1<<20, &body); err != nil {
		return err
	}
	h.mu.Lock()
	h.calls++
	h.mu.Unlock()
	if h.tier.say != nil {
		if err := h.tier.say(s); err != nil {
			return err
		}
	}
	out := &batch.Output{CallID: p.ID, Content: []batch.ContentBlock{batch.TextBlock("ran " + string(body.Arguments))}}
	if h.tier.call != nil {
		var err error
		if out, err = h.tier.call(ctx, h, p, body); err != nil {
			return err
		}
	}
	raw, err := EncodeOutput(out)
	if err != nil {
		return err
	}
	if _, err := s.Write(raw); err != nil {
		return err
	}
	return s.End(nil)
}

// fakeTool is a catalog with one tool of a sandbox, as far as this side of the channel
// looks at it.
func fakeTool(t *testing.T, change func(*plugins.Plugin)) *plugins.Snapshot {
	t.Helper()
	code := []byte("\x00asm\x01\x00\x00\x00")
	p := &plugins.Plugin{
		Manifest: &plugins.Manifest{
			ID: "p", Version: "1.0.0", Module: plugins.Module{Path: "p.wasm", SHA256: digest(code), ABI: plugins.ABIExtism},
			Tools: []plugins.ToolSpec{{ID: "t", Export: "t", Target: batch.TargetSandbox, Encoding: plugins.Encoding{Input: "json", Output: "text"}}},
		},
		Digest: "d1", Module: code, Effective: plugins.Capabilities{MemoryMiB: 16, Timeout: 5e9}, OutputMiB: 1,
	}
	if change != nil {
		change(p)
	}
	snapshot, err := plugins.NewSnapshot([]*plugins.Plugin{p})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

type fakeWorld struct {
	t       *testing.T
	tier    *fakeTier
	m       *Manager
	x       batch.Executor
	catalog *plugins.Snapshot
}

func newFakeWorld(t *testing.T, tier *fakeTier, change func(*Options)) *fakeWorld {
	t.Helper()
	o := Options{Dir: t.TempDir(), Tier: tier, Hand: "/hand"}
	if change != nil {
		change(&o)
	}
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &fakeWorld{t: t, tier: tier, m: m, catalog: fakeTool(t, nil)}
	w.x = m.Executor(func() *plugins.Snapshot { return w.catalog })
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return w
}

func (w *fakeWorld) request(run string, step int) *batch.Call {
	return &batch.Call{Run: batch.RunID(run), Step: step, ID: "c1", Tool: "p__t", Arguments: []byte(`{}`), Attempt: 1, ToolDigest: "d1"}
}

func (w *fakeWorld) invoke(run string, step int) (*batch.Output, error) {
	return w.x.Invoke(w.t.Context(), w.request(run, step))
}

func (w *fakeWorld) mustRun(run string, step int) *batch.Output {
	w.t.Helper()
	out, err := w.invoke(run, step)
	if err != nil || out.IsError {
		w.t.Fatalf("%s/%d: %+v, %v", run, step, out, err)
	}
	return out
}

func wantKind(t *testing.T, err error, kind batch.ToolErrorKind) {
	t.Helper()
	var te *batch.ToolError
	if !errors.As(err, &te) || te.Kind != kind {
		t.Errorf("got %v, want a failure of kind %s", err, kind)
	}
}
