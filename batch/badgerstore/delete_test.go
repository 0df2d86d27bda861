package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// finishedRun commits a run with a finalized batch, tickets and state.
func finishedRun(t testing.TB, s *Store, w int) *batch.Run {
	t.Helper()
	j := newJourney(w)
	c := j.request()
	for i := range 20 {
		c.Tickets = append(c.Tickets, &batch.Ticket{ID: batch.TicketID(fmt.Sprint("t", w, ".", i)), Run: c.Run.ID, Status: batch.TicketOpen})
		c.State = append(c.State, batch.StateWrite{Key: fmt.Sprint("k", i), Value: []byte(`1`)})
	}
	if err := s.Commit(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	for j.b.Next() >= 0 {
		c := j.move()
		if j.b.Next() < 0 {
			if err := j.b.Finalize(benchTime); err != nil {
				t.Fatal(err)
			}
			c.Run.OpenStep = 0
		}
		if err := s.Commit(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	return j.r
}

// keysOf lists every key that names a run.
func keysOf(t testing.TB, s *Store, run batch.RunID) (keys []string) {
	t.Helper()
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if k := string(it.Item().Key()); strings.Contains(k, string(run)) {
				keys = append(keys, k)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func ticketsLeft(t testing.TB, s *Store) int {
	t.Helper()
	n := 0
	for _, prefix := range []byte{kindTicket, kindOpenTicket} {
		err := s.view("tickets", func(v *view) error {
			return v.scan(context.Background(), []byte{prefix}, nil, false, func(_, _ []byte) (bool, error) {
				n++
				return true, nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestDeleteInPieces deletes a run that does not fit into a transaction, stops
// after each piece as a kill would, and looks at what the methods show.
func TestDeleteInPieces(t *testing.T) {
	ctx := context.Background()
	for pieces := 0; ; pieces++ {
		dir := t.TempDir()
		s, err := Open(dir, Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		r, other := finishedRun(t, s, 1), finishedRun(t, s, 2)
		all, kept, tickets := len(keysOf(t, s, r.ID)), keysOf(t, s, other.ID), ticketsLeft(t, s)
		s.limits.entries = 12

		d := &deletion{run: r.ID}
		if err := s.view("", func(v *view) error { return d.look(ctx, v, r.Version, s.limits) }); err != nil {
			t.Fatal(err)
		}
		if !d.mark {
			t.Fatal("the run fits into one transaction")
		}
		if err := s.writer.submit(ctx, d, s.writeGroup); err != nil {
			t.Fatal(err)
		}
		for range pieces {
			var b belongings
			err := s.view("", func(v *view) (err error) {
				b, err = v.belongings(ctx, r.ID, s.limits)
				return err
			})
			if err := errors.Join(err, s.writer.submit(ctx, certain(b.entries), s.writeGroup)); err != nil {
				t.Fatal(err)
			}
		}
		left := len(keysOf(t, s, r.ID))
		if left == 0 || left > all {
			t.Fatalf("%d of %d keys are left after %d pieces", left, all, pieces)
		}
		checkGone(t, s, r.ID)
		again := newJourney(1)
		if err := s.Commit(ctx, again.request()); !errors.Is(err, batch.ErrConflict) {
			t.Fatalf("the run was made again while it is swept: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, Options{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		if keys := keysOf(t, s, r.ID); len(keys) > 0 {
			t.Fatalf("after a restart %q are left", keys)
		}
		if n := ticketsLeft(t, s); n != tickets/2 {
			t.Fatalf("%d ticket records are left of %d", n, tickets)
		}
		if got := keysOf(t, s, other.ID); strings.Join(got, " ") != strings.Join(kept, " ") {
			t.Fatalf("the other run has %q, it had %q", got, kept)
		}
		checkGone(t, s, r.ID)
		if err := s.Commit(ctx, newJourney(1).request()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left == 1 { // the mark alone
			return
		}
	}
}

func checkGone(t *testing.T, s *Store, id batch.RunID) {
	t.Helper()
	ctx := context.Background()
	_, err := s.Run(ctx, id)
	_, err2 := s.Batch(ctx, id, 1)
	if !errors.Is(err, batch.ErrNotFound) || !errors.Is(err2, batch.ErrNotFound) {
		t.Fatal(err, err2)
	}
	events, err := s.Events(ctx, id, 0, 0)
	decisions, err2 := s.Decisions(ctx, id)
	state, err3 := s.State(ctx, id)
	if err := errors.Join(err, err2, err3); err != nil || len(events)+len(decisions)+len(state) > 0 {
		t.Fatal(len(events), len(decisions), len(state), err)
	}
	for _, f := range []batch.TicketFilter{{}, {Open: true}, {Run: id}} {
		tickets, err := s.Tickets(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, tk := range tickets {
			if tk.Run == id {
				t.Fatalf("ticket %s is still listed", tk.ID)
			}
		}
	}
}

// TestDeleteLeavesNothing also covers the way through one transaction.
func TestDeleteLeavesNothing(t *testing.T) {
	for _, entries := range []int{0, 12} {
		s := openStore(t, Options{NoSync: true})
		r := finishedRun(t, s, 1)
		if entries > 0 {
			s.limits.entries = entries
		}
		if err := s.Delete(context.Background(), r.ID, r.Version); err != nil {
			t.Fatal(err)
		}
		if keys := keysOf(t, s, r.ID); len(keys) > 0 || ticketsLeft(t, s) > 0 {
			t.Fatalf("%q and %d ticket records are left", keys, ticketsLeft(t, s))
		}
	}
}

// TestDeleteAfterChange deletes what was looked at before another commit, and
// before the run was deleted and made again at the same version.
func TestDeleteAfterChange(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	r := finishedRun(t, s, 1)
	d := &deletion{run: r.ID}
	if err := s.view("", func(v *view) error { return d.look(ctx, v, r.Version, s.limits) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, r.ID, r.Version); err != nil {
		t.Fatal(err)
	}
	if err := s.writer.submit(ctx, d, s.writeGroup); !errors.Is(err, batch.ErrConflict) {
		t.Fatalf("deleted twice: %v", err)
	}
	if again := finishedRun(t, s, 1); again.Version != r.Version {
		t.Fatal(again.Version)
	}
	if err := s.writer.submit(ctx, d, s.writeGroup); !errors.Is(err, batch.ErrConflict) {
		t.Fatalf("deleted another run of the same name: %v", err)
	}
}

func TestUpgradedSchema(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s, err := Open(dir, Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		err = s.view("", func(v *view) error {
			rec, err := v.get(schemaKey)
			if err != nil {
				return err
			}
			if value, err := decodeValue(kindSchema, rec); err != nil || string(value) != `{"version":2}` {
				return fmt.Errorf("schema is %q, %v", value, err)
			}
			return nil
		})
		err = errors.Join(err, s.writer.submit(context.Background(), certain{{schemaKey, []byte("\x01M{\"version\":1}")}}, s.writeGroup))
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
