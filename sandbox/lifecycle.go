package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// Waits between starts that fail, doubled after each.
const (
	firstRetry   = 200 * time.Millisecond
	longestRetry = 30 * time.Second
)

// start moves e to starting, and on from there in the background. m.mu is held.
func (m *Manager) start(e *Environment, t Tier, fallback string) {
	e.state = EnvironmentStarting
	m.started++
	m.work.Go(func() {
		h, err := m.startInstance(e, t, fallback)
		m.mu.Lock()
		defer m.mu.Unlock()
		defer m.wake()
		if err != nil {
			m.started--
			e.state, e.failure, e.failedIn = EnvironmentFailed, err, t.Name()
			e.retryAt = time.Now().Add(min(firstRetry<<min(e.failures, 10), longestRetry))
			e.failures++
			return
		}
		m.running(e, h)
	})
}

// running is the step from starting to ready. m.mu is held.
func (m *Manager) running(e *Environment, h *hand) {
	e.state, e.hand, e.failure, e.failures, e.used = EnvironmentReady, h, nil, 0, time.Now()
	m.work.Go(func() { m.record(e, h) })
	if !h.carries {
		m.work.Go(func() { m.guardState(e, h) })
	}
	m.work.Go(func() {
		select {
		case <-h.inst.Done():
		case <-h.ch.Done():
		case <-h.stopped:
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		// While calls run, the last of them does this.
		if e.state == EnvironmentReady && e.hand == h && e.calls == 0 {
			m.pool.forget(e)
			m.stop(e)
		}
	})
	if m.closed {
		m.stop(e)
		return
	}
	m.armIdle(e)
}

// startInstance writes down what is about to be started, and starts it.
func (m *Manager) startInstance(e *Environment, t Tier, fallback string) (*hand, error) {
	ctx, cancel := context.WithTimeoutCause(m.base, m.o.StartTimeout, fmt.Errorf("it took longer than %s", m.o.StartTimeout))
	defer cancel()
	watch := m.watchStart(e, t)
	defer watch.end()
	before := m.recordNow(e)
	if before.Owner != "" {
		watch.now("what an earlier process left of it to be removed")
		if err := m.clear(ctx, e, before); err != nil {
			return nil, err
		}
	}
	unavailable := func(err error) error {
		return &UnavailableError{Tier: t.Name(), Reason: ReasonStart, What: fmt.Sprintf("the folder of environment %s: %v", e.id, err), Err: err}
	}
	watch.now("its folders")
	if err := e.makeFolders(t); err != nil {
		return nil, unavailable(err)
	}
	if err := checkState(e.ledger()); err != nil {
		return nil, unavailable(err)
	}
	if before.Session == "" {
		if err := e.blankSession(); err != nil {
			return nil, unavailable(err)
		}
	}
	err := m.save(e, func(r *record) {
		r.Owner, r.Tier, r.Fallback, r.Used = m.owner, t.Name(), fallback, time.Now()
	})
	if err != nil {
		return nil, unavailable(err)
	}
	spec := m.spec(e, before.Session)
	if err := spec.PlainMounts(); err != nil {
		return nil, &UnavailableError{Tier: t.Name(), Reason: ReasonStart, What: "a mount cannot be made safely", Err: err}
	}
	if dir := m.code.folder(); dir != "" && !carries(t) {
		spec.Mounts = append(slices.Clip(spec.Mounts), Mount{Source: dir, Target: CodeDir})
	}
	return connect(ctx, t, spec, before.Key, m.newDesk(), m.o.Heartbeat, m.o.Logger, watch)
}

func (m *Manager) spec(e *Environment, session string) *Spec {
	return &Spec{
		ID: e.id, Labels: Labels{Host: m.host, Owner: m.owner, Environment: e.id, Session: session},
		Hand: m.o.Hand, Workspace: e.workspace(), State: e.ledger(), Mounts: m.mounts,
		Network: m.o.Network, Limits: m.o.Limits, Env: m.o.Env,
	}
}

func (m *Manager) newDesk() *desk {
	return &desk{
		network: m.o.Network, guard: m.o.Egress, redactor: m.o.Redactor, log: m.o.Logger,
		running: map[batch.OperationID]*running{}, sessions: map[string]*egress.Session{}, exchanges: make(chan struct{}, maxExchanges),
	}
}

// save changes what is known of e, and writes it to disk.
func (m *Manager) save(e *Environment, change func(*record)) error {
	e.saving.Lock()
	defer e.saving.Unlock()
	m.mu.Lock()
	change(&e.rec)
	r := e.rec
	m.mu.Unlock()
	return e.write(r)
}

// record reads back what is in force, for whoever looks at the Environment later.
func (m *Manager) record(e *Environment, h *hand) {
	ctx, cancel := context.WithTimeout(m.base, time.Minute)
	defer cancel()
	eff, err := h.inst.Inspect(ctx)
	if err == nil {
		err = m.save(e, func(r *record) { r.Effective = eff })
	}
	if err != nil {
		if m.base.Err() == nil && h.alive() {
			m.o.Logger.Warn("what a sandbox holds could not be read back", "environment", e.id, "tier", h.tier, "error", err)
		}
		return
	}
	m.o.Logger.Debug("a sandbox was started", "environment", e.id, "tier", h.tier, "instance", eff.ID, "image", eff.Image)
}

// stop moves a ready Environment to hibernated by way of stopping, in the background.
// m.mu is held.
func (m *Manager) stop(e *Environment) {
	h := e.hand
	e.noIdle()
	e.state = EnvironmentStopping
	m.work.Go(func() {
		if err := m.carryOut(e, h); err != nil && m.keepUp(e, h) {
			m.o.Logger.Error("a workspace cannot be carried out of its sandbox, which goes on until it can", "environment", e.id, "tier", h.tier, "error", err)
			return
		} else if err != nil {
			m.o.Logger.Error("a workspace was lost with its sandbox: it stays as it was when it was last carried out", "environment", e.id, "tier", h.tier, "error", err)
		}
		err := h.stop(context.Background())
		if err == nil {
			err = m.save(e, func(r *record) { r.Owner, r.Used = "", e.used })
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.o.Logger.Error("an environment was not put to sleep cleanly", "environment", e.id, "error", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		e.state, e.hand = EnvironmentHibernated, nil
		m.started--
		m.wake()
	})
}

// harvestTimeout bounds how long carrying a workspace may take.
const harvestTimeout = 5 * time.Minute

// carryOut brings the workspace to this machine, where the tier keeps it inside.
func (m *Manager) carryOut(e *Environment, h *hand) error {
	if !h.carries || m.recordNow(e).Session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), harvestTimeout)
	defer cancel()
	if h.alive() {
		return h.harvest(ctx, e.workspace(), m.workspaceBytes())
	}
	return m.rescue(ctx, e, h.tier, nil)
}

// keepUp makes a stopping Environment ready again, rather than lose what is inside. It
// reports false where it must stop: it is dead already, released, or the host is ending.
func (m *Manager) keepUp(e *Environment, h *hand) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || e.final || !h.alive() {
		return false
	}
	e.state, e.used = EnvironmentReady, time.Now()
	e.held = e.used.Add(m.o.Idle) // no room is made with it meanwhile
	m.armIdle(e)
	m.wake()
	return true
}

