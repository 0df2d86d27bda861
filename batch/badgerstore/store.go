package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// Store is a batch.Store on disk. One process has it open at a time. Safe for
// concurrent use.
type Store struct {
	dir     string
	sync    bool
	minFree int64 // bytes; negative: no guard
	db      *badger.DB
	log     *badgerLog
	owner   *ownerLock
	folder  *folder
	limits  limits
	writer  writer
	heads   heads // the writer's
	failed  atomic.Pointer[error]
	gc      *collector

	life   sync.RWMutex // held for reading by every call, for writing by Close
	closed bool
}

var _ batch.Store = (*Store)(nil)

// Open opens the store in the folder dir, which is created with mode 0700 if it
// does not exist, and holds it until Close.
//
// The error wraps ErrLocked when another process holds the store, and
// batch.ErrCorrupt when a file or record is damaged; then nothing was changed on
// disk that a backup would not bring back.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(dir); err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	owner, err := lockOwner(dir)
	if err != nil {
		return nil, err
	}
	s, err := open(dir, o, owner)
	if err != nil {
		return nil, errors.Join(err, owner.release())
	}
	return s, nil
}

func open(dir string, o Options, owner *ownerLock) (_ *Store, err error) {
	if err := checkFiles(dir); err != nil {
		return nil, err
	}
	l := &badgerLog{log: o.Logger.With("store", dir)}
	db, err := openBadger(badgerOptions(dir, o, l))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close() // the first error is the one to tell
		}
	}()
	if err := l.ignoredTable(); err != nil {
		return nil, fmt.Errorf("store %s: %w: %w: %s", dir, batch.ErrCorrupt, err, remedy)
	}
	s := &Store{
		dir: dir, sync: !o.NoSync, minFree: o.MinFreeMiB << 20,
		db: db, log: l, owner: owner,
		limits: limits{
			// Badger's own limits, less the marker that ends a transaction.
			load:      load{entries: int(db.MaxBatchCount()) - 2, inline: db.MaxBatchSize() - 1024, apart: largeBytes},
			threshold: valueThreshold,
		},
	}
	if err := s.checkSchema(); err != nil {
		return nil, err
	}
	if s.folder, err = openFolder(dir); err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	if err := s.sweepDead(context.Background()); err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, errors.Join(err, s.folder.close()))
	}
	s.gc = startCollector(db, o.GCInterval, l.log)
	return s, nil
}

// openBadger turns what Badger makes of damaged files into errors.
func openBadger(bo badger.Options) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			err = fmt.Errorf("store %s: %w: Badger cannot read it (%s): %s", bo.Dir, batch.ErrCorrupt, text, remedy)
		}
	}()
	db, err = badger.Open(bo)
	switch {
	case err == nil:
		return db, nil
	case strings.Contains(err.Error(), "Cannot acquire directory lock"):
		// Someone who opened the files with another program than ours.
		return nil, fmt.Errorf("store %s is open in another program that uses Badger%s: stop it: %w",
			bo.Dir, pidNote(filepath.Join(bo.Dir, "LOCK")), ErrLocked)
	case isMachineTrouble(err):
		return nil, fmt.Errorf("store %s: %w", bo.Dir, err)
	}
	return nil, fmt.Errorf("store %s: %w: %w: %s", bo.Dir, batch.ErrCorrupt, err, remedy)
}

// isMachineTrouble tells a machine that says no from a file that is damaged.
// Badger flattens its errors to text.
func isMachineTrouble(err error) bool {
	for _, text := range []string{
		"permission denied", "no space left", "too many open files", "read-only file system",
		"cannot allocate memory", "quota exceeded", "operation not permitted",
	} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// checkSchema refuses a store that another version of the schema wrote, and
// marks a new one.
func (s *Store) checkSchema() error {
	type schema struct {
		Version int `json:"version"`
	}
	write := func(txn *badger.Txn) error {
		rec, err := encodeJSON(kindSchema, schema{schemaVersion})
		if err != nil {
			return err
		}
		return txn.Set(schemaKey, rec)
	}
	return s.db.Update(func(txn *badger.Txn) error {
		rec, err := (&view{txn: txn}).get(schemaKey)
		if err != nil {
			return fmt.Errorf("store %s: %w", s.dir, err)
		}
		if rec == nil {
			it := txn.NewIterator(badger.IteratorOptions{})
			it.Rewind()
			used := it.Valid()
			it.Close()
			if used {
				return fmt.Errorf("store %s: %w: its schema record is missing: %s", s.dir, batch.ErrCorrupt, remedy)
			}
			return write(txn)
		}
		have, err := decodeJSON[schema](kindSchema, rec)
		if err != nil {
			return fmt.Errorf("store %s: %w", s.dir, damaged(schemaKey, err))
		}
		if have.Version == 1 {
			return write(txn) // the schema has only grown since
		}
		if have.Version != schemaVersion {
			return fmt.Errorf("store %s: %w: its schema is version %d and this program reads %d: use the version of the program that wrote it",
				s.dir, batch.ErrCorrupt, have.Version, schemaVersion)
		}
		return nil
	})
}

// enter admits one call; the caller runs the returned function when done.
func (s *Store) enter(ctx context.Context, subject string) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return nil, fmt.Errorf("%s: %w", subject, batch.ErrClosed)
	}
	return s.life.RUnlock, nil
}

