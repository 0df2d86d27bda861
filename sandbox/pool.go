package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// pool is the warm Environments: ready, with a workspace of their own that is empty,
// and of no session yet. All of a Manager are alike, since image, mounts and limits
// are its own; they are of Options.Tier, and taken for calls in that tier alone. Its
// fields are guarded by Manager.mu.
type pool struct {
	warm     []*Environment
	filling  int
	failures int
	retryAt  time.Time
}

// take gives a warm Environment to a session, nil when there is none. It is written
// down, on disk, before anything is run in it: step waits meanwhile. m.mu is held.
func (p *pool) take(m *Manager, t Tier, session string) *Environment {
	if m.o.Tier == nil || t.Name() != m.o.Tier.Name() {
		return nil
	}
	for len(p.warm) > 0 {
		e := p.warm[0]
		p.warm = p.warm[1:]
		if e.state != EnvironmentReady {
			continue
		}
		if !e.hand.alive() {
			m.stop(e)
			continue
		}
		e.state = EnvironmentStarting
		m.sessions[session] = e
		m.work.Go(func() {
			err := e.assign(session)
			m.mu.Lock()
			defer m.mu.Unlock()
			defer m.wake()
			e.state, e.rec.Session = EnvironmentReady, session
			switch {
			case err != nil:
				// It is as good as never taken: nothing ran in it.
				m.o.Logger.Error("a warm sandbox cannot be given to a session", "environment", e.id, "error", err)
				delete(m.sessions, session)
				e.rec.Session = ""
				m.stop(e)
			case m.closed || !e.hand.alive():
				m.stop(e)
			default:
				m.armIdle(e)
				m.work.Go(func() { // not before: it writes to the same disk
					m.refile(e)
					m.fill()
				})
			}
		})
		return e
	}
	return nil
}

// sessionFile is in the folder of a warm Environment and has room for the name of a
// session: writing to it, in place, is a quarter of what a new record takes.
const (
	sessionFile  = "session"
	sessionBytes = 256 // less than what a disk writes as one
)

// blankSession makes the file, before the record that names the Environment.
func (e *Environment) blankSession() error {
	f, err := os.OpenFile(filepath.Join(e.dir, sessionFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, sessionBytes))
	return errors.Join(err, f.Sync(), f.Close())
}

// assign writes down whose a warm Environment is from now on.
func (e *Environment) assign(session string) error {
	if len(session) > sessionBytes {
		return fmt.Errorf("the name of session %.40s… is longer than %d bytes", session, sessionBytes)
	}
	f, err := os.OpenFile(filepath.Join(e.dir, sessionFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(session), 0)
	return errors.Join(err, syncData(f), f.Close())
}

// assigned is what assign wrote, empty when nothing.
func assigned(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, sessionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(bytes.TrimRight(raw, "\x00")), err
}

// refile puts the session into the record, where it stands beside the rest.
func (m *Manager) refile(e *Environment) {
	err := m.save(e, func(*record) {})
	if err == nil {
		err = os.Remove(filepath.Join(e.dir, sessionFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.o.Logger.Warn("the record of an environment could not be written again", "environment", e.id, "error", err)
	}
}

// forget takes e out of the pool; m.mu is held.
func (p *pool) forget(e *Environment) {
	for i, w := range p.warm {
		if w == e {
			p.warm = append(p.warm[:i:i], p.warm[i+1:]...)
			return
		}
	}
}

// fill starts as many Environments as the pool lacks, in the background. After one
// that fails it waits, longer each time.
func (m *Manager) fill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.closed && m.o.Tier != nil && len(m.pool.warm)+m.pool.filling < m.o.Warm &&
		m.started < m.o.MaxReady && !time.Now().Before(m.pool.retryAt) {
		e := m.newEnvironment("")
		e.state = EnvironmentStarting
		m.started++
		m.pool.filling++
		m.work.Go(func() { m.warmUp(e) })
	}
}

func (m *Manager) warmUp(e *Environment) {
	h, err := m.startInstance(e, m.o.Tier, "")
	if err == nil && len(m.o.Require) > 0 {
		// What is known already needs no time when it is taken. Whether it is enough is
		// for the call to find out.
		if _, merr := h.measure(m.base); merr != nil {
			m.o.Logger.Warn("a warm sandbox could not be measured", "error", merr)
		}
	}
	m.mu.Lock()
	m.pool.filling--
	if err == nil {
		m.running(e, h)
		if e.state == EnvironmentReady {
			m.pool.warm = append(m.pool.warm, e)
		}
		m.pool.failures, m.pool.retryAt = 0, time.Time{}
		m.wake()
		m.mu.Unlock()
		return
	}
	m.started--
	wait := min(firstRetry<<min(m.pool.failures, 10), longestRetry)
	m.pool.failures++
	m.pool.retryAt = time.Now().Add(wait)
	e.state = EnvironmentReleased
	closed := m.closed
	m.wake()
	m.mu.Unlock()
	if !closed {
		m.o.Logger.Warn("a warm sandbox could not be started", "tier", m.o.Tier.Name(), "again_in", wait, "error", err)
		time.AfterFunc(wait, m.fill)
	}
	if err := m.remove(e); err != nil {
		m.o.Logger.Error("a warm sandbox left its folder", "error", err)
	}
}

// dropUnowned removes Environments that no session owns and nothing runs in.
func (m *Manager) dropUnowned(may func(*Environment) bool) {
	m.mu.Lock()
	var drop []*Environment
	for _, e := range m.all {
		idle := e.state == EnvironmentHibernated || e.state == EnvironmentFailed || e.state == EnvironmentReserved
		if e.rec.Session == "" && idle && may(e) {
			e.state = EnvironmentReleased
			drop = append(drop, e)
		}
	}
	m.mu.Unlock()
	for _, e := range drop {
		if err := m.remove(e); err != nil {
			m.o.Logger.Error("a sandbox that nobody owns left its folder", "error", err)
		}
	}
}

// rehearse really runs a Hand in the tier and holds it against what the operator
// demands. The Environment goes to the pool, where that has room, or is removed.
func (m *Manager) rehearse(ctx context.Context) error {
	m.mu.Lock()
	e := m.newEnvironment("")
	e.state = EnvironmentStarting
	m.started++
	m.pool.filling++
	m.mu.Unlock()
	h, err := m.startInstance(e, m.o.Tier, "")
	if err == nil {
		err = m.meets(ctx, h, m.o.Require)
		if err != nil {
			err = errors.Join(err, h.stop(ctx))
		}
	}
	m.mu.Lock()
	m.pool.filling--
	if err == nil {
		m.running(e, h)
		if len(m.pool.warm) < m.o.Warm && e.state == EnvironmentReady {
			m.pool.warm = append(m.pool.warm, e)
		} else if e.state == EnvironmentReady {
			m.stop(e)
		}
		m.mu.Unlock()
		return nil
	}
	m.started--
	e.state = EnvironmentReleased
	m.wake()
	m.mu.Unlock()
	return errors.Join(err, m.remove(e))
}
