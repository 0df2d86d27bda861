package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeTimeout bounds how long one tree is worked on: what still writes into it could
// keep RemoveTree busy for ever. What it has removed by then stays removed.
const removeTimeout = 5 * time.Minute

// RemoveTree removes dir and what is in it, of which a tool may have written every byte
// and every name, and may still write. However deep it is, a few descriptors are open
// and no long name is used. Links are removed, not followed; what is mounted in it is an
// error, and stays. Folders that forbid it are opened up first, where this process may
// do that. The name dir itself has to be one of the host's own. That there is no dir is
// no error.
func RemoveTree(dir string) error { return removeWithin(dir, removeTimeout) }

func removeWithin(dir string, most time.Duration) error {
	r := &remover{dir: dir, within: most, deadline: time.Now().Add(most), prefix: ".removing-" + rand.Text() + "-"}
	if err := r.remove(); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

// remover keeps a tree flat while it removes it: a folder that is not empty is moved up
// to the top before what is in it is removed. So nothing is ever done more than one
// folder below the top.
type remover struct {
	dir      string
	within   time.Duration
	deadline time.Time
	top      *os.File
	device   uint64
	prefix   string // of the names of folders that were moved up; nobody guesses it
	moved    int
	failed   []error
}

const (
	// entriesAtOnce bounds the names that are held in memory.
	entriesAtOnce = 1024
	maxFailed     = 5 // of what stays, so much is told
	// maxInPlace is how deep folders are emptied where they are, when a file system does
	// not let them be moved.
	maxInPlace = 64
)

func (r *remover) remove() error {
	parent, err := os.Open(filepath.Dir(r.dir))
	if err != nil {
		return ignoreGone(err)
	}
	defer func() { _ = parent.Close() }()
	name := filepath.Base(r.dir)
	if done, err := removeEmpty(parent, name); done || err != nil {
		return err
	}
	if r.top, err = openFolder(parent, name); err != nil {
		return ignoreGone(err)
	}
	defer func() { _ = r.top.Close() }()
	if r.device, err = deviceOf(r.top); err != nil {
		return err
	}
	for {
		before := len(r.failed)
		if err := r.empty(r.top, 0); err != nil {
			return err
		}
		if len(r.failed) > before {
			return errors.Join(r.failed...)
		}
		if done, err := removeEmpty(parent, name); done || err != nil {
			return err
		}
		if err := r.late(); err != nil {
			return err
		}
	}
}

func (r *remover) late() error {
	if time.Now().After(r.deadline) {
		return fmt.Errorf("it is not empty after %s: something may still write into it", r.within)
	}
	return nil
}

// empty removes what is in f, or moves it up. The error is one that ends everything;
// what cannot be removed is kept in r.failed.
func (r *remover) empty(f *os.File, depth int) error {
	kept := len(r.failed)
	for {
		// Some systems leave out names that were there when others are removed meanwhile.
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		seen := 0
		for {
			names, err := f.Readdirnames(entriesAtOnce)
			seen += len(names)
			for _, name := range names {
				if err := r.late(); err != nil {
					return err
				}
				if err := r.entry(f, name, depth); err != nil {
					r.failed = append(r.failed, fmt.Errorf("%s: %w", shortName(name), Bare(err)))
					if len(r.failed) == maxFailed {
						return errors.Join(r.failed...)
					}
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return ignoreGone(err)
			}
		}
		if seen == 0 || len(r.failed) > kept {
			return nil
		}
	}
}

// entry removes one name of f, which is either the top or a folder that was in it.
func (r *remover) entry(f *os.File, name string, depth int) error {
	if done, err := removeEmpty(f, name); done || err != nil {
		return err
	}
	aside := name
	if f != r.top || !strings.HasPrefix(name, r.prefix) {
		// Moving tells a mount, too, that is on the same device: it cannot be.
		r.moved++
		aside = fmt.Sprintf("%s%d", r.prefix, r.moved)
		err := moveFolder(f, name, r.top, aside)
		switch {
		case err == nil && f != r.top:
			return nil // its turn comes
		case errors.Is(err, unix.EXDEV):
			return r.inPlace(f, name, depth)
		case errors.Is(err, unix.EBUSY):
			return errMounted
		case err != nil:
			return ignoreGone(err)
		}
	}
	return r.inPlace(r.top, aside, 0)
}

var errMounted = errors.New("something is mounted there: unmount it, and it is removed the next time")

// inPlace empties and removes a folder where it is.
func (r *remover) inPlace(f *os.File, name string, depth int) error {
	if depth == maxInPlace {
		return fmt.Errorf("it is more than %d folders down, and its file system does not let it be moved", maxInPlace)
	}
	child, err := openFolder(f, name)
	if err != nil {
		return ignoreGone(err)
	}
	defer func() { _ = child.Close() }()
	device, err := deviceOf(child)
	if err != nil {
		return err
	}
	if device != r.device {
		return errMounted
	}
	kept := len(r.failed)
	for {
		if err := r.empty(child, depth+1); err != nil || len(r.failed) > kept {
			return err
		}
		if done, err := removeEmpty(f, name); done || err != nil {
			return err
		}
		if err := r.late(); err != nil {
			return err
		}
	}
}

// removeEmpty removes a name that is a file, a link or an empty folder. It is not done
// when it is a folder with something in it.
func removeEmpty(f *os.File, name string) (done bool, err error) {
	ferr := unix.Unlinkat(int(f.Fd()), name, 0)
	if ferr == nil || errors.Is(ferr, unix.ENOENT) {
		return true, nil
	}
	err = unix.Unlinkat(int(f.Fd()), name, unix.AT_REMOVEDIR)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return false, nil
	case errors.Is(err, unix.EBUSY):
		return false, errMounted
	case errors.Is(err, unix.ENOTDIR):
		return false, ferr
	}
	return false, err
}

// openFolder opens a folder below f, after it was opened up for this process.
func openFolder(f *os.File, name string) (*os.File, error) {
	open := func() (int, error) {
		return unix.Openat(int(f.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	fd, err := open()
	if errors.Is(err, unix.EACCES) && openUp(f, name) == nil {
		fd, err = open()
	}
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(fd), name)
	if info, err := folder.Stat(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
		_ = folder.Chmod(0o700) // where that fails, what needs it does
	}
	return folder, nil
}

// moveFolder moves a folder, also one that forbids it: its own entry for what is above
// it changes.
func moveFolder(from *os.File, name string, to *os.File, as string) error {
	move := func() error { return unix.Renameat(int(from.Fd()), name, int(to.Fd()), as) }
	err := move()
	if errors.Is(err, unix.EACCES) && openUp(from, name) == nil {
		err = move()
	}
	return err
}

func deviceOf(f *os.File) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return uint64(st.Dev), nil //nolint:unconvert // the types differ between systems
}
