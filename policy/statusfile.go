package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	statusName = "status.json"
	lockName   = "lock"
	// statusEvery bounds how old the time of the last look in the file may be.
	statusEvery = 15 * time.Second
)

// statusFile is where the process that holds a StateDir says what is in force.
type statusFile struct {
	mu      sync.Mutex
	lock    *os.File // nil: this process does not hold the folder
	written time.Time
}

// statusNote is the file's content.
type statusNote struct {
	PID    int     `json:"pid"`
	Status *Status `json:"status"`
}

// Keep takes over StateDir: from now on bundles that are put in force are kept there, and
// the status is written there. The caller holds the data folder against other
// processes. Without a StateDir it does nothing. Close ends it.
func (g *Gate) Keep() error {
	dir := g.o.StateDir
	if dir == "" {
		return nil
	}
	if err := privateFolder(dir); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	// Who looks whether it is held has it for a moment.
	for range 40 {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("policy: %s is held by another process: %w", lock.Name(), err), lock.Close())
	}
	f := &g.standing.file
	f.mu.Lock()
	f.lock = lock
	f.mu.Unlock()
	g.reload.Lock()
	defer g.reload.Unlock()
	g.keepNow(g.current.Load())
	return nil
}

// Close lets go of StateDir. The gate goes on to decide; Watch must have returned.
func (g *Gate) Close() error {
	f := &g.standing.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return nil
	}
	// Unlocked by name: a process that is being started shares the file until its
	// program runs.
	err := errors.Join(syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN), f.lock.Close())
	f.lock = nil
	return err
}

func (f *statusFile) held() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lock != nil
}

// keepNow writes the bundles of s that are not on disk yet, and the status. That a
// copy cannot be written keeps nothing from working: it is said once.
func (g *Gate) keepNow(s *set) {
	if !g.standing.file.held() {
		return
	}
	for i, b := range g.loader.bundles {
		if b.client == nil || b.dir == "" {
			continue
		}
		b.mu.Lock()
		v := b.good
		b.mu.Unlock()
		if v == nil || v.content != s.versions[i].content || v.restored {
			continue
		}
		g.keepProblem(b, keep(b.dir, &b.o, v))
	}
	g.writeStatus(true)
}

// confirmed notes on disk that a bundle still is current.
func (g *Gate) confirmed(b *bundleSource) {
	b.mu.Lock()
	v := b.good
	b.mu.Unlock()
	if g.standing.file.held() && b.dir != "" && v != nil && b.problemFree() {
		g.keepProblem(b, keepNote(b.dir, &b.o, v))
	}
}

func (b *bundleSource) problemFree() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problem == "" && b.next == nil
}

func (g *Gate) keepProblem(b *bundleSource, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if before := g.standing.said("copy of "+b.at, text); text != "" && text != before {
		g.o.Logger.Error("policy bundle cannot be kept for when its server is down", "bundle", b.at, "problem", text)
	}
}

// writeStatus writes the file, when it is due or at once.
func (g *Gate) writeStatus(now bool) {
	f := &g.standing.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil || !now && time.Since(f.written) < statusEvery {
		return
	}
	raw, err := json.MarshalIndent(statusNote{os.Getpid(), g.Status()}, "", "  ")
	if err == nil {
		err = writeWhole(filepath.Join(g.o.StateDir, statusName), append(raw, '\n'), false)
	}
	f.written = time.Now()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if before := g.standing.said(statusName, text); text != "" && text != before {
		g.o.Logger.Error("policy status cannot be written", "problem", text)
	}
}

// ReadStatus reads what the process that holds dir, the StateDir of a gate, has in
// force, with its process id. The status is nil when no process holds it.
func ReadStatus(dir string) (*Status, int, error) {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("policy: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return nil, 0, errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
	}
	if err := lock.Close(); err != nil {
		return nil, 0, err
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, 0, fmt.Errorf("policy: %s: %w", lock.Name(), err)
	}
	file := filepath.Join(dir, statusName)
	raw, err := readRegular(file, 4<<20)
	if err != nil {
		return nil, 0, fmt.Errorf("policy: %s: %w; the process may just have started: try again", file, cause(err))
	}
	var note statusNote
	if err := json.Unmarshal(raw, &note); err != nil || note.Status == nil {
		return nil, 0, fmt.Errorf("policy: %s cannot be read: %v", file, err)
	}
	return note.Status, note.PID, nil
}
