package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Manager keeps the Environments of a host: it gives calls their Hand, starts and
// stops Instances, keeps some warm, and removes what dead owners left. It is safe for
// concurrent use. A host uses it so:
//
//	m, err := sandbox.Open(o)          // after data_dir is held; starts nothing
//	executors[batch.TargetSandbox] = m.Executor(registry.Load)
//	err = m.Start(ctx)                 // provisioning = "eager" only; on an error the host does not start
//	… engine.Recover, which asks the executor for what ledgers hold (batch.Recaller) …
//	background = append(background, m.Watch) // from then on: fills the pool, reaps, releases
//	err = m.Close(ctx)                 // before the store is closed
type Manager struct {
	o      Options
	host   string // id of the folder
	owner  string // id of this process
	mounts []Mount
	code   code
	places map[string]bool // targets that calls may use; true: writable

	base context.Context // ended by Close
	kill context.CancelCauseFunc
	work sync.WaitGroup

	mu       sync.Mutex
	all      map[string]*Environment // by id
	sessions map[string]*Environment
	pool     pool
	started  int           // Instances that are starting, ready or stopping
	changed  chan struct{} // closed, and replaced, whenever somebody may go on
	closed   bool
	catalog  func() *plugins.Snapshot // nil before Executor
	images   map[*plugins.Plugin]*image
	reaping  sync.Mutex
}

// ErrClosed reports that the Manager was closed.
var ErrClosed = errors.New("the sandboxes are closed")

// Open reads what an earlier process left in o.Dir and starts nothing. The caller
// closes the Manager.
func Open(o Options) (*Manager, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	host, err := openIdentity(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	m := &Manager{
		o: o, host: host, owner: randomID("o"), changed: make(chan struct{}),
		all: map[string]*Environment{}, sessions: map[string]*Environment{}, images: map[*plugins.Plugin]*image{},
	}
	if m.mounts, err = resolveMounts(o.Dir, o.Mounts); err != nil {
		return nil, err
	}
	m.code.init(&m.o)
	m.places = map[string]bool{WorkspaceDir: true}
	for _, mount := range m.mounts {
		m.places[mount.Target] = mount.Writable
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	for _, d := range entries {
		if !d.IsDir() || !environmentID.MatchString(d.Name()) {
			continue
		}
		e, err := readEnvironment(filepath.Join(o.Dir, d.Name()))
		if err != nil {
			o.Logger.Error("an environment's folder cannot be read and is left alone", "folder", d.Name(), "error", err)
			continue
		}
		m.all[e.id] = e
		if s := e.rec.Session; s != "" {
			m.sessions[s] = e
		}
	}
	m.base, m.kill = context.WithCancelCause(context.Background())
	return m, nil
}

// Start is for provisioning = "eager": it finds out whether the tier works, by really
// running a Hand in it, and that it holds what Options.Require demands of it; then it
// fills the warm pool. The error says why not.
func (m *Manager) Start(ctx context.Context) error {
	if m.o.Tier == nil {
		return m.o.TierError
	}
	if err := m.o.Tier.Check(ctx); err != nil {
		return err
	}
	if err := m.rehearse(ctx); err != nil {
		return err
	}
	m.fill()
	return nil
}

// Environments lists what there is, by id.
func (m *Manager) Environments() []EnvironmentInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]EnvironmentInfo, 0, len(m.all))
	for _, id := range slices.Sorted(maps.Keys(m.all)) {
		list = append(list, m.all[id].info())
	}
	return list
}

// newEnvironment makes one in memory. Its folder is made when it starts. m.mu is held.
func (m *Manager) newEnvironment(session string) *Environment {
	e := &Environment{id: randomID("e"), state: EnvironmentReserved}
	e.dir = filepath.Join(m.o.Dir, e.id)
	key := make([]byte, ledgerKeyBytes)
	_, _ = rand.Read(key) // never fails
	now := time.Now()
	e.rec = record{ID: e.id, Session: session, Key: key, Created: now, Used: now}
	e.used = now
	m.all[e.id] = e
	if session != "" {
		m.sessions[session] = e
	}
	return e
}

