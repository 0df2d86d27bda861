package badgerstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
)

// runs looks at what the records of a run say together.
func (x *examination) runs(ctx context.Context) error {
	return x.v.scan(ctx, []byte{kindRun}, nil, true, func(k, rec []byte) (bool, error) {
		x.r.Runs++
		name, _, err := cutName(k)
		if err != nil {
			return true, nil // a stray
		}
		id := batch.RunID(name)
		if _, hurt := x.damaged[id]; hurt {
			return true, nil
		}
		r, t, err := decodeRun(rec)
		if err == nil && r.ID != id {
			err = fmt.Errorf("it is of run %q", string(r.ID))
		}
		if err != nil {
			x.hurt(id, quote(k), "%v", err)
			return true, nil
		}
		return true, x.run1(ctx, r, t)
	})
}

func (x *examination) run1(ctx context.Context, r *batch.Run, t tally) error {
	if err := x.counts(ctx, r.ID, t); err != nil {
		return err
	}
	if err := x.events(ctx, r.ID, t); err != nil {
		return err
	}
	return x.batches(ctx, r)
}

// counts holds the numbers of decisions and state keys against the head's.
func (x *examination) counts(ctx context.Context, id batch.RunID, t tally) error {
	for _, c := range []struct {
		kind byte
		what string
		want uint64
	}{{kindDecision, "decisions", t.decisions}, {kindState, "state keys", t.stateKeys}} {
		prefix, have := key(c.kind, string(id)), uint64(0)
		err := x.v.scan(ctx, prefix, nil, false, func(_, _ []byte) (bool, error) {
			have++
			return true, nil
		})
		if err != nil {
			return err
		}
		if have != c.want {
			x.hurt(id, quote(prefix), "there are %d %s, the head of the run says %d", have, c.what, c.want)
		}
	}
	return nil
}

func (x *examination) events(ctx context.Context, id batch.RunID, t tally) error {
	prefix, next := key(kindEvents, string(id)), uint64(1)
	err := x.v.scan(ctx, prefix, nil, true, func(k, rec []byte) (bool, error) {
		events, err := decodeEvents(rec)
		if err != nil {
			return false, nil // reported with the record
		}
		for _, e := range events {
			if e.Seq != next {
				x.hurt(id, quote(k), "event %d follows %d", e.Seq, next-1)
				return false, nil
			}
			next++
		}
		return true, nil
	})
	if _, hurt := x.damaged[id]; err == nil && !hurt && next-1 != t.lastSeq {
		x.hurt(id, quote(prefix), "the last event is %d, the head of the run says %d", next-1, t.lastSeq)
	}
	return err
}

