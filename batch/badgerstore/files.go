package badgerstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/awaken-agents/awaken-host/batch"
)

// filesFolder holds the large parts of records, as <2 hex>/<sha256>.
const filesFolder = "blobs"

// newFolder, below filesFolder, holds files that are being written. What a killed
// process left there is removed at the start.
const newFolder = "new"

// maxFileBytes bounds what one commit may leave to files, and so a file.
const maxFileBytes = 120 << 20

// files are named by their content: a file is written once, never changed, shared
// by all records with that content, and removed with the last of them.
//
// A file is pinned while a commit that will refer to it is under way, and nobody
// removes a pinned one: that no record refers to it yet means nothing. Safe for
// concurrent use.
type files struct {
	dir  string
	sync bool
	log  *slog.Logger
	used func(digest) (bool, error) // by a stored record

	mu    sync.Mutex
	pins  map[digest]*pin
	holds int                 // while it is not zero nothing is removed
	later map[digest]struct{} // what was to be removed meanwhile

	synced func(path string) // for tests: called after each sync
}

// pin counts the commits that need a file. The first of them writes it, the
// others wait for that.
type pin struct {
	commits int
	stored  chan struct{}
	err     error // set before stored is closed
}

// openFiles makes the folders and clears what was never finished.
func openFiles(dir string, sync bool, log *slog.Logger) (*files, error) {
	f := &files{dir: filepath.Join(dir, filesFolder), sync: sync, log: log, pins: map[digest]*pin{}, later: map[digest]struct{}{}, synced: func(string) {}}
	if err := os.RemoveAll(filepath.Join(f.dir, newFolder)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(f.dir, newFolder), 0o700); err != nil {
		return nil, err
	}
	return f, errors.Join(f.syncFolder(f.dir), f.syncFolder(dir))
}

func (f *files) path(d digest) string {
	name := hex.EncodeToString(d[:])
	return filepath.Join(f.dir, name[:2], name)
}

func (f *files) syncFolder(dir string) error {
	if !f.sync {
		return nil
	}
	if err := syncFolder(dir); err != nil {
		return err
	}
	f.synced(dir)
	return nil
}

// keep stores the files of a commit and pins them; the caller runs the returned
// function when the commit is over, also after an error.
func (f *files) keep(list []*content) (release func(), err error) {
	total := 0
	for _, c := range list {
		if total += c.size; total > maxFileBytes {
			return func() {}, fmt.Errorf("%d bytes of large values, at most %d are allowed: %w", total, maxFileBytes, batch.ErrTooLarge)
		}
	}
	held := make([]digest, 0, len(list))
	release = func() { f.unpin(held) }
	for _, c := range list {
		held = append(held, c.digest)
		if err := f.keepOne(c); err != nil {
			return release, fmt.Errorf("file %s: %w", f.path(c.digest), err)
		}
	}
	return release, nil
}

func (f *files) keepOne(c *content) error {
	f.mu.Lock()
	p := f.pins[c.digest]
	if p != nil {
		p.commits++
		f.mu.Unlock()
		<-p.stored
		return p.err
	}
	p = &pin{commits: 1, stored: make(chan struct{})}
	f.pins[c.digest] = p
	f.mu.Unlock()
	p.err = f.store(c)
	close(p.stored)
	return p.err
}

// unpin lets go, and removes what no record refers to after all.
func (f *files) unpin(list []digest) {
	for _, d := range list {
		f.mu.Lock()
		if p := f.pins[d]; p.commits > 1 {
			p.commits--
		} else {
			delete(f.pins, d)
		}
		f.mu.Unlock()
	}
	f.removeUnused(list)
}

