package sandbox

import (
	"log/slog"
	"sync"
	"time"
)

// slowStart is how long starting an Instance may take before somebody is told what is
// waited for: an engine that hangs says nothing by itself.
const slowStart = 5 * time.Second

// startWatch says once, in the log, what a start that takes long waits for.
type startWatch struct {
	log   *slog.Logger
	begun time.Time
	timer *time.Timer

	mu   sync.Mutex
	what string
}

func (m *Manager) watchStart(e *Environment, t Tier) *startWatch {
	w := &startWatch{log: m.o.Logger.With("environment", e.id, "tier", t.Name()), begun: time.Now()}
	w.timer = time.AfterFunc(slowStart, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.log.Warn("a sandbox is still being started", "waits_for", w.what, "since", time.Since(w.begun).Round(time.Second), "gives_up_after", m.o.StartTimeout)
	})
	return w
}

// now says what is waited for from here on.
func (w *startWatch) now(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what = what
}

func (w *startWatch) end() { w.timer.Stop() }
