package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

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
	clean, err := checkFiles(dir)
	if err != nil {
		return nil, err
	}
	if !clean {
		if err := removeEmptyLogs(dir); err != nil {
			return nil, fmt.Errorf("store %s: %w", dir, err)
		}
	}
	l := &badgerLog{log: o.Logger.With("store", dir)}
	options := badgerOptions(dir, o, l)
	db, err := openBadger(options)
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
		options: options, db: db, log: l, owner: owner,
		// Badger's own limits, less the marker that ends a transaction.
		limits: limits{load{entries: int(db.MaxBatchCount()) - 2, bytes: db.MaxBatchSize() - 1024, largest: valueBytes - 1}},
		now:    db.MaxVersion(), timeline: newTimeline(db.MaxVersion()),
	}
	db.SetDiscardTs(s.now)
	if err := s.start(clean, o.keepFiles); err != nil {
		if s.wal != nil {
			err = errors.Join(err, s.wal.close())
		}
		if s.folder != nil {
			err = errors.Join(err, s.folder.close())
		}
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	return s, nil
}

// start brings up what the store has beside Badger, and finishes what a killed
// process has begun.
func (s *Store) start(clean, keepFiles bool) (err error) {
	ctx := context.Background()
	version, err := s.schemaVersion(ctx)
	if err != nil {
		return err
	}
	if s.files, err = openFiles(s.dir, s.sync, s.log.log); err != nil {
		return err
	}
	s.files.used = s.fileUsed
	if s.sync && ownSync {
		if s.wal, err = openWAL(s.dir, syncData); err != nil {
			return err
		}
	}
	if s.folder, err = openFolder(s.dir); err != nil {
		return err
	}
	if version != schemaVersion {
		if err := s.writeSchema(ctx); err != nil {
			return err
		}
	}
	if err := s.sweepDead(ctx); err != nil {
		return err
	}
	if err := s.view("open batches", func(v *view) error { return s.open.load(ctx, v) }); err != nil {
		return err
	}
	s.verifier.start(s.verifyTables)
	if !clean && !keepFiles {
		s.sweeper.start(s.sweepFiles)
	}
	return nil
}

// openBadger turns what Badger makes of damaged files into errors.
func openBadger(bo badger.Options) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			err = fmt.Errorf("store %s: %w: Badger cannot read it (%s): %s", bo.Dir, batch.ErrCorrupt, text, remedy)
		}
	}()
	db, err = badger.OpenManaged(bo)
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

type schema struct {
	Version int `json:"version"`
}

// schemaVersion returns the version of the schema that wrote the store, 0 for a new
// store. It refuses a later one.
func (s *Store) schemaVersion(ctx context.Context) (int, error) {
	have := schema{}
	err := s.view("schema", func(v *view) error {
		rec, err := v.get(schemaKey)
		if err != nil {
			return err
		}
		if rec == nil {
			used := false
			err := v.scan(ctx, nil, nil, false, func(_, _ []byte) (bool, error) {
				used = true
				return false, nil
			})
			if err == nil && used {
				err = fmt.Errorf("%w: its schema record is missing: %s", batch.ErrCorrupt, remedy)
			}
			return err
		}
		if have, err = decodeJSON[schema](kindSchema, rec); err != nil {
			return damaged(schemaKey, err)
		}
		if have.Version < 1 || have.Version > schemaVersion {
			return fmt.Errorf("%w: it is version %d and this program reads 1 to %d: use the version of the program that wrote it",
				batch.ErrCorrupt, have.Version, schemaVersion)
		}
		return nil
	})
	return have.Version, err
}

// writeSchema marks a new store, and one of an earlier version: the schema has only
// grown since.
func (s *Store) writeSchema(ctx context.Context) error {
	rec, err := encodeJSON(kindSchema, schema{schemaVersion})
	if err != nil {
		return err
	}
	return s.writer.submit(ctx, certain{{schemaKey, rec.rec}}, s.writeGroup)
}
