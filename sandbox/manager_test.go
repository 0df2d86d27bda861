package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// bubble runs a test with virtual time and its own folder.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func (w *fakeWorld) state(session string) EnvironmentState {
	for _, e := range w.m.Environments() {
		if e.Session == session {
			return e.State
		}
	}
	return ""
}

func TestSessionKeepsItsEnvironment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), nil)
		out := w.mustRun("r1", 1)
		if out.Tier != TierDocker {
			t.Errorf("the result says tier %q", out.Tier)
		}
		w.mustRun("r1", 2)
		w.mustRun("r2", 1)
		if starts, running := w.tier.count(); starts != 2 || running != 2 {
			t.Errorf("%d starts and %d running for two sessions", starts, running)
		}
	})
}

func TestIdleEnvironmentHibernates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), nil)
		w.mustRun("r1", 1)
		id := w.m.Environments()[0].ID
		if err := os.WriteFile(filepath.Join(w.m.o.Dir, id, workspaceFolder, "kept"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultIdle - time.Second)
		synctest.Wait()
		if s := w.state("r1"); s != EnvironmentReady {
			t.Fatalf("it is %s before its time", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, running := w.tier.count(); w.state("r1") != EnvironmentHibernated || running != 0 {
			t.Fatalf("it is %s, %d run", w.state("r1"), running)
		}
		w.mustRun("r1", 2)
		if now := w.m.Environments(); len(now) != 1 || now[0].ID != id || now[0].Session != "r1" {
			t.Errorf("after it woke up there is %+v", now)
		}
		if _, err := os.Stat(filepath.Join(w.m.o.Dir, id, workspaceFolder, "kept")); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkspaceIsCarriedOverHibernation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tier := newFakeTier(TierKube)
		tier.carry = true
		tier.call = func(_ context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
			root, err := h.inside(WorkspaceDir)
			if err != nil {
				return nil, err
			}
			defer root.Close()
			old, _ := root.ReadFile("log")
			if err := root.WriteFile("log", append(old, 'x'), 0o600); err != nil {
				return nil, err
			}
			return &batch.Output{CallID: p.ID, Content: []batch.ContentBlock{batch.TextBlock(string(old))}}, nil
		}
		w := newFakeWorld(t, tier, nil)
		w.mustRun("r1", 1)
		e := w.m.Environments()[0]
		time.Sleep(DefaultIdle + time.Second)
		synctest.Wait()
		// The boundary is gone, and all that was inside with it.
		if err := os.RemoveAll(filepath.Join(w.m.o.Dir, e.ID, "inside")); err != nil {
			t.Fatal(err)
		}
		if out := w.mustRun("r1", 2); out.Text() != "x" {
			t.Errorf("the second call found %q", out.Text())
		}
	})
}

func TestEnvironmentsMakeRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tier := newFakeTier(TierDocker)
		hold := make(chan struct{})
		tier.call = func(ctx context.Context, _ *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
			if p.Run == "busy" {
				select {
				case <-hold:
				case <-ctx.Done():
				}
			}
			return &batch.Output{CallID: p.ID}, nil
		}
		w := newFakeWorld(t, tier, func(o *Options) { o.MaxReady = 2 })
		var wg sync.WaitGroup
		wg.Go(func() { w.mustRun("busy", 1) })
		synctest.Wait()
		w.mustRun("r1", 1)
		w.mustRun("r2", 1)
		synctest.Wait()
		if _, running := tier.count(); running != 2 || w.state("r1") != EnvironmentHibernated || w.state("busy") != EnvironmentReady {
			t.Errorf("%d run, r1 is %s and busy is %s", running, w.state("r1"), w.state("busy"))
		}
		// With nothing idle, calls of other sessions wait, as long as their caller does.
		wg.Go(func() { _, _ = w.invoke("busy", 2) })
		w.m.mu.Lock()
		w.m.o.MaxReady = 1
		w.m.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.x.Invoke(ctx, w.request("r3", 1))
		wantKind(t, err, batch.ToolErrorUnavailable)
		close(hold)
		wg.Wait()
		w.mustRun("r3", 2)
	})
}

func TestFailedStartIsNotTriedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tier := newFakeTier(TierDocker)
		var fail error = &UnavailableError{Tier: TierDocker, Reason: ReasonEngine, What: "no socket", Transient: true}
		tier.startErr = func(int) error { return fail }
		w := newFakeWorld(t, tier, nil)
		for range 5 {
			_, err := w.invoke("r1", 1)
			wantKind(t, err, batch.ToolErrorUnavailable)
		}
		if starts, _ := tier.count(); starts != 1 {
			t.Errorf("%d starts at once", starts)
		}
		time.Sleep(firstRetry + time.Millisecond)
		tier.mu.Lock()
		fail = &UnavailableError{Tier: TierDocker, Reason: ReasonImage, What: "no such image"}
		tier.mu.Unlock()
		_, err := w.invoke("r1", 1)
		wantKind(t, err, batch.ToolErrorPlacement)
		if !strings.Contains(err.Error(), "no such image") {
			t.Errorf("it does not say why: %v", err)
		}
		time.Sleep(longestRetry)
		tier.mu.Lock()
		fail = nil
		tier.mu.Unlock()
		w.mustRun("r1", 1)
	})
}

// What fails before anything is written down of it, such as on a full disk, fails the
// call, too, and is not tried over and over.
func TestFolderCannotBeMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tier := newFakeTier(TierDocker)
		w := newFakeWorld(t, tier, nil)
		w.m.mu.Lock()
		w.m.o.Dir = filepath.Join(w.m.o.Dir, "gone")
		w.m.mu.Unlock()
		_, err := w.invoke("r1", 1)
		wantKind(t, err, batch.ToolErrorPlacement)
		if !strings.Contains(err.Error(), "no such file") {
			t.Errorf("it does not say why: %v", err)
		}
		if starts, _ := tier.count(); starts != 0 {
			t.Errorf("%d starts", starts)
		}
	})
}

func TestWarmPool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFakeWorld(t, newFakeTier(TierDocker), func(o *Options) { o.Warm = 2 })
		if err := w.m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before, _ := w.tier.count()
		w.mustRun("r1", 1)
		synctest.Wait()
		var session, warm int
		for _, e := range w.m.Environments() {
			raw, err := os.ReadFile(filepath.Join(w.m.o.Dir, e.ID, recordFile))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case e.Session == "r1" && strings.Contains(string(raw), `"session": "r1"`):
				session++
			case e.Session == "":
				warm++
			}
		}
		if after, running := w.tier.count(); session != 1 || warm != 2 || running != 3 || after != before+1 {
			t.Errorf("%d of the session, %d warm, %d running, %d starts for one call", session, warm, running, after-before)
		}
		specs := map[string]bool{}
		for _, s := range w.tier.specs {
			specs[s.Workspace] = true
		}
		if len(specs) != len(w.tier.specs) {
			t.Error("two share a workspace")
		}
		time.Sleep(2 * DefaultIdle)
		synctest.Wait()
		if _, running := w.tier.count(); running != 2 {
			t.Errorf("%d run; only warm ones stay", running)
		}
	})
}

// TestHammer: many sessions, a few places, Hands that die.
func TestHammer(t *testing.T) {
	tier := newFakeTier(TierDocker)
	tier.call = func(_ context.Context, h *fakeHand, p CallParams, _ CallBody) (*batch.Output, error) {
		if p.Step%7 == 3 {
			h.die(ReasonMemory)
		}
		return &batch.Output{CallID: p.ID}, nil
	}
	w := newFakeWorld(t, tier, func(o *Options) { o.MaxReady, o.Warm, o.Idle = 4, 1, time.Millisecond })
	var wg sync.WaitGroup
	for _, run := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		wg.Go(func() {
			for step := 1; step <= 12; step++ {
				out, err := w.invoke(run, step)
				var te *batch.ToolError
				if err != nil && !errors.As(err, &te) || err == nil && out.Tier != TierDocker {
					t.Errorf("%s/%d: %+v, %v", run, step, out, err)
				}
				if step%5 == 0 && run < "c" {
					_ = w.m.Environments()
					_ = w.m.Reap(t.Context())
				}
			}
		})
	}
	wg.Wait()
	if err := w.m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, running := tier.count(); running != 0 || w.m.started != 0 {
		t.Errorf("%d run after Close, %d are counted", running, w.m.started)
	}
	for _, e := range w.m.Environments() {
		if e.Session == "" || e.Calls != 0 || e.State == EnvironmentReady {
			t.Errorf("left %+v", e)
		}
	}
}

