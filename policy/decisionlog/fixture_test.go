package decisionlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/storetest"
)

// scene is a host without its other rooms: the engine over the reference store, a
// gate and tools that do as their names say.
type scene struct {
	t     *testing.T
	dir   string
	store *storetest.Memory
	mask  func(json.RawMessage) (json.RawMessage, error)
	o     Options
	logs  lockedBuffer

	mu  sync.Mutex
	ran []batch.OperationID
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, dir: t.TempDir(), store: storetest.NewMemory()}
	s.mask = func(json.RawMessage) (json.RawMessage, error) { return nil, nil }
	s.o = Options{
		Dir: filepath.Join(s.dir, "state"), File: &File{Path: s.file()}, Ledger: s.store, Masker: s,
		Logger: slog.New(slog.NewTextHandler(&s.logs, nil)),
	}
	return s
}

func (s *scene) file() string { return filepath.Join(s.dir, "d.jsonl") }

func (s *scene) LogMask(_ context.Context, event json.RawMessage) (json.RawMessage, error) {
	return s.mask(event)
}

func (s *scene) open() *Log {
	s.t.Helper()
	l, err := Open(s.t.Context(), s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *scene) close(l *Log) {
	s.t.Helper()
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// crash ends a log as a kill would: what it had in mind is gone.
func (s *scene) crash(l *Log) {
	l.stop()
	l.wg.Wait()
}

func (s *scene) engine(log batch.DecisionLog) *batch.Engine {
	s.t.Helper()
	e, err := batch.NewEngine(batch.Options{
		Store: s.store, Gate: s, Catalog: func() batch.Catalog { return s }, DecisionLog: log,
		Executors: map[batch.Target]batch.Executor{batch.TargetBrain: s}, RetryDelay: 1,
		Logger: s.o.Logger,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *scene) run(e *batch.Engine, run batch.RunID, tools ...string) *batch.Batch {
	s.t.Helper()
	r := &batch.Request{Run: run}
	for i, tool := range tools {
		r.Calls = append(r.Calls, batch.RequestedCall{ID: batch.CallID(fmt.Sprint("c", i)), Tool: batch.ToolID(tool), Arguments: []byte(`{"n":1}`)})
	}
	b, err := e.Submit(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *scene) Revision() string { return "rev" }
func (s *scene) Decide(_ context.Context, q *batch.Query) (*batch.Decision, error) {
	d := &batch.Decision{Outcome: batch.OutcomeAllow, PolicyRevision: "rev"}
	switch {
	case q.Call.Tool == "block":
		d.Outcome, d.Reasons = batch.OutcomeBlock, []batch.Reason{{Code: "no_rule"}}
	case q.Call.Tool == "ask" && q.Approval == nil:
		d.Outcome, d.Confirmation = batch.OutcomeRequireConfirmation, &batch.Confirmation{}
	}
	return d, nil
}

type tool batch.ToolID

func (t tool) Descriptor() batch.Descriptor {
	return batch.Descriptor{ID: batch.ToolID(t), Plugin: "p", Digest: "d", Target: batch.TargetBrain}
}
func (tool) CheckArguments([]byte) error              { return nil }
func (tool) CheckOutput(*batch.Output) error          { return nil }
func (tool) CheckState(string, json.RawMessage) error { return nil }

func (s *scene) Fingerprint() string { return "catalog" }
func (s *scene) Lookup(id batch.ToolID) (batch.Tool, bool) {
	return tool(id), id != "missing"
}
func (s *scene) RecoveryCapability(batch.ToolID) batch.RecoveryCapability {
	return batch.NonRecoverable
}
func (s *scene) Invoke(_ context.Context, c *batch.Call) (*batch.Output, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, c.Operation())
	return &batch.Output{}, nil
}

// lines are the ids in a file, in order; every line is a JSON object.
func lines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(raw)) {
		id, ok := lineID([]byte(line))
		if !ok || !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s has the line %q", path, line)
		}
		ids = append(ids, id)
	}
	return ids
}

// committed are the ids of the ledger.
func (s *scene) committed() []string {
	s.t.Helper()
	runs, err := s.store.Runs(s.t.Context(), "", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	for _, r := range runs {
		ds, err := s.store.Decisions(s.t.Context(), r.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, d := range ds {
			ids = append(ids, d.ID())
		}
	}
	slices.Sort(ids)
	return ids
}

// complete checks that the file has every decision of the ledger once.
func (s *scene) complete() {
	s.t.Helper()
	got := lines(s.t, s.file())
	slices.Sort(got)
	if want := s.committed(); !slices.Equal(got, want) {
		s.t.Errorf("the file has\n  %v\nthe ledger\n  %v", got, want)
	}
}

// eventually waits for what happens on another goroutine.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// breakable is an outlet that fails while broken is set.
type breakable struct {
	outlet
	mu     sync.Mutex
	broken error
	half   bool // the line is written and the failure comes after that, as of a sync
}

func (b *breakable) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = err
}

func (b *breakable) append(line []byte) error {
	b.mu.Lock()
	err, half := b.broken, b.half
	b.mu.Unlock()
	if err != nil && !half {
		return err
	}
	return errors.Join(b.outlet.append(line), err)
}

var errDisk = fmt.Errorf("disk: %w", io.ErrShortWrite)

func breakSink(l *Log, i int) *breakable {
	b := &breakable{outlet: l.sinks[i].out}
	l.sinks[i].out = b
	return b
}