// fail makes err the last word on writing.
func (s *Store) fail(err error) error {
	err = fmt.Errorf("store %s: writing failed: %w: the store takes no more commits until it is opened again", s.dir, err)
	if s.failed.CompareAndSwap(nil, &err) {
		s.log.log.Error("writing failed, no more commits are taken", "err", err)
	}
	return err
}

func (s *Store) failure() error { return loadError(&s.failed) }

// Commit implements batch.Store. Besides the errors of the contract it returns
// batch.ErrDiskFull for a new batch that finds too little free space, and an error
// that wraps batch.ErrInvalid for a commit that contradicts itself.
func (s *Store) Commit(ctx context.Context, c *batch.Commit) error {
	ch, err := prepare(c)
	if err != nil {
		return err
	}
	leave, err := s.enter(ctx, "run "+string(ch.run))
	if err != nil {
		return err
	}
	defer leave()
	if ch.newBatch {
		if err := s.checkSpace(); err != nil {
			return fmt.Errorf("batch %s: %w", c.Batch.ID(), err)
		}
	}
	if err := s.writer.submit(ctx, ch, s.writeGroup); err != nil {
		return fmt.Errorf("run %s: %w", ch.run, err)
	}
	return nil
}

// Claim implements batch.Store.
func (s *Store) Claim(ctx context.Context, run batch.RunID, owner string, epoch uint64) (*batch.Run, error) {
	leave, err := s.enter(ctx, "run "+string(run))
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := run.Validate(); err != nil {
		return nil, err
	}
	c := &claim{run: run, fence: batch.Fence{Owner: owner, Epoch: epoch}}
	if err := s.writer.submit(ctx, c, s.writeGroup); err != nil {
		return nil, fmt.Errorf("run %s: %w", run, err)
	}
	return c.after, nil
}

// Close implements batch.Store. It also stops the collector and waits for it.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.gc.stop()
	err := s.db.Close()
	if err == nil && s.failure() == nil {
		if markErr := markClean(s.dir); markErr != nil {
			s.log.log.Warn("the clean mark was not written; the next start checks less", "err", markErr)
		}
	}
	if err != nil {
		err = fmt.Errorf("store %s: %w", s.dir, err)
	}
	return errors.Join(err, s.folder.close(), s.owner.release())
}

// makeFolder creates dir, durably, and takes it away from other users.
func makeFolder(dir string) error {
	fi, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		parent := filepath.Dir(dir)
		if _, err := os.Stat(parent); errors.Is(err, os.ErrNotExist) {
			if err := makeFolder(parent); err != nil {
				return err
			}
		}
		return errors.Join(os.Mkdir(dir, 0o700), syncFolder(parent))
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("it is not a folder: remove it, or choose another data_dir")
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// folder syncs the store's folder when files were created in it: Badger syncs
// what is in a new log, but not its name.
type folder struct {
	f        *os.File
	synced   time.Time // modification time of the folder that is on disk
	syncedAt time.Time
}

func openFolder(dir string) (*folder, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	fo := &folder{f: f}
	if err := fo.syncIfChanged(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fo, nil
}

// clockGrain is above the resolution of a file system's modification times: a
// change right after a sync may not show in them.
const clockGrain = 20 * time.Millisecond

// syncIfChanged is called by the one writer only.
func (fo *folder) syncIfChanged() error {
	fi, err := fo.f.Stat()
	if err != nil {
		return err
	}
	if fi.ModTime().Equal(fo.synced) && fo.syncedAt.Sub(fo.synced) > clockGrain {
		return nil
	}
	at := time.Now()
	if err := fo.f.Sync(); err != nil {
		return err
	}
	fo.synced, fo.syncedAt = fi.ModTime(), at
	return nil
}

func (fo *folder) close() error { return fo.f.Close() }