func TestRequirements(t *testing.T) {
	enforced := Properties{PropertyNetwork: {State: Enforced, Level: string(NetworkNone)}, PropertyFilesystem: {State: Enforced}}
	for name, c := range map[string]struct {
		holds    Properties
		operator Requirements
		tool     map[string]string
		fallback bool
		tier     string // empty: a placement error
	}{
		"nothing demanded":        {tier: TierNamespace},
		"held":                    {holds: enforced, operator: Requirements{PropertyNetwork: "none"}, tool: map[string]string{"filesystem": "isolated"}, tier: TierNamespace},
		"unknown":                 {operator: Requirements{PropertyNetwork: "none"}},
		"the tool's is unmet":     {holds: enforced, tool: map[string]string{"memory": "limited"}},
		"the operator's is unmet": {holds: enforced, operator: Requirements{PropertyMemory: "limited"}},
		"unmet, and falls back":   {operator: Requirements{PropertyMemory: "limited"}, fallback: true, tier: TierLocal},
		"met, and does not":       {holds: enforced, operator: Requirements{PropertyNetwork: "none"}, fallback: true, tier: TierNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier, local := newFakeTier(TierNamespace), newFakeTier(TierLocal)
				tier.holds = c.holds
				w := newFakeWorld(t, tier, func(o *Options) {
					o.Require = c.operator
					if c.fallback {
						o.Fallback = local
					}
				})
				w.catalog = fakeTool(t, func(p *plugins.Plugin) { p.Manifest.Tools[0].Require = c.tool })
				out, err := w.invoke("r1", 1)
				if c.tier == "" {
					wantKind(t, err, batch.ToolErrorPlacement)
					if tier.one(t).calls != 0 {
						t.Error("it ran")
					}
					return
				}
				if err != nil || out.Tier != c.tier || (out.Fallback != "") != (c.tier == TierLocal) {
					t.Fatalf("%+v, %v; want tier %s", out, err, c.tier)
				}
				if _, n := local.count(); n == 1 != (c.tier == TierLocal) {
					t.Errorf("%d run in the local tier", n)
				}
			})
		})
	}
}

// TestEager: a host whose sandboxes cannot be had, or hold too little, does not start,
// and leaves nothing.
func TestEager(t *testing.T) {
	for name, c := range map[string]struct {
		start   error
		require Requirements
		holds   Properties
		want    Reason // empty: it starts
	}{
		"works":            {},
		"holds what it is": {require: Requirements{PropertyPIDs: "limited"}, holds: Properties{PropertyPIDs: {State: Enforced}}},
		"does not start":   {start: &UnavailableError{Tier: TierDocker, Reason: ReasonImage, What: "no such image"}, want: ReasonImage},
		"holds too little": {require: Requirements{PropertyPIDs: "limited"}, want: ReasonUnmet},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tier := newFakeTier(TierDocker)
				tier.startErr = func(int) error { return c.start }
				tier.holds = c.holds
				w := newFakeWorld(t, tier, func(o *Options) { o.Require = c.require })
				err := w.m.Start(t.Context())
				if (err == nil) != (c.want == "") || ReasonOf(err) != c.want {
					t.Errorf("Start: %v", err)
				}
				synctest.Wait()
				if _, running := tier.count(); running != 0 {
					t.Errorf("%d run", running)
				}
				if err := w.m.Reap(t.Context()); err != nil || len(w.m.Environments()) != 0 {
					t.Errorf("left %+v, %v", w.m.Environments(), err)
				}
			})
		})
	}
	m, err := Open(Options{Dir: t.TempDir(), TierError: errors.New("no awaken-hand here")})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err == nil || err.Error() != "no awaken-hand here" {
		t.Errorf("without a tier: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkTakeWarm is what a session waits for its Environment when one is warm: it is
// written down, on disk, whose it is.
func BenchmarkTakeWarm(b *testing.B) {
	tier := newFakeTier(TierDocker)
	m, err := Open(Options{Dir: b.TempDir(), Tier: tier, Hand: "/hand", Warm: 4, MaxReady: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	warm := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.pool.warm)
	}
	n := 0
	for b.Loop() {
		b.StopTimer()
		for m.fill(); warm() == 0; {
			time.Sleep(100 * time.Microsecond)
		}
		n++
		b.StartTimer()
		_, _, done, err := m.use(b.Context(), strconv.Itoa(n), tier, "")
		if err != nil {
			b.Fatal(err)
		}
		done()
	}
}
