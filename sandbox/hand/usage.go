package hand

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// usageEvery is how often a workspace is measured while commands run. A large one is
// measured less often, so that no more than a tenth of the time goes to it.
const usageEvery = 250 * time.Millisecond

// usage measures the workspace while commands run: the quota of guests does not see
// what commands write. Safe for concurrent use.
type usage struct {
	folder string
	most   int64

	mu       sync.Mutex
	watchers map[chan string]struct{}
	running  bool
}

func newUsage(folder string, most int64) *usage {
	return &usage{folder: folder, most: most, watchers: map[chan string]struct{}{}}
}

// over measures, and says in words when the workspace holds more than it may.
func (u *usage) over() string {
	n, files, hidden := measure(u.folder, u.most)
	n += unlinked(u.folder)
	switch {
	case hidden != nil:
		return fmt.Sprintf("the workspace cannot be measured, so it is taken to hold more than %d MiB ([sandbox.limits].workspace_mib): %v", u.most>>20, hidden)
	case n > u.most:
		return fmt.Sprintf("the workspace holds more than %d MiB ([sandbox.limits].workspace_mib)", u.most>>20)
	case files > sandbox.MaxWorkspaceEntries:
		return fmt.Sprintf("the workspace holds more than %d files and folders", sandbox.MaxWorkspaceEntries)
	}
	return ""
}

// watch returns a channel that hears once when the workspace has become too large.
func (u *usage) watch() (exceeded <-chan string, stop func()) {
	c := make(chan string, 1)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watchers[c] = struct{}{}
	if !u.running {
		u.running = true
		go u.run()
	}
	return c, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.watchers, c)
	}
}

// run measures until nobody watches.
func (u *usage) run() {
	wait := usageEvery
	for {
		time.Sleep(wait)
		u.mu.Lock()
		if len(u.watchers) == 0 {
			u.running = false
			u.mu.Unlock()
			return
		}
		u.mu.Unlock()
		begun := time.Now()
		over := u.over()
		wait = max(usageEvery, 10*time.Since(begun))
		if over == "" {
			continue
		}
		u.mu.Lock()
		for c := range u.watchers {
			select {
			case c <- over:
			default:
			}
		}
		u.mu.Unlock()
	}
}

// measure sums up what a folder takes on disk, and stops when that is more than most.
// The error is that of a folder that cannot be looked into, in which anything could be:
// one that is closed to its own user, or too far down.
func measure(folder string, most int64) (bytes int64, files int, err error) {
	err = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return sandbox.ShortError(err)
		}
		if err := sandbox.TooDeep(strings.TrimPrefix(name[len(folder):], "/")); err != nil {
			return err
		}
		files++
		if d.Type().IsRegular() {
			info, err := d.Info()
			switch {
			case err == nil:
				bytes += sandbox.OnDisk(info)
			case !errors.Is(err, fs.ErrNotExist):
				return sandbox.ShortError(err) // its folder has a name that is short enough, and it has not
			}
		}
		if bytes > most || files > sandbox.MaxWorkspaceEntries {
			return fs.SkipAll
		}
		return nil
	})
	return bytes, files, err
}
