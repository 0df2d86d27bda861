package badgerstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// view is what the writer sees: the stored records, under what the commits
// before this one in the group are about to write.
type view struct {
	txn     *badger.Txn
	files   *files
	heads   *heads            // nil: none remembered
	pending map[string][]byte // nil value: deleted
}

// get returns the record of a key in one piece, nil when there is none. It is read
// only.
func (v *view) get(key []byte) ([]byte, error) {
	rec, err := v.raw(key)
	if err != nil || rec == nil {
		return nil, err
	}
	return v.whole(key, rec)
}

// whole fetches what a record has left to a file.
func (v *view) whole(key, rec []byte) ([]byte, error) {
	d, size, ok, err := elsewhere(rec)
	switch {
	case err != nil:
		return nil, damaged(key, err)
	case !ok:
		return rec, nil
	}
	rec, err = join(rec, size, func(p []byte) error { return v.files.read(d, p) })
	switch {
	case errors.Is(err, errFileGone), errors.Is(err, batch.ErrCorrupt):
		return nil, damaged(key, err)
	case err != nil:
		return nil, fmt.Errorf("record %q: %w", key, err)
	}
	return rec, nil
}

// raw returns the record as it is stored.
func (v *view) raw(key []byte) ([]byte, error) {
	if rec, ok := v.pending[string(key)]; ok {
		return rec, nil
	}
	if v.heads != nil {
		if rec := v.heads.get(key); rec != nil {
			return rec, nil
		}
	}
	item, err := v.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(key, err)
	}
	rec, err := item.ValueCopy(nil)
	if err != nil {
		return nil, damaged(key, err)
	}
	return rec, nil
}

func (v *view) has(key []byte) (bool, error) {
	if rec, ok := v.pending[string(key)]; ok {
		return rec != nil, nil
	}
	_, err := v.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, damaged(key, err)
	}
	return true, nil
}

func (v *view) apply(entries []entry) {
	for _, e := range entries {
		v.pending[string(e.key)] = e.value
	}
}

// damaged reports a record that cannot be read.
func damaged(key []byte, err error) error {
	return fmt.Errorf("record %q: %w: %w: %s", key, batch.ErrCorrupt, err, remedy)
}

// plan checks the change against v and returns everything it writes. It changes
// nothing.
func (ch *change) plan(v *view) ([]entry, error) {
	ch.left = nil
	t, err := ch.checkRun(v)
	if err != nil {
		return nil, err
	}
	entries := ch.records
	if ch.batch != nil {
		if entries, err = ch.planBatch(v, entries); err != nil {
			return nil, err
		}
	}
	for _, k := range ch.decisions {
		exists, err := v.has(k)
		if err != nil {
			return nil, err
		}
		if exists {
			return nil, fmt.Errorf("decision %q exists already: %w", k, batch.ErrConflict)
		}
	}
	if entries, err = ch.planTickets(v, entries); err != nil {
		return nil, err
	}
	for _, e := range ch.state {
		old, err := v.raw(e.key)
		switch {
		case err != nil:
			return nil, err
		case old != nil && e.value == nil:
			t.stateKeys--
		case old == nil && e.value != nil:
			t.stateKeys++
		case old == nil:
			continue // deleting what is not there
		}
		if entries, err = ch.replace(entries, e.key, old, e.value); err != nil {
			return nil, err
		}
		entries = append(entries, e.entry)
	}
	t.version, t.fence, t.lastSeq = ch.expect+1, ch.fence, ch.lastSeq
	t.decisions += uint64(len(ch.decisions))
	rec, err := encodeRun(t, ch.head)
	if err != nil {
		return nil, invalid("its record cannot be encoded: %v", err)
	}
	return append(entries, entry{runKey(ch.run), rec}), nil
}

// checkRun holds expected version, fence and event numbers against the stored
// run.
func (ch *change) checkRun(v *view) (tally, error) {
	k := runKey(ch.run)
	rec, err := v.get(k)
	if err != nil {
		return tally{}, err
	}
	var t tally
	if rec == nil && ch.expect == 0 {
		dying, err := v.has(dyingKey(ch.run))
		if err != nil {
			return t, err
		}
		if dying {
			return t, fmt.Errorf("it is just being deleted: %w", batch.ErrConflict)
		}
	}
	if rec != nil {
		if t, err = decodeTally(rec); err != nil {
			return t, damaged(k, err)
		}
	}
	switch {
	case ch.expect == 0 && rec != nil:
		return t, fmt.Errorf("it exists already, at version %d: %w", t.version, batch.ErrConflict)
	case ch.expect != 0 && rec == nil:
		return t, fmt.Errorf("expected at version %d, it does not exist: %w", ch.expect, batch.ErrConflict)
	case rec != nil && t.fence != ch.fence:
		return t, fmt.Errorf("owner %q holds it at epoch %d, the commit is by %q at epoch %d: %w",
			t.fence.Owner, t.fence.Epoch, ch.fence.Owner, ch.fence.Epoch, batch.ErrFenced)
	case t.version != ch.expect:
		return t, fmt.Errorf("it is at version %d, the commit expects %d: %w", t.version, ch.expect, batch.ErrConflict)
	case t.lastSeq+uint64(ch.events) != ch.lastSeq:
		return t, invalid("its last event is %d, %d more do not make last_seq %d", t.lastSeq, ch.events, ch.lastSeq)
	}
	return t, nil
}