func (m *Manager) workspaceBytes() int64 { return int64(m.o.Limits.WorkspaceMiB) << 20 }

// Release ends the Environment of a session for ever: what runs in it is stopped. With
// remove, or when the operator's policy says so, its folder goes, too. A session
// without one is no error.
func (m *Manager) Release(ctx context.Context, session string, remove bool) error {
	m.mu.Lock()
	e := m.sessions[session]
	m.mu.Unlock()
	if e == nil {
		return nil
	}
	return m.release(ctx, e, remove || m.o.RemoveWorkspaces)
}

func (m *Manager) release(ctx context.Context, e *Environment, remove bool) error {
	for {
		m.mu.Lock()
		settled := false
		e.final = true
		switch e.state {
		case EnvironmentReady:
			m.stop(e)
		case EnvironmentStarting, EnvironmentStopping:
		default:
			settled = true
			e.state = EnvironmentReleased
			m.wake()
		}
		wait := m.changed
		m.mu.Unlock()
		if settled {
			break
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("releasing environment %s: %w", e.id, context.Cause(ctx))
		}
	}
	if was := m.recordNow(e); was.Owner != "" {
		if err := m.clear(ctx, e, was); err != nil {
			return fmt.Errorf("releasing environment %s: %w", e.id, err)
		}
	}
	if !remove {
		if _, err := os.Lstat(e.dir); errors.Is(err, fs.ErrNotExist) {
			return nil // it never started
		}
		return m.save(e, func(r *record) { r.Released = true })
	}
	return m.remove(e)
}

// remove removes the folder of a released Environment, and forgets it.
func (m *Manager) remove(e *Environment) error {
	e.saving.Lock()
	defer e.saving.Unlock()
	if err := RemoveTree(e.dir); err != nil {
		return fmt.Errorf("removing environment %s: %w", e.id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, e.id)
	if s := e.rec.Session; s != "" && m.sessions[s] == e {
		delete(m.sessions, s)
	}
	return nil
}
