package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/awaken-agents/awaken-host/batch"
)

// attachable is a tier like a cluster's: workspace and ledger are inside, and stay when
// the host dies.
type attachable struct {
	*fakeTier
	attached int
}

func (a *attachable) Attach(_ context.Context, l Leftover) (Instance, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attached++
	for _, s := range a.specs {
		if s.ID == l.Labels.Environment {
			host, inside := net.Pipe()
			h := &fakeHand{tier: a.fakeTier, spec: s, rw: host, done: make(chan struct{}), up: make(chan struct{}), known: map[string]bool{}}
			h.ctx, h.cancel = context.WithCancel(context.Background())
			h.wg.Go(func() {
				ch, hello, err := Accept(h.ctx, inside, Welcome{}, ChannelOptions{Serve: h.serve})
				if err == nil {
					h.mu.Lock()
					h.ch, h.hello = ch, hello
					h.mu.Unlock()
					close(h.up)
					<-ch.Done()
				}
				h.end(&EndedError{Tier: a.name, Reason: ReasonExited})
			})
			return h, nil
		}
	}
	return nil, errors.New("there is no such Pod")
}

// TestWhatIsInsideIsFetched: where workspace and ledger are inside of a boundary whose
// host died, both are fetched before it is removed.
func TestWhatIsInsideIsFetched(t *testing.T) {
	for name, recallFirst := range map[string]bool{"recalled, then reaped": true, "reaped at once": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier := newFakeTier(TierKube)
				tier.carry = true
				tier.call = func(_ context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
					l, err := h.records()
					if err == nil {
						err = errors.Join(finished("from inside")(l, p), l.Close())
					}
					root, rerr := h.inside(WorkspaceDir)
					if err = errors.Join(err, rerr); err == nil {
						err = errors.Join(root.WriteFile("made", []byte("x"), 0o600), root.Close())
					}
					return &batch.Output{CallID: p.ID}, err
				}
				a := &attachable{fakeTier: tier}
				w := newFakeWorld(t, tier, func(o *Options) { o.Tier = a })
				w.mustRun("r1", 1)
				e := w.m.Environments()[0]
				made := filepath.Join(w.m.o.Dir, e.ID, workspaceFolder, "made")
				w.abandon()
				if err := os.RemoveAll(made); err != nil { // it was only carried out because Close is what abandon uses
					t.Fatal(err)
				}
				synctest.Wait()
				n := w.again()
				if recallFirst {
					out, known, err := n.x.(batch.Recaller).Recall(t.Context(), n.request("r1", 1))
					if err != nil || !known || out.Text() != "from inside" || out.Tier != TierKube {
						t.Fatalf("%+v, %t, %v", out, known, err)
					}
				}
				if err := n.m.Reap(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(made); err != nil {
					t.Errorf("the workspace was not carried out: %v", err)
				}
				if len(tier.left) != 0 || a.attached == 0 {
					t.Errorf("left %v after %d attached", tier.left, a.attached)
				}
			})
		})
	}
}
