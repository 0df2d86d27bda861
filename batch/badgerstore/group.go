package badgerstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// planner is a change that knows what it writes once it sees the store.
type planner interface {
	plan(*view) ([]entry, error)
}

// waiting is one change on its way through the writer.
type waiting struct {
	planner
	err  error
	wake chan bool // true: lead the next group; false: done. nil for a lone one
	led  bool      // told to lead: it may no longer withdraw. Guarded by writer.mu
}

// writer lets one group of changes at a time into the store. There is no writer
// goroutine: whoever finds the store idle leads, and a leader that is done hands
// over to the first of those who came meanwhile, who takes all of them along.
type writer struct {
	mu    sync.Mutex
	busy  bool
	queue []*waiting
}

// submit runs p through the writer and returns its result. A context that ends
// while p still waits withdraws it; afterwards the outcome is awaited.
func (w *writer) submit(ctx context.Context, p planner, write func([]*waiting)) error {
	me := &waiting{planner: p}
	w.mu.Lock()
	if !w.busy {
		w.busy = true
		w.mu.Unlock()
		w.lead([]*waiting{me}, me, write)
		return me.err
	}
	me.wake = make(chan bool, 1)
	w.queue = append(w.queue, me)
	w.mu.Unlock()

	var lead bool
	select {
	case lead = <-me.wake:
	case <-ctx.Done():
		if w.withdraw(me) {
			return ctx.Err()
		}
		lead = <-me.wake
	}
	if lead {
		w.mu.Lock()
		group := w.queue
		w.queue = nil
		w.mu.Unlock()
		w.lead(group, me, write)
	}
	return me.err
}

func (w *writer) withdraw(me *waiting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, me)
	if i < 0 || me.led {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

func (w *writer) lead(group []*waiting, me *waiting, write func([]*waiting)) {
	write(group)
	w.mu.Lock()
	if len(w.queue) == 0 {
		w.busy = false
	} else {
		next := w.queue[0]
		next.led = true
		next.wake <- true
	}
	w.mu.Unlock()
	for _, m := range group {
		if m != me {
			m.wake <- false
		}
	}
}

// piece is what one transaction writes.
type piece struct {
	members []*waiting
	entries []entry
	size    load
}

// writeGroup checks every change of the group before it writes anything, then
// writes those that hold, in as few transactions as their size allows.
func (s *Store) writeGroup(group []*waiting) {
	defer func() {
		if p := recover(); p != nil {
			err := s.fail(fmt.Errorf("panic while writing: %v", p))
			for _, m := range group {
				m.err = err
			}
		}
	}()
	if err := s.failure(); err != nil {
		for _, m := range group {
			m.err = err
		}
		return
	}
	txn := s.db.NewTransactionAt(math.MaxUint64, true)
	defer func() { txn.Discard() }()
	pieces := s.planGroup(&view{txn: txn, files: s.files, heads: &s.heads}, group)
	for i, p := range pieces {
		if i > 0 {
			txn.Discard()
			txn = s.db.NewTransactionAt(math.MaxUint64, true)
		}
		err := s.writePiece(txn, p)
		if err == nil {
			s.heads.put(p.entries)
		} else {
			s.heads.drop()
			// Later pieces may build on this one.
			for _, p := range pieces[i:] {
				for _, m := range p.members {
					m.err = err
				}
			}
			return
		}
	}
}

func (s *Store) planGroup(v *view, group []*waiting) []piece {
	if len(group) > 1 {
		v.pending = make(map[string][]byte, 8*len(group))
	}
	var pieces []piece
	for _, m := range group {
		entries, err := m.plan(v)
		if err != nil {
			m.err = err
			continue
		}
		if len(entries) == 0 {
			continue
		}
		size := s.limits.measure(entries)
		if err := s.limits.admit(size); err != nil {
			m.err = err
			continue
		}
		last := len(pieces) - 1
		if last < 0 || s.limits.admit(pieces[last].size.plus(size)) != nil {
			pieces = append(pieces, piece{})
			last++
		}
		pieces[last].members = append(pieces[last].members, m)
		pieces[last].entries = append(pieces[last].entries, entries...)
		pieces[last].size = pieces[last].size.plus(size)
		if len(group) > 1 {
			v.apply(entries)
		}
	}
	return pieces
}

// discardEvery is after how many transactions Badger hears what it may discard.
const discardEvery = 64

// writePiece is durable when it returns nil, and only then do readers see it.
func (s *Store) writePiece(txn *badger.Txn, p piece) error {
	for _, e := range p.entries {
		var err error
		if e.value == nil {
			err = txn.Delete(e.key)
		} else {
			err = txn.Set(e.key, e.value)
		}
		if err != nil {
			// Nothing is written before Commit.
			return fmt.Errorf("record %q: %w", e.key, err)
		}
	}
	if s.wal != nil {
		s.wal.prepare(p.size.bytes)
	}
	s.now++
	if err := txn.CommitAt(s.now, nil); err != nil {
		return s.fail(err)
	}
	// Badger logs a failed sync of its value log and goes on.
	if err := s.log.syncFailure(); err != nil {
		return s.fail(err)
	}
	if s.wal != nil {
		if err := s.wal.commit(); err != nil {
			return s.fail(err)
		}
	}
	if s.sync {
		if err := s.folder.syncIfChanged(); err != nil {
			return s.fail(err)
		}
	}
	s.timeline.advance(s.now)
	s.open.put(p.entries)
	if s.now%discardEvery == 0 {
		s.db.SetDiscardTs(s.timeline.oldest())
	}
	return nil
}

// load is what entries weigh in a transaction.
type load struct {
	entries int
	bytes   int64
	largest int // value
}

func (l load) plus(o load) load {
	return load{l.entries + o.entries, l.bytes + o.bytes, max(l.largest, o.largest)}
}

// limits keep a transaction within what Badger takes: it finds out too late by
// itself, when part of the entries are set.
type limits struct{ load }

// entryOverhead is above what Badger adds to an entry: version, metadata, value
// pointer, and its own reserve.
const entryOverhead = 48

func (l *limits) measure(entries []entry) load {
	m := load{entries: len(entries)}
	for _, e := range entries {
		m.bytes += int64(len(e.key)+len(e.value)) + entryOverhead
		m.largest = max(m.largest, len(e.value))
	}
	return m
}

func (l *limits) admit(m load) error {
	if m.entries > l.entries || m.bytes > l.bytes || m.largest > l.largest {
		return fmt.Errorf("%d records with %d bytes, the largest of %d, at most %d with %d and %d are allowed: %w",
			m.entries, m.bytes, m.largest, l.entries, l.bytes, l.largest, batch.ErrTooLarge)
	}
	return nil
}