// batches reads every batch, and holds the index of open ones against them.
func (x *examination) batches(ctx context.Context, r *batch.Run) error {
	open := 0
	seen := map[int]bool{}
	err := x.v.scan(ctx, key(kindBatch, string(r.ID)), nil, false, func(k, _ []byte) (bool, error) {
		_, step, err := cutStep(k)
		if err != nil {
			x.hurt(r.ID, quote(k), "%v", err)
			return true, nil
		}
		seen[step] = true
		b, err := x.v.batch(ctx, r.ID, step)
		if err != nil {
			if _, known := x.damaged[r.ID]; !known {
				x.hurt(r.ID, quote(k), "%v", trimRemedy(err))
			}
			return true, nil
		}
		isOpen := b.Phase != batch.BatchFinalized
		if isOpen {
			open = step
		}
		indexKey := stepKey(kindOpenBatch, r.ID, step)
		listed, err := x.v.has(indexKey)
		switch {
		case err != nil:
			return false, err
		case isOpen && !listed:
			x.index(r.ID, indexKey, "the index of open batches does not have it", entry{indexKey, encodeIndex(kindOpenBatch)})
		case !isOpen && listed:
			x.index(r.ID, indexKey, "the index of open batches has it, though it is finalized", entry{key: indexKey})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if r.OpenStep != open && r.OpenStep != 0 {
		x.hurt(r.ID, quote(runKey(r.ID)), "it says that step %d is open, the batches say %d", r.OpenStep, open)
	}
	// A batch that lost its head shows by its other records.
	for _, kind := range []byte{kindPayload, kindCall} {
		prefix := key(kind, string(r.ID))
		err := x.v.scan(ctx, prefix, nil, false, func(k, _ []byte) (bool, error) {
			rest := k[len(prefix):]
			if len(rest) < numberBytes || !seen[int(binary.BigEndian.Uint64(rest))] {
				x.hurt(r.ID, quote(k), "its batch has no head")
				return false, nil
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// indexes looks at the index records, each by what it is about.
func (x *examination) indexes(ctx context.Context) error {
	for _, of := range []struct {
		kind  byte
		check func(k, rec []byte) error
	}{
		{kindTicket, x.ticketIndexes}, {kindRunTicket, x.listedTicket}, {kindOpenTicket, x.listedTicket},
		{kindOpenBatch, x.listedBatch}, {kindUser, x.listedUser}, {kindFile, x.listedFile},
	} {
		err := x.v.scanRaw(ctx, []byte{of.kind}, func(k, rec []byte) (bool, error) { return true, of.check(k, rec) })
		if err != nil {
			return err
		}
	}
	return nil
}

// ticketIndexes holds the indexes against a ticket.
func (x *examination) ticketIndexes(k, rec []byte) error {
	rec, err := x.v.whole(k, rec)
	if err != nil {
		return nil // reported with the record
	}
	t, err := decodeJSON[*batch.Ticket](kindTicket, rec)
	if err != nil || t == nil {
		return nil
	}
	if lives, err := x.lives(t.Run); err != nil || !lives {
		return err
	}
	open, err := x.v.has(openTicketKey(t.ID))
	if err != nil {
		return err
	}
	if want := t.Status == batch.TicketOpen; open != want {
		e := entry{key: openTicketKey(t.ID)}
		if want {
			e.value = encodeIndex(kindOpenTicket)
		}
		x.index(t.Run, e.key, fmt.Sprintf("the ticket is %s, the index of open ones says otherwise", t.Status), e)
	}
	listed, err := x.v.has(runTicketKey(t.Run, t.ID))
	if err == nil && !listed {
		e := entry{runTicketKey(t.Run, t.ID), encodeIndex(kindRunTicket)}
		x.index(t.Run, e.key, "the index of the run's tickets does not have it", e)
	}
	return err
}

// listedTicket looks for the ticket that an index names. A ticket that is gone is
// damage of its run; an index of open tickets alone does not know the run.
func (x *examination) listedTicket(k, _ []byte) error {
	id, err := ticketOf(k)
	if err != nil {
		x.index("", k, err.Error(), entry{key: clone(k)})
		return nil
	}
	exists, err := x.v.has(ticketKey(id))
	if err != nil || exists {
		return err
	}
	if k[0] == kindOpenTicket {
		x.index("", k, fmt.Sprintf("there is no ticket %s", id), entry{key: clone(k)})
		return nil
	}
	name, _, _ := cutName(k)
	lives, err := x.lives(batch.RunID(name))
	if lives {
		x.hurt(batch.RunID(name), quote(k), "its ticket %s is missing", id)
	} else if err == nil {
		x.index("", k, fmt.Sprintf("there is no ticket %s", id), entry{key: clone(k)})
	}
	return err
}

func (x *examination) listedBatch(k, _ []byte) error {
	run, step, err := cutStep(k)
	if err != nil {
		x.index("", k, err.Error(), entry{key: clone(k)})
		return nil
	}
	exists, err := x.v.has(stepKey(kindBatch, run, step))
	if err != nil || exists {
		return err
	}
	lives, err := x.lives(run)
	if lives {
		x.hurt(run, quote(k), "its batch is missing")
	} else if err == nil {
		x.index("", k, "there is no such batch", entry{key: clone(k)})
	}
	return err
}

// listedUser removes what an index of files says of a record that does not use the
// file.
func (x *examination) listedUser(k, _ []byte) error {
	d, ok := userOf(k)
	if !ok {
		x.index("", k, "it names no file and record", entry{key: clone(k)})
		return nil
	}
	rec, err := x.v.raw(k[1+len(d):])
	if err != nil {
		return err
	}
	if is, _, has, _ := elsewhere(rec); !has || is != d {
		x.index("", k, "the record does not use this file", entry{key: clone(k)})
	}
	return nil
}

func (x *examination) listedFile(k, rec []byte) error {
	name, recordKey, err := cutName(k)
	if err != nil || len(recordKey) == 0 {
		x.index("", k, "it names no run and record", entry{key: clone(k)})
		return nil
	}
	have, err := x.v.raw(recordKey)
	if err != nil {
		return err
	}
	if _, _, has, _ := elsewhere(have); !has {
		x.index(batch.RunID(name), k, "the record has no file", entry{key: clone(k)})
	}
	return nil
}

func clone(p []byte) []byte { return append([]byte(nil), p...) }

// trimRemedy leaves out what Open and the read methods advise.
func trimRemedy(err error) string { return strings.TrimSuffix(err.Error(), ": "+remedy) }
