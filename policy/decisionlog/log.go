package decisionlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/awaken-agents/awaken-host/batch"
)

// Masker is asked what an event must not show: a JSON array of rules as OPA's
// data.system.log.mask gives it, nil when there is no mask. An error hides the
// arguments wholly.
type Masker interface {
	LogMask(ctx context.Context, event json.RawMessage) (json.RawMessage, error)
}

// Redactor takes secret values out of a JSON document, which stays one.
type Redactor interface {
	JSON(json.RawMessage) json.RawMessage
}

// Options configures a Log. Dir, Ledger, Masker and one of File and HTTP are required.
type Options struct {
	Dir    string // of checkpoints and of what waits for the server; one process at a time
	File   *File  // nil: no file
	HTTP   *HTTP  // nil: no server
	Ledger Ledger // the store, read when decisions are missing here
	Masker Masker
	Redact Redactor // nil: nothing besides the mask
	// Require makes Ready and Log fail where a decision is not on this machine's disk.
	// What waits for the server is.
	Require bool
	Labels  map[string]string // of every event
	Logger  *slog.Logger      // nil: discard
	Now     func() time.Time  // nil: time.Now
	// Metrics gets what Stats counts, as awaken_decision_log_*, until Close; nil: nobody.
	Metrics prometheus.Registerer
}

// Log is a batch.DecisionLog. All methods are safe for concurrent use; Close is called
// once, after the calls in flight have ended.
type Log struct {
	o     Options
	sinks []*sink
	up    *uploader // nil: no server
	stop  context.CancelFunc
	wg    sync.WaitGroup

	unregister      func()
	written, failed atomic.Uint64
}

var _ batch.DecisionLog = (*Log)(nil)

// Times of the upkeep, which runs beside the calls.
const (
	upkeepEvery = time.Second
	patience    = 10 * time.Second // for a commit that was announced
	retryMost   = 30 * time.Second
	flushMost   = 2 * time.Second // for the server, when the host is closed
)

// Open opens what decisions are written to and writes what an earlier process did not
// come to. A file that cannot be opened is an error; one that takes nothing, as on a
// full disk, is not: the decisions stay owed.
func Open(ctx context.Context, o Options) (*Log, error) {
	if o.Dir == "" || o.Ledger == nil || o.Masker == nil || o.File == nil && o.HTTP == nil {
		return nil, errors.New("decisionlog: a folder, a ledger, a masker and a file or a server are needed")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	l := &Log{o: o}
	if err := l.openSinks(); err != nil {
		return nil, errors.Join(err, l.closeSinks())
	}
	for _, s := range l.sinks {
		if _, err := s.behind(); err == nil {
			continue
		}
		n, err := l.catchUp(ctx, s, 0)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), l.closeSinks())
		}
		if err != nil {
			o.Logger.Error("the decision log lacks decisions of the ledger; it is tried again", "sink", s.name, "err", err)
		} else if n > 0 {
			o.Logger.Info("decisions of an earlier process are logged now", "sink", s.name, "decisions", n)
		}
	}
	var err error
	if l.unregister, err = l.register(o.Metrics); err != nil {
		return nil, errors.Join(err, l.closeSinks())
	}
	var run context.Context
	run, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.wg.Go(func() { l.upkeep(run) })
	if l.up != nil {
		l.wg.Go(func() { l.up.run(run) })
	}
	return l, nil
}

var errUnclean = errors.New("the process before did not end in order")

