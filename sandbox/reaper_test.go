package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// abandon makes a Manager look as after a kill: its folders are as they were, and what
// it ran is a leftover.
func (w *fakeWorld) abandon() {
	w.t.Helper()
	f := w.tier
	f.mu.Lock()
	var hands []*fakeHand
	for id, h := range f.running {
		f.left = append(f.left, Leftover{Tier: f.name, ID: "left-" + id, Labels: h.spec.Labels})
		hands = append(hands, h)
	}
	f.mu.Unlock()
	records := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(w.m.o.Dir, "*", recordFile))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, file := range files {
		if records[file], err = os.ReadFile(file); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.m.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	for _, h := range hands {
		_ = h.Stop(context.Background())
	}
	for file, raw := range records {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// again is the next process over the same folder.
func (w *fakeWorld) again() *fakeWorld {
	w.t.Helper()
	o := w.m.o
	o.Redactor = nil
	n := newFakeWorld(w.t, w.tier, func(to *Options) { *to = o })
	n.catalog = w.catalog
	return n
}

// TestReaper: what dead owners of this folder left goes, and nothing else.
func TestReaper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), func(o *Options) { o.Warm = 1 })
		w.m.fill()
		synctest.Wait()
		w.mustRun("r1", 1)
		synctest.Wait()
		w.abandon()
		n := w.again()
		foreign := Leftover{Tier: TierDocker, ID: "foreign", Labels: Labels{Host: "h-another", Owner: "o-x", Environment: "e-x"}}
		nobody := Leftover{Tier: TierDocker, ID: "nobody", Labels: Labels{Host: n.m.host, Environment: "e-y"}}
		n.tier.left = append(n.tier.left, foreign, nobody)
		strange := filepath.Join(n.m.o.Dir, "not-an-environment")
		if err := os.Mkdir(strange, 0o700); err != nil {
			t.Fatal(err)
		}
		n.mustRun("r2", 1) // while nothing was reaped yet
		if err := n.m.Reap(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.tier.mu.Lock()
		left := n.tier.left
		n.tier.mu.Unlock()
		if len(left) != 2 || left[0].ID != "foreign" || left[1].ID != "nobody" {
			t.Errorf("left are %+v", left)
		}
		if _, err := os.Stat(strange); err != nil {
			t.Error(err)
		}
		var sessions []string
		for _, e := range n.m.Environments() {
			sessions = append(sessions, e.Session)
		}
		if got := strings.Join(sessions, ","); got != "r1,r2" && got != "r2,r1" {
			t.Errorf("environments of %q are there", got)
		}
		n.mustRun("r1", 2)
	})
}

// TestReaperAsksAgain: an engine that is down now is asked later, and until then
// nothing is concluded.
func TestReaperAsksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), func(o *Options) { o.Warm = 1 })
		w.m.fill()
		synctest.Wait()
		w.abandon()
		n := w.again()
		n.tier.down = errors.New("no socket")
		if err := n.m.Reap(t.Context()); err == nil || len(n.m.Environments()) != 1 {
			t.Errorf("Reap: %v, with %d folders left", err, len(n.m.Environments()))
		}
		n.tier.mu.Lock()
		n.tier.down = nil
		n.tier.mu.Unlock()
		if err := n.m.Reap(t.Context()); err != nil || len(n.m.Environments()) != 0 || len(n.tier.left) != 0 {
			t.Errorf("Reap: %v, with %d folders and %d containers left", err, len(n.m.Environments()), len(n.tier.left))
		}
	})
}

// TestLeftoverIsClearedBeforeAStart: two boundaries of one Environment would share a
// workspace.
func TestLeftoverIsClearedBeforeAStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), nil)
		w.mustRun("r1", 1)
		w.abandon()
		n := w.again()
		n.mustRun("r1", 2)
		if len(n.tier.left) != 0 || len(n.tier.removed) != 1 {
			t.Errorf("left %v, removed %v", n.tier.left, n.tier.removed)
		}
	})
}