// store returns when the file is there, durably and whole. One that is there
// already may be of a process that was killed before it synced, or damaged.
func (f *files) store(c *content) error {
	path := f.path(c.digest)
	folder := filepath.Dir(path)
	switch err := f.verify(c.digest, c.size); {
	case err == nil:
		return errors.Join(f.syncPath(path), f.syncFolder(folder), f.syncFolder(f.dir))
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, batch.ErrCorrupt):
		f.log.Warn("a damaged file is written again", "path", path, "err", err)
	default:
		return err
	}
	err := os.Mkdir(folder, 0o700)
	switch {
	case err == nil:
		err = f.syncFolder(f.dir)
	case errors.Is(err, fs.ErrExist):
		// Its maker may not have synced it yet.
		err = f.syncFolder(f.dir)
	}
	if err != nil {
		return err
	}
	return f.write(c, path, folder)
}

func (f *files) write(c *content, path, folder string) (err error) {
	w, err := os.CreateTemp(filepath.Join(f.dir, newFolder), "*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(w.Name()))
		}
	}()
	for _, p := range c.parts {
		if err == nil {
			_, err = w.Write(p)
		}
	}
	if err == nil && f.sync {
		err = w.Sync()
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	f.synced(w.Name())
	if err := os.Rename(w.Name(), path); err != nil {
		return err
	}
	return f.syncFolder(folder)
}

func (f *files) syncPath(path string) error {
	if !f.sync {
		return nil
	}
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Sync(), r.Close()); err != nil {
		return err
	}
	f.synced(path)
	return nil
}

// read fills p with the content of a file. The error wraps errFileGone when there
// is none, and batch.ErrCorrupt when it is not what its name says.
func (f *files) read(d digest, p []byte) error {
	path := f.path(d)
	r, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file %s: %w", path, errFileGone)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	if fi.Size() != int64(len(p)) {
		return fmt.Errorf("file %s has %d bytes instead of %d: %w", path, fi.Size(), len(p), batch.ErrCorrupt)
	}
	if _, err := r.ReadAt(p, 0); err != nil {
		return fmt.Errorf("file %s: %w: %w", path, batch.ErrCorrupt, err)
	}
	if sha256.Sum256(p) != d {
		return fmt.Errorf("file %s does not have the content that its name says: %w", path, batch.ErrCorrupt)
	}
	return nil
}

// errFileGone is not damage yet: the record that named the file may be gone, too.
var errFileGone = fmt.Errorf("it is missing: %w", fs.ErrNotExist)

func (f *files) verify(d digest, size int) error { return f.read(d, make([]byte, size)) }

// removeUnused removes the files of the list that no record and no commit needs.
// A failure leaves a file behind, and says so in the log.
func (f *files) removeUnused(list []digest) {
	for _, d := range list {
		if err := f.removeOne(d); err != nil {
			f.log.Warn("a file that nothing refers to stays behind", "path", f.path(d), "err", err)
		}
	}
}

func (f *files) removeOne(d digest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pins[d] != nil {
		return nil // whoever unpins it looks again
	}
	if f.holds > 0 {
		f.later[d] = struct{}{}
		return nil
	}
	used, err := f.used(d)
	if err != nil || used {
		return err
	}
	if err := os.Remove(f.path(d)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// hold keeps every file until the returned function is called.
func (f *files) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds++
	return func() {
		f.mu.Lock()
		f.holds--
		var list []digest
		if f.holds == 0 {
			for d := range f.later {
				list = append(list, d)
			}
			clear(f.later)
		}
		f.mu.Unlock()
		f.removeUnused(list)
	}
}

// each calls fn with every file there is, in order of name, and its name below
// the folder; ok is false for what is no file of ours.
func (f *files) each(ctx context.Context, fn func(name string, d digest, ok bool) error) error {
	folders, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if folder.Name() == newFolder {
			continue
		}
		list, err := os.ReadDir(filepath.Join(f.dir, folder.Name()))
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			var d digest
			raw, err := hex.DecodeString(e.Name())
			ok := err == nil && copy(d[:], raw) == len(d) && len(raw) == len(d) && e.Name()[:2] == folder.Name() && e.Type().IsRegular()
			if err := fn(filepath.Join(folder.Name(), e.Name()), d, ok); err != nil {
				return err
			}
		}
	}
	return nil
}
