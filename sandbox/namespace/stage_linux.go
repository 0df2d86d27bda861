package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// stageDir is hidden by the stage, on its own thread alone. It is there on every
// Linux, and nothing that a sandbox is made of comes from it.
const stageDir = "/sys"

// stage lets a sandbox of another user have folders of root's: bwrap runs as that
// user, who may not pass through the folders above them. A thread of its own has a
// mount namespace of its own, in which they stand in a place that everybody can pass.
// What the thread starts sees that place; no other process does.
type stage struct {
	thread *process.Thread
	next   int // used on the thread alone
}

// newStage makes the one stage of this process. It needs root.
var newStage = sync.OnceValues(func() (*stage, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("not root")
	}
	s := &stage{thread: process.NewThread()}
	var err error
	s.thread.Do(func() {
		if err = unix.Unshare(unix.CLONE_NEWNS); err != nil {
			err = os.NewSyscallError("unshare", err)
			return
		}
		// What is mounted later on this machine shows here, and nothing of ours there.
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			err = os.NewSyscallError("mount", err)
			return
		}
		if err = unix.Mount("awaken", stageDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			err = os.NewSyscallError("mount tmpfs", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("a mount namespace for root's folders: %w", err)
	}
	return s, nil
})

// set puts those of paths on the stage that not everybody can reach, and tells where
// they are. strike takes them off again; a sandbox that has them keeps them.
func (s *stage) set(paths []string) (at map[string]string, strike func(), err error) {
	at = map[string]string{}
	var mounted []string
	strike = func() {
		s.thread.Do(func() {
			for _, p := range mounted {
				if unix.Unmount(p, unix.MNT_DETACH) == nil {
					_ = os.Remove(p)
				}
			}
		})
	}
	s.thread.Do(func() {
		for _, p := range paths {
			if _, ok := at[p]; ok || reachable(p) {
				continue
			}
			s.next++
			place := filepath.Join(stageDir, strconv.Itoa(s.next))
			if err = bind(p, place); err != nil {
				err = fmt.Errorf("setting up %s: %w", p, err)
				return
			}
			mounted = append(mounted, place)
			at[p] = place
		}
	})
	if err != nil {
		strike()
		return nil, nil, err
	}
	return at, strike, nil
}

// reachable says whether everybody may pass through all folders above path.
func reachable(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

func bind(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644) //nolint:gosec // the same
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return errors.Join(os.NewSyscallError("mount", err), os.Remove(to))
	}
	return nil
}