// wake lets everybody look again; m.mu is held.
func (m *Manager) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// use returns the Hand of a session's Environment in a tier, which it starts, or
// stops in another tier, where needed. Fallback says why t is not the configured one,
// empty where it is. The caller calls done when its call has ended.
func (m *Manager) use(ctx context.Context, session string, t Tier, fallback string) (e *Environment, h *hand, done func(), err error) {
	for {
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			return nil, nil, nil, ErrClosed
		}
		e = m.sessions[session]
		if e == nil {
			e = m.pool.take(m, t, session)
		}
		if e == nil {
			e = m.newEnvironment(session)
		}
		h, err = m.step(e, t, fallback)
		wait := m.changed
		m.mu.Unlock()
		switch {
		case err != nil:
			return nil, nil, nil, err
		case h != nil:
			return e, h, sync.OnceFunc(func() { m.giveBack(e) }), nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, nil, fmt.Errorf("waiting for a sandbox: %w", context.Cause(ctx))
		}
	}
}

// step brings e nearer to a Hand in t, and returns it once it is there: then one more
// call runs. Nil without an error: look again when something has changed. m.mu is
// held.
func (m *Manager) step(e *Environment, t Tier, fallback string) (*hand, error) {
	switch e.state {
	case EnvironmentReady:
		if e.hand.tier == t.Name() && e.hand.alive() {
			e.calls++
			e.noIdle()
			return e.hand, nil
		}
		if e.calls == 0 {
			m.stop(e)
		}
	case EnvironmentFailed:
		if e.failedIn == t.Name() && time.Now().Before(e.retryAt) {
			return nil, e.failure
		}
		fallthrough
	case EnvironmentReserved, EnvironmentHibernated:
		if m.room() {
			m.start(e, t, fallback)
		}
	case EnvironmentReleased:
		return nil, &UnavailableError{Tier: t.Name(), Reason: ReasonStart, What: fmt.Sprintf("environment %s was released: its session has ended", e.id)}
	case EnvironmentStarting, EnvironmentStopping:
	}
	return nil, nil
}

// room reports whether one more Instance may be started. Where not, it has the one
// that was idle longest make room, if there is one. m.mu is held.
func (m *Manager) room() bool {
	if m.started < m.o.MaxReady {
		return true
	}
	var pick *Environment
	for _, e := range m.all {
		if e.state == EnvironmentStopping {
			return false // room is being made
		}
		if e.state == EnvironmentReady && e.calls == 0 && e.filing.Load() == 0 && !e.held.After(time.Now()) && (pick == nil || e.used.Before(pick.used)) {
			pick = e
		}
	}
	if pick != nil {
		m.pool.forget(pick)
		m.stop(pick)
	}
	return false
}

// giveBack ends a call.
func (m *Manager) giveBack(e *Environment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.calls--
	e.used = time.Now()
	if e.calls > 0 || e.state != EnvironmentReady {
		return
	}
	if !e.hand.alive() {
		m.stop(e)
	} else {
		m.armIdle(e)
	}
	m.wake()
}

// armIdle has e hibernated when no call comes; m.mu is held.
func (m *Manager) armIdle(e *Environment) {
	e.noIdle()
	h := e.hand
	e.idle = time.AfterFunc(m.o.Idle, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.closed || e.state != EnvironmentReady || e.hand != h || e.calls > 0 || e.rec.Session == "":
		case e.filing.Load() > 0:
			m.armIdle(e)
		default:
			m.stop(e)
		}
	})
}

func (e *Environment) noIdle() {
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
}

// Close stops every Instance, with its workspace carried out where that is needed,
// and waits for it until ctx ends. Calls in flight must have ended.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	for _, e := range m.all {
		if e.state == EnvironmentReady {
			m.stop(e)
		}
	}
	m.wake()
	m.mu.Unlock()
	m.kill(ErrClosed)
	ended := make(chan struct{})
	go func() { m.work.Wait(); close(ended) }()
	select {
	case <-ended:
		m.dropUnowned(func(e *Environment) bool { return e.rec.Owner == "" })
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sandboxes are still being stopped: %w", context.Cause(ctx))
	}
}
