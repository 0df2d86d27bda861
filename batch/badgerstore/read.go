package badgerstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/awaken-agents/awaken-host/batch"
)

func (v *view) run(id batch.RunID) (*batch.Run, tally, error) {
	k := runKey(id)
	rec, err := v.get(k)
	if err != nil {
		return nil, tally{}, err
	}
	if rec == nil {
		return nil, tally{}, batch.ErrNotFound
	}
	r, t, err := decodeRun(rec)
	if err != nil {
		return nil, t, damaged(k, err)
	}
	if r.ID != id {
		return nil, t, damaged(k, fmt.Errorf("it is of run %q", string(r.ID)))
	}
	return r, t, nil
}

// tally is that of a run, false for an unknown one.
func (v *view) tally(id batch.RunID) (t tally, exists bool, err error) {
	rec, err := v.get(runKey(id))
	if err != nil || rec == nil {
		return tally{}, false, err
	}
	if t, err = decodeTally(rec); err != nil {
		err = damaged(runKey(id), err)
	}
	return t, true, err
}

// Run implements batch.Store.
func (s *Store) Run(ctx context.Context, run batch.RunID) (r *batch.Run, err error) {
	err = s.read(ctx, "run "+string(run), func(v *view) error {
		r, _, err = v.run(run)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Runs implements batch.Store.
func (s *Store) Runs(ctx context.Context, after batch.RunID, limit int) (out []*batch.Run, err error) {
	err = s.read(ctx, "runs", func(v *view) error {
		out = nil
		from := []byte{kindRun}
		if after != "" {
			from = append(runKey(after), nameEnd) // the first key behind it
		}
		return v.scan(ctx, []byte{kindRun}, from, true, func(k, rec []byte) (bool, error) {
			r, _, err := decodeRun(rec)
			if err != nil {
				return false, damaged(k, err)
			}
			out = append(out, r)
			return limit <= 0 || len(out) < limit, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Open implements batch.Store.
func (s *Store) Open(ctx context.Context) ([]batch.BatchID, error) {
	leave, err := s.enter(ctx, "open batches")
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.open.list()
}

// Batch implements batch.Store.
func (s *Store) Batch(ctx context.Context, run batch.RunID, step int) (b *batch.Batch, err error) {
	err = s.read(ctx, "batch "+string(batch.NewBatchID(run, step)), func(v *view) error {
		b, err = v.batch(ctx, run, step)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (v *view) batch(ctx context.Context, run batch.RunID, step int) (*batch.Batch, error) {
	headKey, payloadKey := stepKey(kindBatch, run, step), stepKey(kindPayload, run, step)
	if exists, err := v.has(runKey(run)); err != nil || !exists {
		return nil, cmp.Or(err, batch.ErrNotFound)
	}
	rec, err := v.get(headKey)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, batch.ErrNotFound
	}
	h, err := decodeBatchHead(rec)
	if err != nil {
		return nil, damaged(headKey, err)
	}
	if rec, err = v.get(payloadKey); err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, damaged(payloadKey, fmt.Errorf("it is missing"))
	}
	b, err := decodePayload(run, step, rec)
	if err != nil {
		return nil, damaged(payloadKey, err)
	}
	if len(b.Calls) != h.calls {
		return nil, damaged(payloadKey, fmt.Errorf("it has %d calls, the head says %d", len(b.Calls), h.calls))
	}
	b.Phase, b.FinalizedAt = h.phase, h.finalizedAt
	if err := v.calls(ctx, b, h); err != nil {
		return nil, err
	}
	if err := b.Validate(); err != nil {
		return nil, damaged(headKey, err)
	}
	return b, nil
}

// calls fills in the calls that have moved.
func (v *view) calls(ctx context.Context, b *batch.Batch, h batchHead) error {
	missing := h.moved
	err := v.scan(ctx, stepKey(kindCall, b.Run, b.Step), nil, true, func(k, rec []byte) (bool, error) {
		i, err := cutIndex(k)
		if err == nil && (i >= len(b.Calls) || !h.hasMoved(i)) {
			err = fmt.Errorf("the head does not know it")
		}
		if err == nil {
			err = decodeCall(&b.Calls[i], rec)
		}
		if err != nil {
			return false, damaged(k, err)
		}
		missing[i/8] &^= 1 << (i % 8)
		return true, nil
	})
	if err != nil {
		return err
	}
	for i := range b.Calls {
		if h.hasMoved(i) {
			return damaged(callKey(b.Run, b.Step, i), fmt.Errorf("it is missing"))
		}
	}
	return nil
}

// Ticket implements batch.Store.
func (s *Store) Ticket(ctx context.Context, id batch.TicketID) (t *batch.Ticket, err error) {
	err = s.read(ctx, "ticket "+string(id), func(v *view) error {
		if t, err = v.ticket(id); err != nil {
			return err
		}
		if exists, err := v.has(runKey(t.Run)); err != nil || !exists {
			return cmp.Or(err, batch.ErrNotFound)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (v *view) ticket(id batch.TicketID) (*batch.Ticket, error) {
	k := ticketKey(id)
	rec, err := v.get(k)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, batch.ErrNotFound
	}
	t, err := decodeJSON[*batch.Ticket](kindTicket, rec)
	if err == nil && (t == nil || t.ID != id) {
		err = fmt.Errorf("it is not of ticket %q", string(id))
	}
	if err != nil {
		return nil, damaged(k, err)
	}
	return t, nil
}

// Tickets implements batch.Store.
func (s *Store) Tickets(ctx context.Context, f batch.TicketFilter) (out []*batch.Ticket, err error) {
	prefix := []byte{kindTicket}
	switch {
	case f.Run != "":
		prefix = key(kindRunTicket, string(f.Run))
	case f.Open:
		prefix = []byte{kindOpenTicket}
	}
	err = s.read(ctx, "tickets", func(v *view) error {
		out = nil
		alive := map[batch.RunID]bool{}
		return v.scan(ctx, prefix, nil, false, func(k, _ []byte) (bool, error) {
			id, err := ticketOf(k)
			if err != nil {
				return false, damaged(k, err)
			}
			t, err := v.ticket(id)
			if errors.Is(err, batch.ErrNotFound) {
				err = damaged(ticketKey(id), fmt.Errorf("it is missing"))
			}
			if err != nil {
				return false, err
			}
			lives, known := alive[t.Run]
			if !known {
				if lives, err = v.has(runKey(t.Run)); err != nil {
					return false, err
				}
				alive[t.Run] = lives
			}
			if lives && (!f.Open || t.Status == batch.TicketOpen) {
				out = append(out, t)
			}
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b *batch.Ticket) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Decisions implements batch.Store.
func (s *Store) Decisions(ctx context.Context, run batch.RunID) (out []*batch.DecisionRecord, err error) {
	prefix := key(kindDecision, string(run))
	err = s.read(ctx, "decisions of run "+string(run), func(v *view) error {
		out = nil
		t, exists, err := v.tally(run)
		if err != nil || !exists {
			return err
		}
		err = v.scan(ctx, prefix, nil, true, func(k, rec []byte) (bool, error) {
			d, err := decodeDecision(rec)
			if err != nil {
				return false, damaged(k, err)
			}
			out = append(out, d)
			return true, nil
		})
		return complete(err, prefix, uint64(len(out)), t.decisions)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// complete reports records that are missing from a listing: Badger ends a
// listing quietly where it cannot read on.
func complete(err error, prefix []byte, have, want uint64) error {
	if err == nil && have != want {
		err = damaged(prefix, fmt.Errorf("%d of %d records are there", have, want))
	}
	return err
}

// Events implements batch.Store.
func (s *Store) Events(ctx context.Context, run batch.RunID, after uint64, limit int) (out []batch.Event, err error) {
	prefix := key(kindEvents, string(run))
	err = s.read(ctx, "events of run "+string(run), func(v *view) error {
		out = nil
		t, _, err := v.tally(run)
		if err != nil || after >= t.lastSeq {
			return err
		}
		next, full := after+1, false
		err = v.scan(ctx, prefix, eventsKey(run, next), true, func(k, rec []byte) (bool, error) {
			events, err := decodeEvents(rec)
			if err != nil {
				return false, damaged(k, err)
			}
			for _, e := range events {
				if e.Seq <= after {
					continue
				}
				if e.Seq != next {
					return false, damaged(k, fmt.Errorf("event %d follows %d", e.Seq, next-1))
				}
				out = append(out, e)
				next++
				if full = limit > 0 && len(out) == limit; full {
					return false, nil
				}
			}
			return true, nil
		})
		if full {
			return err
		}
		return complete(err, prefix, next-1, t.lastSeq)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// State implements batch.Store.
func (s *Store) State(ctx context.Context, run batch.RunID) (map[string]json.RawMessage, error) {
	prefix := key(kindState, string(run))
	var out map[string]json.RawMessage
	err := s.read(ctx, "state of run "+string(run), func(v *view) error {
		out = map[string]json.RawMessage{}
		t, exists, err := v.tally(run)
		if err != nil || !exists {
			return err
		}
		err = v.scan(ctx, prefix, nil, true, func(k, rec []byte) (bool, error) {
			value, err := decodeValue(kindState, rec)
			if err != nil {
				return false, damaged(k, err)
			}
			out[string(k[len(prefix):])] = value
			return true, nil
		})
		return complete(err, prefix, uint64(len(out)), t.stateKeys)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
