package badgerstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrLocked is wrapped by Open when another process holds the store.
var ErrLocked = errors.New("store is in use")

// ownerFile names the file whose lock is the store's lock. What is written in it
// is for people; the kernel drops the lock with the process, so a file left by
// SIGKILL means nothing and is never removed.
const ownerFile = "OWNER"

type ownerNote struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

type ownerLock struct{ f *os.File }

func lockOwner(dir string) (*ownerLock, error) {
	path := filepath.Join(dir, ownerFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("store %s is held by %s: stop that process, or use another data_dir: %w", dir, describeOwner(path), ErrLocked)
		return nil, errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: locking %s: %w", dir, path, err), f.Close())
	}
	l := &ownerLock{f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: %w", dir, err), l.release())
	}
	return l, nil
}

func (l *ownerLock) sign() error {
	note, err := json.Marshal(ownerNote{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err = l.f.WriteAt(append(note, '\n'), 0)
	return err
}

// release gives the lock back itself: closing the file would not while another
// process is being started, which shares it until its program runs.
func (l *ownerLock) release() error {
	return errors.Join(syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN), l.f.Close())
}

// describeOwner says who holds the lock. The note may be that of an earlier
// process when the holder is just about to write its own.
func describeOwner(path string) string {
	raw, err := os.ReadFile(path)
	var note ownerNote
	if err == nil {
		err = json.Unmarshal(raw, &note)
	}
	switch {
	case err != nil || note.PID <= 0 || errors.Is(syscall.Kill(note.PID, 0), syscall.ESRCH):
		return "another process (it has not written its id yet)"
	case note.PID == os.Getpid():
		return fmt.Sprintf("this very process (%d) since %s", note.PID, note.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("process %d since %s", note.PID, note.Since.Format(time.RFC3339))
}

// pidNote reads the process id that Badger leaves in its own lock file.
func pidNote(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
