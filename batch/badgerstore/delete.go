package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// A run lives as long as its head: without it no method shows anything of the
// run. So a run that is too large for one transaction is deleted by removing its
// head and leaving a mark; the rest is swept in pieces, and at the next start if
// the process dies meanwhile. Nobody can create the run again while the mark is
// there.

// ownKinds are the kinds whose keys start with the run they belong to.
var ownKinds = []byte{kindRun, kindBatch, kindPayload, kindCall, kindDecision, kindEvents, kindState, kindOpenBatch}

// Delete implements batch.Store. It goes on to its end when the context ends in
// the middle.
func (s *Store) Delete(ctx context.Context, run batch.RunID, expect uint64) error {
	leave, err := s.enter(ctx, "run "+string(run))
	if err != nil {
		return err
	}
	defer leave()
	if err := run.Validate(); err != nil {
		return err
	}
	d := &deletion{run: run}
	err = s.view("run "+string(run), func(v *view) error { return d.look(ctx, v, expect, s.limits) })
	if err != nil {
		return err
	}
	if err := s.writer.submit(ctx, d, s.writeGroup); err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	s.files.removeUnused(d.left)
	if d.mark {
		return s.sweep(context.WithoutCancel(ctx), run)
	}
	return nil
}

// deletion removes a run as it was seen.
type deletion struct {
	run     batch.RunID
	seen    uint64 // version that Badger gave the head
	mark    bool   // too large for one transaction
	entries []entry
	left    []digest
}

func (d *deletion) look(ctx context.Context, v *view, expect uint64, most limits) error {
	r, _, err := v.run(d.run)
	switch {
	case err != nil:
		return err
	case r.Version != expect:
		return fmt.Errorf("it is at version %d, the caller expects %d: %w", r.Version, expect, batch.ErrConflict)
	case r.OpenStep != 0:
		return invalid("step %d is open: finish or cancel it first", r.OpenStep)
	}
	item, err := v.txn.Get(runKey(d.run))
	if err != nil {
		return damaged(runKey(d.run), err)
	}
	d.seen = item.Version()
	b, err := v.belongings(ctx, d.run, most)
	if err != nil {
		return err
	}
	d.mark, d.entries, d.left = b.more, b.entries, b.files
	if b.more {
		d.entries, d.left = []entry{{runKey(d.run), nil}, {dyingKey(d.run), encodeIndex(kindDying)}}, nil
	}
	return nil
}

// plan refuses when anything was committed to the run since it was looked at:
// there would be records that were not seen.
func (d *deletion) plan(v *view) ([]entry, error) {
	k := runKey(d.run)
	changed := fmt.Errorf("it changed meanwhile: %w", batch.ErrConflict)
	if _, ok := v.pending[string(k)]; ok {
		return nil, changed
	}
	item, err := v.txn.Get(k)
	switch {
	case errors.Is(err, badger.ErrKeyNotFound):
		return nil, changed
	case err != nil:
		return nil, damaged(k, err)
	case item.Version() != d.seen:
		return nil, changed
	}
	return d.entries, nil
}

// belongings are what a run leaves, as deletions.
type belongings struct {
	entries []entry
	files   []digest // that lose a user
	more    bool     // there is more than fits into a transaction
}

// belongings lists them. What an index says goes together with what it is about:
// a ticket with its indexes, a file's users with the run's list of files.
func (v *view) belongings(ctx context.Context, run batch.RunID, most limits) (b belongings, err error) {
	var size load
	add := func(keys ...[]byte) bool {
		var es []entry
		for _, k := range keys {
			es = append(es, entry{key: k})
		}
		n := size.plus(most.measure(es))
		if b.more = most.admit(n) != nil; !b.more {
			b.entries, size = append(b.entries, es...), n
		}
		return !b.more
	}
	err = v.scan(ctx, key(kindRunTicket, string(run)), nil, false, func(k, _ []byte) (bool, error) {
		id, err := ticketOf(k)
		if err != nil {
			return false, damaged(k, err)
		}
		return add(ticketKey(id), openTicketKey(id), bytes.Clone(k)), nil
	})
	prefix := key(kindFile, string(run))
	if err == nil && !b.more {
		err = v.scan(ctx, prefix, nil, true, func(k, rec []byte) (bool, error) {
			d, err := decodeFile(rec)
			if err != nil {
				return false, damaged(k, err)
			}
			if !add(userKey(d, k[len(prefix):]), bytes.Clone(k)) {
				return false, nil
			}
			b.files = append(b.files, d)
			return true, nil
		})
	}
	for _, kind := range ownKinds {
		if err != nil || b.more {
			break
		}
		err = v.scan(ctx, key(kind, string(run)), nil, false, func(k, _ []byte) (bool, error) {
			return add(bytes.Clone(k)), nil
		})
	}
	return b, err
}

// certain is a set of entries that nothing can contradict.
type certain []entry

func (c certain) plan(*view) ([]entry, error) { return c, nil }

// sweep removes what is left of a run that is marked as deleted.
func (s *Store) sweep(ctx context.Context, run batch.RunID) error {
	for more := true; more; {
		var b belongings
		err := s.view("run "+string(run), func(v *view) (err error) {
			b, err = v.belongings(ctx, run, s.limits)
			return err
		})
		if err == nil {
			err = s.writer.submit(ctx, certain(b.entries), s.writeGroup)
		}
		if more = b.more; err == nil && !more {
			// On its own, so that the mark can never be gone before what it stands for.
			err = s.writer.submit(ctx, certain{{key: dyingKey(run)}}, s.writeGroup)
		}
		if err != nil {
			return fmt.Errorf("run %s is deleted, but what it leaves is still there until the next start: %w", run, err)
		}
		s.files.removeUnused(b.files)
	}
	return nil
}

// sweepDead finishes what a killed process left.
func (s *Store) sweepDead(ctx context.Context) error {
	var dead []batch.RunID
	err := s.view("deleted runs", func(v *view) error {
		return v.scan(ctx, []byte{kindDying}, nil, false, func(k, _ []byte) (bool, error) {
			name, _, err := cutName(k)
			if err != nil {
				return false, damaged(k, err)
			}
			dead = append(dead, batch.RunID(name))
			return true, nil
		})
	})
	for _, run := range dead {
		if err == nil {
			err = s.sweep(ctx, run)
		}
	}
	return err
}

// fileUsed reports whether a stored record has a part in a file.
func (s *Store) fileUsed(d digest) (used bool, err error) {
	err = s.view("files", func(v *view) error {
		return v.scan(context.Background(), userKey(d, nil), nil, false, func(_, _ []byte) (bool, error) {
			used = true
			return false, nil
		})
	})
	return used, err
}

// sweepFiles removes the files that a killed process left behind.
func (s *Store) sweepFiles(ctx context.Context) {
	err := s.files.each(ctx, func(_ string, d digest, ok bool) error {
		if !ok {
			return nil
		}
		leave, err := s.enter(ctx, "files")
		if err != nil {
			return err
		}
		defer leave()
		return s.files.removeOne(d)
	})
	if err != nil && ctx.Err() == nil {
		s.log.log.Warn("files that nothing refers to stay behind", "err", err)
	}
}
