package decisionlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Names of the sinks, and of their checkpoints.
const (
	fileSink = "file"
	httpSink = "http"
)

// outlet is where lines go. Append writes a line whole or not at all; has knows the
// ids of what was written since a time.
type outlet interface {
	append(line []byte) error
	has(since time.Time) (map[string]bool, error)
	flush() error
	close() error
}

// sink is an outlet with what it is owed. A record is at each moment in one place:
// pending (announced, perhaps committed), being written, or in the outlet; or it is
// owed, and then the ledger is asked for it.
type sink struct {
	name string
	out  outlet
	path string // of the checkpoint
	now  func() time.Time
	log  *slog.Logger

	catching sync.Mutex // one catch-up at a time

	mu      sync.Mutex
	pending map[string]time.Time
	writing map[string]time.Time
	owed    time.Time       // since then something is missing; zero: nothing
	copying time.Time       // as owed, what a catch-up that is under way has taken on
	recent  map[string]bool // what was written during a catch-up; nil: there is none
	err     error           // why something is owed
	tried   time.Time       // when it was last tried to catch up
	saved   checkpoint
	active  bool // something was written since the checkpoint was saved
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// since is the time before which nothing is owed, whatever happens now. Mu is held.
func (s *sink) since() time.Time {
	t := s.now()
	for _, m := range []map[string]time.Time{s.pending, s.writing} {
		for _, at := range m {
			t = earlier(t, at)
		}
	}
	return earlier(t, s.missing())
}

// missing is since when the outlet lacks something, also while that is being copied;
// zero: nothing. Mu is held.
func (s *sink) missing() time.Time { return earlier(s.owed, s.copying) }

// begin keeps the checkpoint before every record that may be missing.
func (s *sink) begin(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[id] = at
	if !s.saved.Clean && !at.Before(s.saved.Since) {
		return
	}
	s.save(checkpoint{Since: earlier(at, s.saved.Since)})
}

// save writes the checkpoint. Mu is held.
func (s *sink) save(c checkpoint) {
	if err := writeCheckpoint(s.path, c); err != nil {
		s.log.Error("the checkpoint of the decision log cannot be written; after a crash some decisions may be missing in it or there twice",
			"sink", s.name, "err", err)
		return
	}
	s.saved, s.active = c, false
}

// write puts a line into the outlet, unless a catch-up has done so already.
func (s *sink) write(id string, at time.Time, line func() []byte) error {
	s.mu.Lock()
	_, mine := s.pending[id]
	delete(s.pending, id)
	if mine {
		s.writing[id] = at
	}
	s.mu.Unlock()
	if !mine {
		return nil
	}
	return s.put(id, at, line())
}

// put writes a line that is marked as being written.
func (s *sink) put(id string, at time.Time, line []byte) error {
	err := s.out.append(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writing, id)
	s.active = true
	if err != nil {
		s.owed, s.err = earlier(s.owed, at), err
		return err
	}
	if s.recent != nil {
		s.recent[id] = true
	}
	return nil
}

// Ledger is the part of a store that a catch-up reads.
type Ledger interface {
	Runs(ctx context.Context, after batch.RunID, limit int) ([]*batch.Run, error)
	Decisions(ctx context.Context, run batch.RunID) ([]*batch.DecisionRecord, error)
	Batch(ctx context.Context, run batch.RunID, step int) (*batch.Batch, error)
}

// catchUp writes what the sink is owed: everything that the ledger has since then and
// the outlet has not. Pending records that are younger than patience are left to who
// announced them. It returns how many it wrote.
func (s *sink) catchUp(ctx context.Context, ledger Ledger, patience time.Duration, render func(*batch.DecisionRecord, *batch.Call, error) []byte) (uint64, error) {
	s.catching.Lock()
	defer s.catching.Unlock()
	s.mu.Lock()
	from := s.since()
	s.tried, s.recent, s.owed, s.copying = s.now(), map[string]bool{}, time.Time{}, s.owed
	s.mu.Unlock()
	n, err := s.copyFrom(ctx, from, ledger, patience, render)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent, s.copying = nil, time.Time{}
	if err != nil {
		s.owed, s.err = earlier(s.owed, from), err
	} else if s.owed.IsZero() {
		s.err = nil
	}
	return n, err
}

func (s *sink) copyFrom(ctx context.Context, from time.Time, ledger Ledger, patience time.Duration, render func(*batch.DecisionRecord, *batch.Call, error) []byte) (n uint64, err error) {
	var have map[string]bool // read when it is needed first
	put := func(r *batch.DecisionRecord, call func() (*batch.Call, error)) error {
		if have == nil {
			if have, err = s.out.has(from); err != nil {
				return err
			}
		}
		id := r.ID()
		if have[id] || !s.claim(id, r.Time, patience) {
			return nil
		}
		c, err := call()
		if err := s.put(id, r.Time, render(r, c, err)); err != nil {
			return err
		}
		n++
		return nil
	}
	for after := batch.RunID(""); ; {
		page, err := ledger.Runs(ctx, after, 256)
		if err != nil {
			return n, err
		}
		if len(page) == 0 {
			return n, nil
		}
		after = page[len(page)-1].ID
		for _, run := range page {
			if run.UpdatedAt.Before(from.Add(-clockSlack)) {
				continue
			}
			if err := copyRun(ctx, ledger, run.ID, from, put); err != nil {
				return n, err
			}
		}
	}
}

func copyRun(ctx context.Context, ledger Ledger, run batch.RunID, from time.Time,
	put func(*batch.DecisionRecord, func() (*batch.Call, error)) error,
) error {
	records, err := ledger.Decisions(ctx, run)
	if errors.Is(err, batch.ErrNotFound) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	var b *batch.Batch
	for _, r := range records {
		if r.Time.Before(from) {
			continue
		}
		err := put(r, func() (*batch.Call, error) {
			step, index, err := place(r.Operation)
			if err == nil && (b == nil || b.Step != step) {
				b, err = ledger.Batch(ctx, run, step)
			}
			if err == nil && index >= len(b.Calls) {
				err = batch.ErrCorrupt
			}
			if err != nil {
				return &batch.Call{Run: run, Tool: r.Tool}, err
			}
			return &b.Calls[index].Call, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claim marks a record as being written by the caller, unless it is in the outlet or
// somebody else is about to write it.
func (s *sink) claim(id string, at time.Time, patience time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun, pending := s.pending[id]
	_, writing := s.writing[id]
	if s.recent[id] || writing || pending && s.now().Sub(begun) < patience {
		return false
	}
	delete(s.pending, id)
	s.writing[id] = at
	return true
}

// checkpoint makes durable what was written and moves the checkpoint behind it.
func (s *sink) checkpoint() {
	s.mu.Lock()
	since, active := s.since(), s.active
	s.mu.Unlock()
	if !active {
		return
	}
	if err := s.out.flush(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.owed, s.err = earlier(s.owed, s.saved.Since), err
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if since.After(s.saved.Since) {
		s.save(checkpoint{Since: since})
	}
}

// behind is why something is owed, and since when; nil: nothing is.
func (s *sink) behind() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.missing()
	if t.IsZero() {
		return t, nil
	}
	return t, s.err
}

// finish closes the outlet. When nothing is owed the checkpoint says so.
func (s *sink) finish() error {
	err := s.out.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.missing().IsZero() && len(s.pending)+len(s.writing) == 0 {
		s.save(checkpoint{Since: s.now(), Clean: true})
	}
	return errors.Join(err, s.out.close())
}
