package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// watchEvery is how often Watch looks after what calls do not.
const watchEvery = time.Minute

// Watch reaps, releases what sessions have left, and keeps the pool full, until ctx
// ends. It begins with all of that at once, so it is started after recovery has asked
// for what dead owners recorded.
func (m *Manager) Watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	// A command that makes one call has ended before; it compiles what it needs.
	ahead := time.AfterFunc(aheadAfter, m.makeAhead)
	defer ahead.Stop()
	for {
		if err := m.Reap(ctx); err != nil && ctx.Err() == nil {
			m.o.Logger.Warn("not all that earlier processes left could be removed; it is tried again", "again_in", watchEvery, "error", err)
		}
		m.releaseEnded(ctx)
		m.fill()
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// aheadAfter is how long a host has been there before it compiles what no call has
// asked for yet.
const aheadAfter = 2 * time.Second

// Reap removes what this folder's earlier owners left: boundaries, and folders of warm
// Environments. That they are dead is proven by this process, which holds the folder.
// Environments of sessions keep their folders, and are this process's from now on; a
// workspace that is inside of a boundary is carried out first. Nothing of another
// folder's is touched. The error joins what could not be removed, or not be asked.
func (m *Manager) Reap(ctx context.Context) error {
	m.reaping.Lock()
	defer m.reaping.Unlock()
	var errs []error
	unsure := map[string]bool{} // tiers that did not answer, or still have something
	for name, t := range m.o.tiers() {
		left, err := t.Leftovers(ctx, m.host)
		if err != nil {
			unsure[name] = true
			if m.ranIn(name) {
				errs = append(errs, fmt.Errorf("leftovers of tier %s: %w", name, err))
			}
			continue
		}
		for _, l := range left {
			if err := m.reap(ctx, t, l); err != nil {
				unsure[name] = true
				errs = append(errs, err)
			}
		}
	}
	m.dropUnowned(func(e *Environment) bool { return !unsure[e.rec.Tier] })
	return errors.Join(errs...)
}

// ranIn reports whether an Environment was last started in a tier, and not stopped.
func (m *Manager) ranIn(tier string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.all {
		if e.rec.Tier == tier && e.rec.Owner != "" {
			return true
		}
	}
	return false
}

// reap removes one leftover, unless it is of an Instance that this process runs.
func (m *Manager) reap(ctx context.Context, t Tier, l Leftover) error {
	if l.Labels.Host != m.host || l.Labels.Owner == "" {
		return nil
	}
	m.mu.Lock()
	e := m.all[l.Labels.Environment]
	if e != nil {
		was := e.state
		switch was {
		case EnvironmentStarting, EnvironmentReady, EnvironmentStopping:
			m.mu.Unlock()
			return nil // a start has cleared what was there
		default:
		}
		e.state = EnvironmentStopping // nobody starts it meanwhile
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			e.state = was
			m.wake()
		}()
	}
	m.mu.Unlock()
	return m.removeLeftover(ctx, t, e, l)
}

// removeLeftover carries out the workspace where it is inside, and removes l. e may be
// nil.
func (m *Manager) removeLeftover(ctx context.Context, t Tier, e *Environment, l Leftover) error {
	if a, is := t.(Attacher); is && carries(t) && e != nil && m.recordNow(e).Session != "" && l.Labels.Owner != m.owner {
		if err := m.attach(ctx, e, a, l, nil); err != nil {
			m.o.Logger.Error("a workspace was lost with its sandbox: it stays as it was when it was last carried out", "environment", e.id, "tier", t.Name(), "error", err)
		}
	}
	if err := t.Remove(ctx, l); err != nil {
		return fmt.Errorf("removing %s of tier %s: %w", l.ID, t.Name(), err)
	}
	m.o.Logger.Info("removed what an earlier process left", "tier", t.Name(), "instance", l.ID, "environment", l.Labels.Environment, "owner", l.Labels.Owner)
	return nil
}

// clear removes what an earlier owner, or a stop that failed, left of one Environment,
// before it is started again or its ledger is read.
func (m *Manager) clear(ctx context.Context, e *Environment, was record) error {
	t := m.o.tiers()[was.Tier]
	if t == nil {
		m.o.Logger.Warn("an environment ran in a tier that is not configured any more; what it left there is not looked for", "environment", e.id, "tier", was.Tier)
		return nil
	}
	left, err := t.Leftovers(ctx, m.host)
	if err != nil {
		return err
	}
	for _, l := range left {
		if l.Labels.Host != m.host || l.Labels.Environment != e.id {
			continue
		}
		if err := m.removeLeftover(ctx, t, e, l); err != nil {
			return &UnavailableError{Tier: was.Tier, Reason: ReasonStart, What: "what is left of its last start cannot be removed: " + err.Error(), Err: err, Transient: true}
		}
	}
	return nil
}

// releaseEnded releases the Environments of sessions that have ended, and removes the
// folders of those that are gone.
func (m *Manager) releaseEnded(ctx context.Context) {
	if m.o.Session == nil {
		return
	}
	m.mu.Lock()
	owned := map[string]*Environment{}
	for session, e := range m.sessions {
		if e.calls == 0 {
			owned[session] = e
		}
	}
	m.mu.Unlock()
	for session, e := range owned {
		state, err := m.o.Session(ctx, session)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				m.o.Logger.Warn("it is not known whether a session still needs its environment, so it is kept", "environment", e.id, "session", session, "error", err)
			}
			continue
		case state == SessionEnded && (m.released(e) && !m.o.RemoveWorkspaces), state != SessionEnded && state != SessionGone:
			continue
		}
		if err := m.release(ctx, e, state == SessionGone || m.o.RemoveWorkspaces); err != nil && ctx.Err() == nil {
			m.o.Logger.Error("an environment could not be released; it is tried again", "environment", e.id, "error", err)
		}
	}
}

// recordNow is what is known of e at this moment.
func (m *Manager) recordNow(e *Environment) record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.rec
}

func (m *Manager) released(e *Environment) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.state == EnvironmentReleased
}