func (ch *change) planBatch(v *view, entries []entry) ([]entry, error) {
	b := ch.batch
	k := stepKey(kindBatch, b.Run, b.Step)
	rec, err := v.get(k)
	if err != nil {
		return nil, err
	}
	var h batchHead
	wasOpen := false
	switch {
	case ch.newBatch && rec != nil:
		return nil, fmt.Errorf("batch %s exists already: %w", b.ID(), batch.ErrConflict)
	case ch.newBatch:
		h = newBatchHead(len(b.Calls))
	case rec == nil:
		return nil, fmt.Errorf("batch %s: %w", b.ID(), batch.ErrNotFound)
	default:
		if h, err = decodeBatchHead(rec); err != nil {
			return nil, damaged(k, err)
		}
		if h.calls != len(b.Calls) {
			return nil, invalid("batch %s has %d calls, the commit has %d", b.ID(), h.calls, len(b.Calls))
		}
		wasOpen = h.phase != batch.BatchFinalized
	}
	dirty := ch.newBatch || h.phase != b.Phase || !h.finalizedAt.Equal(b.FinalizedAt)
	for _, i := range ch.changed {
		large := ch.hasFile(callKey(b.Run, b.Step, i))
		if h.isLarge(i) {
			k := callKey(b.Run, b.Step, i)
			old, err := v.raw(k)
			if err != nil {
				return nil, err
			}
			if entries, err = ch.replace(entries, k, old, ch.record(k)); err != nil {
				return nil, err
			}
		}
		dirty = dirty || !h.hasMoved(i) || h.isLarge(i) != large
		h.setMoved(i)
		h.setLarge(i, large)
	}
	if !dirty {
		return entries, nil
	}
	h.phase, h.finalizedAt = b.Phase, b.FinalizedAt
	head, err := encodeBatchHead(h)
	if err != nil {
		return nil, invalid("batch %s cannot be encoded: %v", b.ID(), err)
	}
	entries = append(entries, entry{k, head})
	open := b.Phase != batch.BatchFinalized
	if open != wasOpen {
		e := entry{key: stepKey(kindOpenBatch, b.Run, b.Step)}
		if open {
			e.value = encodeIndex(kindOpenBatch)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// planTickets refuses to take over a ticket of another run.
func (ch *change) planTickets(v *view, entries []entry) ([]entry, error) {
	for _, t := range ch.tickets {
		k := ticketKey(t.ID)
		old, err := v.raw(k)
		if err != nil {
			return nil, err
		}
		if old == nil {
			continue
		}
		rec, err := v.whole(k, old)
		if err != nil {
			return nil, err
		}
		was, err := decodeJSON[batch.Ticket](kindTicket, rec)
		if err != nil {
			return nil, damaged(k, err)
		}
		if was.Run != ch.run {
			return nil, fmt.Errorf("ticket %s exists already, for run %s: %w", t.ID, was.Run, batch.ErrConflict)
		}
		if entries, err = ch.replace(entries, k, old, ch.record(k)); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// record is what the change puts at a key, as far as that was known beforehand.
func (ch *change) record(key []byte) []byte {
	for _, e := range ch.records {
		if bytes.Equal(e.key, key) {
			return e.value
		}
	}
	return nil
}

// hasFile says whether the record that the change puts at a key has a file.
func (ch *change) hasFile(key []byte) bool {
	if len(ch.files) == 0 {
		return false
	}
	_, _, ok, _ := elsewhere(ch.record(key))
	return ok
}

// replace takes back what the indexes say of the file of a record that is
// replaced; that of the new one is among the records.
func (ch *change) replace(entries []entry, key, old, rec []byte) ([]entry, error) {
	was, _, had, err := elsewhere(old)
	if err != nil {
		return nil, damaged(key, err)
	}
	is, _, has, _ := elsewhere(rec)
	if !had || has && is == was {
		return entries, nil
	}
	ch.left = append(ch.left, was)
	entries = append(entries, entry{key: userKey(was, key)})
	if !has {
		entries = append(entries, entry{key: fileKey(ch.run, key)})
	}
	return entries, nil
}

// claim is the change that Claim asks for.
type claim struct {
	run   batch.RunID
	fence batch.Fence
	after *batch.Run // set by plan
}

func (c *claim) plan(v *view) ([]entry, error) {
	k := runKey(c.run)
	rec, err := v.get(k)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, batch.ErrNotFound
	}
	r, t, err := decodeRun(rec)
	if err != nil {
		return nil, damaged(k, err)
	}
	c.after = r
	if r.Fence == c.fence {
		return nil, nil
	}
	if c.fence.Epoch <= r.Fence.Epoch {
		return nil, fmt.Errorf("owner %q holds it at epoch %d, %q may not claim it at epoch %d: %w",
			r.Fence.Owner, r.Fence.Epoch, c.fence.Owner, c.fence.Epoch, batch.ErrFenced)
	}
	r.Fence = c.fence
	r.Version++
	t.fence, t.version = r.Fence, r.Version
	after, err := encodeRun(t, r)
	if err != nil {
		return nil, invalid("its record cannot be encoded: %v", err)
	}
	return []entry{{k, after}}, nil
}
