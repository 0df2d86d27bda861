package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// Setup is a tier as its tests set it up.
type Setup struct {
	Tier sandbox.Tier
	// Spec is a template: network, limits, mounts, environment. What names an Instance,
	// its Hand and its folders are filled in for each.
	Spec sandbox.Spec
	// Enforced are the properties that must be found enforced here, and no others.
	Enforced []sandbox.Property
}

// patience bounds what a test waits for on a machine that is busy.
const patience = 60 * time.Second

// secret is what the host gives to whoever asks for API_TOKEN.
const secret = "canary-of-a-secret-2f60b1d9" //nolint:gosec // of nothing

// boundary is one running Instance with the host's end of its channel.
type boundary struct {
	t       testing.TB
	setup   Setup
	spec    *sandbox.Spec
	nonce   string // in the environment of its Hand
	inst    sandbox.Instance
	ch      *sandbox.Channel
	welcome sandbox.Welcome

	calls atomic.Int64
	mu    sync.Mutex
	known map[string]bool // plugins, by the key of their image
}

// newNonce is fit for ids and command lines.
func newNonce() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return "n" + hex.EncodeToString(b)
}

// spec makes what is particular to one Instance. host is the label of its host.
func (s Setup) spec(t testing.TB, host string) (*sandbox.Spec, string) {
	t.Helper()
	nonce := newNonce()
	spec := s.Spec
	spec.ID = "suite-" + nonce
	spec.Labels = sandbox.Labels{Host: host, Owner: "owner-" + nonce, Environment: spec.ID, Session: "session-" + nonce}
	spec.Hand = Hand(t)
	dir := t.TempDir()
	spec.Workspace, spec.State = filepath.Join(dir, "workspace"), filepath.Join(dir, "state")
	uid, gid, owned := os.Getuid(), os.Getgid(), false
	if u, ok := s.Tier.(sandbox.HandUser); ok {
		uid, gid, owned = u.HandUser()
	}
	for _, name := range []string{spec.Workspace, spec.State} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if owned && os.Getuid() == 0 {
			if err := os.Chown(name, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	spec.Env = append(spec.Env[:len(spec.Env):len(spec.Env)], nonceVariable+"="+nonce)
	return &spec, nonce
}

const nonceVariable = "AWAKEN_SANDBOXTEST"

// open starts an Instance and greets its Hand. It is stopped with the test.
func (s Setup) open(t testing.TB) *boundary {
	t.Helper()
	return s.openFor(t, "host-"+newNonce())
}

func (s Setup) openFor(t testing.TB, host string) *boundary {
	t.Helper()
	b := s.start(t, host)
	b.greet()
	return b
}

// start is open without the greeting.
func (s Setup) start(t testing.TB, host string) *boundary {
	t.Helper()
	spec, nonce := s.spec(t, host)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	inst, err := s.Tier.Start(ctx, spec)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	b := &boundary{t: t, setup: s, spec: spec, nonce: nonce, inst: inst, known: map[string]bool{}}
	t.Cleanup(b.stop)
	return b
}

func (b *boundary) greet() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	ch, welcome, err := sandbox.Dial(ctx, b.inst.Channel(), b.hello(), sandbox.ChannelOptions{Serve: b.serve})
	if err != nil {
		b.t.Fatalf("greeting the Hand: %v; %v", err, b.inst.Ended(ctx))
	}
	b.ch, b.welcome = ch, welcome
}

func (b *boundary) hello() sandbox.Hello {
	h := sandbox.Hello{
		Environment: b.spec.ID, Key: bytes.Repeat([]byte{7}, 32), Network: b.spec.Network, Limits: b.spec.Limits.WithDefaults(),
		Mounts: map[string]bool{},
	}
	for _, m := range b.spec.Mounts {
		h.Mounts[m.Target] = m.Writable
	}
	if p, ok := b.inst.(sandbox.Placer); ok {
		h.Places = p.Places()
	}
	return h
}

// stop ends the Instance, and finds what it left.
func (b *boundary) stop() {
	b.t.Helper()
	if b.ch != nil {
		_ = b.ch.Close() // it may be broken already
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.inst.Stop(ctx); err != nil {
		b.t.Errorf("Stop: %v", err)
	}
	if left := runningWith(b.t, b.nonce); len(left) > 0 {
		b.t.Errorf("after Stop these processes of the boundary run: %v", left)
	}
}

// serve answers what the Hand asks the host.
func (b *boundary) serve(_ context.Context, s *sandbox.Stream) error {
	var p sandbox.SecretParams
	if c, is := b.inst.(sandbox.OOMCounter); is && s.Method() == sandbox.MethodOOMKills {
		n, err := c.OOMKills()
		if err != nil {
			return err
		}
		return s.End(sandbox.OOMCount{Kills: n})
	}
	if s.Method() != sandbox.MethodSecret {
		return &sandbox.RemoteError{Kind: sandbox.RemoteRefused, Msg: "the test serves no such thing"}
	}
	if err := s.Params(&p); err != nil {
		return err
	}
	if p.Name != "API_TOKEN" {
		return &sandbox.RemoteError{Kind: sandbox.RemoteRefused, Msg: "the secret is not given"}
	}
	if _, err := io.WriteString(s, secret); err != nil {
		return err
	}
	return s.End(nil)
}

// ask makes a request without bodies.
func (b *boundary) ask(ctx context.Context, method string, params, result any) error {
	s, err := b.ch.Open(ctx, method, params)
	if err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	return s.Result(result)
}

// properties are what is known from inside and from outside.
func (b *boundary) properties() sandbox.Properties {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	effective, err := b.inst.Inspect(ctx)
	if err != nil {
		b.t.Fatalf("Inspect: %v", err)
	}
	if effective.Tier != b.setup.Tier.Name() || effective.ID == "" {
		b.t.Errorf("Inspect says tier %q and id %q", effective.Tier, effective.ID)
	}
	inside := sandbox.Properties{}
	if err := b.ask(ctx, sandbox.MethodProbe, struct{}{}, &inside); err != nil {
		b.t.Fatalf("probing: %v", err)
	}
	return effective.Properties.Merge(inside)
}

// ledger asks what became of an operation.
func (b *boundary) ledger(op batch.OperationID) sandbox.LedgerRecord {
	b.t.Helper()
	return readLedger(b.t, b.ch, op)
}

func readLedger(t testing.TB, ch *sandbox.Channel, op batch.OperationID) (r sandbox.LedgerRecord) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := ch.Open(ctx, sandbox.MethodLedger, sandbox.LedgerQuery{Operation: op})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := sandbox.ReadJSON(s, 16<<20, &r); err != nil {
		t.Fatalf("the ledger on %s: %v", op, err)
	}
	if err := s.Result(nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// waitDone waits for the boundary to have ended, and returns why.
func (b *boundary) waitDone() error {
	b.t.Helper()
	select {
	case <-b.inst.Done():
	case <-time.After(patience):
		b.t.Fatal("the boundary has not ended")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return b.inst.Ended(ctx)
}

// eventually waits for f to be true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}
