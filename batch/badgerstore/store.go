package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// Store is a batch.Store on disk. One process has it open at a time. Safe for
// concurrent use.
type Store struct {
	dir      string
	sync     bool
	minFree  int64 // bytes; negative: no guard
	options  badger.Options
	db       *badger.DB
	log      *badgerLog
	owner    *ownerLock
	files    *files
	limits   limits
	timeline *timeline
	writer   writer
	failed   atomic.Pointer[error]
	sweeper  background
	verifier background
	open     openBatches

	// The writer's.
	now    uint64 // time of the last transaction
	wal    *wal   // nil when Badger syncs, or nobody
	folder *folder
	heads  heads

	life   sync.RWMutex // held for reading by every call, for writing by Close
	closed bool
}

var _ batch.Store = (*Store)(nil)

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
	if len(ch.files) > 0 {
		release, err := s.files.keep(ch.files)
		defer release()
		if err != nil {
			return fmt.Errorf("run %s: %w", ch.run, err)
		}
	}
	if err := s.writer.submit(ctx, ch, s.writeGroup); err != nil {
		return fmt.Errorf("run %s: %w", ch.run, err)
	}
	s.files.removeUnused(ch.left)
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

// Close implements batch.Store. It also stops what runs in the background and
// waits for it.
func (s *Store) Close() error {
	s.sweeper.stop() // it enters, too
	s.verifier.stop()
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.db.SetDiscardTs(s.timeline.oldest())
	err := s.db.Close()
	if s.wal != nil {
		err = errors.Join(err, s.wal.close())
	}
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