func (l *Log) openSinks() error {
	add := func(name string, out outlet) error {
		s := &sink{
			name: name, out: out, path: checkpointFile(l.o.Dir, name), now: l.o.Now, log: l.o.Logger,
			pending: map[string]time.Time{}, writing: map[string]time.Time{},
		}
		l.sinks = append(l.sinks, s)
		c, there, err := readCheckpoint(s.path)
		if err != nil {
			return err
		}
		if !there { // what was decided before there was a log is not owed to it
			c = checkpoint{Since: l.o.Now(), Clean: true}
		}
		if !c.Clean {
			s.owed, s.err = c.Since, errUnclean
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.save(checkpoint{Since: c.Since})
		return nil
	}
	if f := l.o.File; f != nil {
		file := *f
		file.Sync = file.Sync || l.o.Require
		j, err := openJournal(file, l.o.Now, l.o.Logger)
		if err != nil {
			return fmt.Errorf("policy.log.file: %w", err)
		}
		if err := add(fileSink, j); err != nil {
			return err
		}
	}
	if h := l.o.HTTP; h != nil {
		up, err := newUploader(*h, filepath.Join(l.o.Dir, "upload"), l.o.Require, l.o.Logger)
		if err != nil {
			return fmt.Errorf("policy.log.http: %w", err)
		}
		l.up = up
		return add(httpSink, up.spool)
	}
	return nil
}

// Ready reports why an allow may not take effect: nil where no log is required.
func (l *Log) Ready(ctx context.Context) error {
	if !l.o.Require {
		return nil
	}
	for _, s := range l.sinks {
		_, err := s.behind()
		if err == nil {
			continue
		}
		s.mu.Lock()
		soon := l.o.Now().Sub(s.tried) < upkeepEvery
		if !soon {
			s.tried = l.o.Now() // of the calls that come now, one tries
		}
		s.mu.Unlock()
		if soon {
			return err
		}
		if _, err := l.catchUp(ctx, s, patience); err != nil {
			return err
		}
	}
	return nil
}

// Begin hears of a record that is about to be committed.
func (l *Log) Begin(_ context.Context, r *batch.DecisionRecord) {
	for _, s := range l.sinks {
		s.begin(r.ID(), r.Time)
	}
}

// Log writes a committed record. Where no log is required it never fails: what cannot
// be written now is owed, and written when that is possible again.
func (l *Log) Log(ctx context.Context, r *batch.DecisionRecord, c *batch.Call) error {
	var line []byte
	var errs []error
	for _, s := range l.sinks {
		err := s.write(r.ID(), r.Time, func() []byte {
			if line == nil {
				line = l.render(ctx, r, c, nil)
			}
			return line
		})
		if err != nil {
			l.failed.Add(1)
			errs = append(errs, err)
			continue
		}
		l.written.Add(1)
	}
	err := errors.Join(errs...)
	if err != nil && !l.o.Require {
		l.o.Logger.Error("a decision is not logged yet; it stays in the ledger and is tried again",
			"operation", r.Operation, "seq", r.Seq, "err", err)
		return nil
	}
	return err
}

// render makes the line of a record. Whatever is wrong with the record, there is one,
// which then shows no arguments.
func (l *Log) render(ctx context.Context, r *batch.DecisionRecord, c *batch.Call, broken error) []byte {
	e, err := describe(r, c, l.o.Labels)
	if err != nil {
		bare := *r
		bare.Input = nil
		if e, err = describe(&bare, c, l.o.Labels); err != nil {
			bare.Approval, bare.Reasons, bare.Grant = nil, nil, nil
			e, _ = describe(&bare, c, l.o.Labels)
		}
		broken = errors.Join(broken, errors.New("the record is damaged"))
	}
	doc, err := json.Marshal(e)
	if err == nil && broken == nil {
		var rules json.RawMessage
		if rules, err = l.o.Masker.LogMask(context.WithoutCancel(ctx), doc); rules == nil && err == nil {
			return l.line(doc)
		}
		e.hide(rules, err)
		if why, odd := e.Custom["mask_error"]; odd {
			l.o.Logger.Error("the log's mask failed, so the decision is logged without arguments", "decision", e.DecisionID, "err", why)
		}
	} else {
		e.eraseArguments(errors.Join(broken, err))
	}
	if doc, err = json.Marshal(e); err != nil { // nothing of ours fails to marshal but the input
		e.Input, e.Erased = nil, append(e.Erased, "/input")
		doc, _ = json.Marshal(e)
	}
	return l.line(doc)
}

func (l *Log) line(doc []byte) []byte {
	if l.o.Redact != nil {
		doc = l.o.Redact.JSON(doc)
	}
	return append(doc, '\n')
}

func (l *Log) catchUp(ctx context.Context, s *sink, patience time.Duration) (uint64, error) {
	n, err := s.catchUp(ctx, l.o.Ledger, patience, func(r *batch.DecisionRecord, c *batch.Call, broken error) []byte {
		return l.render(ctx, r, c, broken)
	})
	l.written.Add(n)
	if err != nil {
		l.failed.Add(1)
	}
	return n, err
}

// upkeep moves the checkpoints, and catches up where something is owed, less and less
// often while that fails.
func (l *Log) upkeep(ctx context.Context) {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	wait := map[*sink]time.Duration{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, s := range l.sinks {
			since, err := s.behind()
			if err == nil {
				s.checkpoint()
				continue
			}
			s.mu.Lock()
			idle := l.o.Now().Sub(s.tried)
			s.mu.Unlock()
			if idle < wait[s] {
				continue
			}
			n, err := l.catchUp(ctx, s, patience)
			if err != nil {
				wait[s] = min(retryMost, max(upkeepEvery, 2*wait[s]))
				l.o.Logger.Error("the decision log is behind the ledger; it is tried again", "sink", s.name, "since", since, "err", err)
				continue
			}
			delete(wait, s)
			l.o.Logger.Info("the decision log has caught up with the ledger", "sink", s.name, "decisions", n)
		}
	}
}

// Owed is since when decisions are missing here: the ledger must keep them until then.
// It is zero when none are.
func (l *Log) Owed() time.Time {
	var t time.Time
	for _, s := range l.sinks {
		s.mu.Lock()
		t = earlier(t, s.missing())
		s.mu.Unlock()
	}
	return t
}

// Stats are counts since the log was opened.
type Stats struct {
	Written  uint64 // lines, in every sink
	Failed   uint64 // attempts to write one
	Uploaded uint64 // events the server has taken
	Refused  uint64 // events the server will never take; they are set aside
	Waiting  int    // events on disk that wait for the server
	Behind   bool   // decisions are missing that the ledger has
}

// Stats returns the counts now.
func (l *Log) Stats() Stats {
	st := Stats{Written: l.written.Load(), Failed: l.failed.Load(), Behind: !l.Owed().IsZero()}
	if l.up != nil {
		st.Uploaded, st.Refused, st.Waiting = l.up.uploaded.Load(), l.up.refused.Load(), l.up.spool.pending()
	}
	return st
}

// Close writes what is owed if that is possible now, gives the server a moment, and
// says what is left for the next process.
func (l *Log) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushMost)
	defer cancel()
	if l.up != nil {
		defer context.AfterFunc(ctx, func() { close(l.up.abort) })()
	}
	l.stop()
	l.wg.Wait()
	defer l.unregister()
	for _, s := range l.sinks {
		s.mu.Lock()
		unsettled := !s.missing().IsZero() || len(s.pending) > 0
		s.mu.Unlock()
		if !unsettled {
			continue
		}
		if _, err := l.catchUp(ctx, s, 0); err != nil {
			l.o.Logger.Warn("the decision log is behind the ledger; the next process writes what is missing", "sink", s.name, "err", err)
			continue
		}
		s.mu.Lock()
		clear(s.pending) // announced and never committed
		s.mu.Unlock()
	}
	if l.up != nil {
		err := l.up.flush(ctx, ctx)
		if n := l.up.spool.pending(); n > 0 {
			l.o.Logger.Warn("decisions wait for the server; the next process sends them", "events", n, "url", l.up.o.URL, "err", err)
		}
	}
	return l.closeSinks()
}

func (l *Log) closeSinks() error {
	var errs []error
	for _, s := range l.sinks {
		errs = append(errs, s.finish())
	}
	return errors.Join(errs...)
}

// place reads step and index from an operation id.
func place(op batch.OperationID) (step, index int, err error) {
	parts := strings.Split(string(op), "/")
	if len(parts) != 3 {
		return 0, 0, fmt.Errorf("operation %q: %w", string(op), batch.ErrBadID)
	}
	step, serr := strconv.Atoi(parts[1])
	index, ierr := strconv.Atoi(parts[2])
	if err := errors.Join(serr, ierr); err != nil || step < 1 || index < 0 {
		return 0, 0, fmt.Errorf("operation %q: %w", string(op), batch.ErrBadID)
	}
	return step, index, nil
}
