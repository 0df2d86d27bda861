package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// read runs fn on one consistent view of the store.
func (s *Store) read(ctx context.Context, subject string, fn func(*view) error) error {
	leave, err := s.enter(ctx, subject)
	if err != nil {
		return err
	}
	defer leave()
	return s.view(subject, fn)
}

// view is read for those who have entered. It calls fn again when a file was
// removed under its feet, together with the record that named it.
func (s *Store) view(subject string, fn func(*view) error) error {
	err := s.viewOnce(subject, fn)
	for range 3 {
		if !errors.Is(err, errFileGone) {
			break
		}
		err = s.viewOnce(subject, fn)
	}
	return err
}

func (s *Store) viewOnce(subject string, fn func(*view) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			err = fmt.Errorf("%s: %w: Badger cannot read it (%s): %s", subject, batch.ErrCorrupt, text, remedy)
		}
	}()
	at := s.timeline.begin()
	defer s.timeline.end(at)
	txn := s.db.NewTransactionAt(at, false)
	defer txn.Discard()
	if err := fn(&view{txn: txn, files: s.files}); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// scan calls fn with the records whose keys start with prefix, in order, from
// the first that is not below from, until fn returns false. Without values fn
// gets nil records. Key and record are valid during the call only.
func (v *view) scan(ctx context.Context, prefix, from []byte, values bool, fn func(key, rec []byte) (bool, error)) error {
	it := v.txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	if from == nil {
		from = prefix
	}
	for it.Seek(from); it.ValidForPrefix(prefix); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := it.Item()
		more := true
		call := func(rec []byte) (err error) {
			more, err = fn(item.Key(), rec)
			return err
		}
		var err error
		if values {
			var inner error
			err = item.Value(func(rec []byte) error {
				if rec, inner = v.whole(item.Key(), rec); inner == nil {
					inner = call(rec)
				}
				return nil
			})
			if err != nil {
				return damaged(item.KeyCopy(nil), err)
			}
			err = inner
		} else {
			err = call(nil)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// scanRaw is scan with every record as it is stored.
func (v *view) scanRaw(ctx context.Context, prefix []byte, fn func(key, rec []byte) (bool, error)) error {
	it := v.txn.NewIterator(badger.IteratorOptions{Prefix: prefix, PrefetchValues: true, PrefetchSize: 16})
	defer it.Close()
	for it.Rewind(); it.ValidForPrefix(prefix); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := it.Item()
		var more bool
		var inner error
		err := item.Value(func(rec []byte) error {
			more, inner = fn(item.Key(), rec)
			return nil
		})
		if err != nil {
			return damaged(item.KeyCopy(nil), err)
		}
		if inner != nil || !more {
			return inner
		}
	}
	return nil
}
