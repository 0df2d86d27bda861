package badgerstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
)

// Compact gives back to the disk what deleted runs have taken, which otherwise
// happens bit by bit as new commits come. It first stops everything for about as
// long as a start takes, to get what is in memory into tables, and then merges them
// while the store is in use. It takes about as much free space as the store has
// tables. A context that ends is noticed between the two.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	leave, err := s.enter(ctx, "compaction")
	if err != nil {
		return err
	}
	defer leave()
	s.db.SetDiscardTs(s.timeline.oldest())
	if err := s.db.Flatten(1); err != nil {
		return fmt.Errorf("store %s: compaction: %w", s.dir, err)
	}
	return nil
}

// flush closes Badger and opens it again, twice, the first time so that it merges
// its uppermost level when it is closed. It offers no other way to get a memtable
// into a table, and takes a store whose tables are all on that level for a flat one.
func (s *Store) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("compaction: %w", err)
	}
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return fmt.Errorf("compaction: %w", batch.ErrClosed)
	}
	if err := s.failure(); err != nil {
		return err
	}
	if err := s.reopen(); err != nil {
		s.closed = true
		return errors.Join(s.fail(err), s.folder.close(), s.owner.release())
	}
	return nil
}

func (s *Store) reopen() error {
	s.db.SetDiscardTs(s.timeline.oldest())
	err := s.db.Close()
	if s.wal != nil {
		err = errors.Join(err, s.wal.close())
	}
	if err != nil {
		return err
	}
	merging, err := openBadger(s.options.WithCompactL0OnClose(true))
	if err != nil {
		return err
	}
	merging.SetDiscardTs(s.timeline.oldest())
	if err := errors.Join(s.log.ignoredTable(), merging.Close()); err != nil {
		return err
	}
	if s.db, err = openBadger(s.options); err != nil {
		return err
	}
	if err := s.log.ignoredTable(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.db.SetDiscardTs(s.timeline.oldest())
	if s.wal != nil {
		if s.wal, err = openWAL(s.dir, s.wal.sync); err != nil {
			return errors.Join(err, s.db.Close())
		}
	}
	return nil
}