// TestCopiedFolderIsAnotherHost: it must not remove what the first one runs.
func TestCopiedFolderIsAnotherHost(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	id, err := openIdentity(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := openIdentity(first); err != nil || again != id {
		t.Errorf("opened again it is %q, %v", again, err)
	}
	if err := os.CopyFS(second, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	if copied, err := openIdentity(second); err != nil || copied == id || copied == "" {
		t.Errorf("the copy is %q, %v", copied, err)
	}
	if err := os.Rename(first, first+"-moved"); err != nil {
		t.Fatal(err)
	}
	if moved, err := openIdentity(first + "-moved"); err != nil || moved != id {
		t.Errorf("moved, it is %q, %v", moved, err)
	}
	if err := os.WriteFile(filepath.Join(second, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openIdentity(second); err == nil || !strings.Contains(err.Error(), identityFile) {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestRecall: after a kill the ledger says how a call ended, before and after the
// reaper has been there.
func TestRecall(t *testing.T) {
	const value = "correct-horse-battery"
	for name, c := range map[string]struct {
		record func(l *Ledger, p CallParams) error
		reap   bool
		change func(t *testing.T, w *fakeWorld)
		known  bool
		lower  bool // it ran in a fallback
		text   string
		fails  bool
	}{
		"nothing":             {},
		"begun":               {record: func(l *Ledger, p CallParams) error { return l.Begin(p.Operation(), 1) }},
		"ended":               {record: finished("it said " + value), known: true, text: "it said [redacted:TOKEN]"},
		"ended in a fallback": {record: finished("ok"), lower: true, known: true, text: "ok"},
		"ended, and reaped":   {record: finished("ok"), reap: true, known: true, text: "ok"},
		"a secret that cannot be read": {record: finished("ok"), fails: true, change: func(t *testing.T, w *fakeWorld) {
			w.catalog = fakeTool(t, func(p *plugins.Plugin) {
				p.Manifest.Capabilities.Secrets, p.Effective.Secrets = []string{"TOKEN"}, []string{"TOKEN"}
			})
		}},
		"damaged": {record: finished("ok"), change: func(t *testing.T, w *fakeWorld) {
			file := filepath.Join(w.m.o.Dir, w.m.Environments()[0].ID, stateFolder, LedgerFile)
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			end := len(bytes.TrimRight(raw, "\x00")) // what follows is room for more
			raw[end-50] ^= 1
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier := newFakeTier(TierDocker)
				tier.call = func(_ context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
					l, err := h.records()
					if err == nil && c.record != nil {
						err = c.record(l, p)
					}
					if err != nil {
						t.Error(err)
					}
					return &batch.Output{CallID: p.ID}, l.Close()
				}
				want := batch.Output{Tier: TierDocker}
				if c.lower {
					tier.name = TierLocal
					want = batch.Output{Tier: TierLocal, Fallback: "sandbox: missing program: there is no docker"}
				}
				w := newFakeWorld(t, tier, func(o *Options) {
					if c.lower {
						o.Tier, o.TierError, o.Fallback = nil, errors.New("there is no docker"), tier
					}
				})
				w.catalog = fakeTool(t, func(p *plugins.Plugin) {
					p.Manifest.Capabilities.Secrets, p.Effective.Secrets = []string{"TOKEN"}, []string{"TOKEN"}
					p.Secrets = map[string]plugins.SecretSource{"TOKEN": fixedSecret(value)}
				})
				w.mustRun("r1", 1)
				w.abandon()
				n := w.again()
				if c.change != nil {
					c.change(t, n)
				}
				if c.reap {
					if err := n.m.Reap(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				r := n.x.(batch.Recaller)
				out, known, err := r.Recall(t.Context(), n.request("r1", 1))
				if known != c.known || (err != nil) != c.fails {
					t.Fatalf("%+v, %t, %v", out, known, err)
				}
				if known && (out.Text() != c.text || out.Tier != want.Tier || out.Fallback != want.Fallback) {
					t.Errorf("the record says %q of tier %q, fallback %q", out.Text(), out.Tier, out.Fallback)
				}
				if len(tier.left) != 0 && !c.fails {
					t.Errorf("what may still run it is there: %+v", tier.left)
				}
				if _, known, err := r.Recall(t.Context(), n.request("r2", 1)); known || err != nil {
					t.Errorf("a run that never ran: %t, %v", known, err)
				}
			})
		})
	}
}

func finished(text string) func(l *Ledger, p CallParams) error {
	return func(l *Ledger, p CallParams) error {
		return errors.Join(l.Begin(p.Operation(), 1), l.Finish(LedgerRecord{
			Operation: p.Operation(), Attempt: 1, Output: &batch.Output{CallID: p.ID, Content: []batch.ContentBlock{batch.TextBlock(text)}},
		}), l.Sync())
	}
}

// TestTakenWhileKilled: a warm Environment is its session's from the moment that
// anything can run in it, whichever file says so.
func TestTakenWhileKilled(t *testing.T) {
	dir := t.TempDir()
	e := &Environment{id: randomID("e"), dir: filepath.Join(dir, "x")}
	e.dir = filepath.Join(dir, e.id)
	if err := errors.Join(os.Mkdir(e.dir, 0o700), e.blankSession(), e.write(record{Key: make([]byte, ledgerKeyBytes)})); err != nil {
		t.Fatal(err)
	}
	if got, err := readEnvironment(e.dir); err != nil || got.rec.Session != "" {
		t.Errorf("before it is taken: %+v, %v", got, err)
	}
	if err := e.assign("r1"); err != nil {
		t.Fatal(err)
	}
	if got, err := readEnvironment(e.dir); err != nil || got.rec.Session != "r1" {
		t.Errorf("after: %+v, %v", got, err)
	}
	if err := e.assign(strings.Repeat("r", sessionBytes+1)); err == nil {
		t.Error("a name that does not fit was written")
	}
}
