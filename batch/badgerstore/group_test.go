package badgerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// gate is a write function whose first call waits until it is let go.
type gate struct {
	entered, leave chan struct{}
	once           sync.Once
	mu             sync.Mutex
	groups         [][]*waiting
}

func newGate() *gate { return &gate{entered: make(chan struct{}), leave: make(chan struct{})} }

func (g *gate) write(group []*waiting) {
	g.mu.Lock()
	g.groups = append(g.groups, group)
	g.mu.Unlock()
	g.once.Do(func() {
		close(g.entered)
		<-g.leave
	})
	for _, m := range group {
		_, m.err = m.plan(nil)
	}
}

type result struct{ err error }

func (r result) plan(*view) ([]entry, error) { return nil, r.err }

func waitQueued(t *testing.T, w *writer, n int) {
	t.Helper()
	for range 5000 {
		w.mu.Lock()
		have := len(w.queue)
		w.mu.Unlock()
		if have == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d changes never queued", n)
}

func TestWriterCoalesces(t *testing.T) {
	var w writer
	g := newGate()
	boom := errors.New("boom")
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.submit(context.Background(), result{}, g.write); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	for i := range 20 {
		wg.Go(func() {
			var want error
			if i%3 == 0 {
				want = boom
			}
			if err := w.submit(context.Background(), result{want}, g.write); !errors.Is(err, want) {
				t.Errorf("change %d: %v, want %v", i, err, want)
			}
		})
	}
	waitQueued(t, &w, 20)
	close(g.leave)
	wg.Wait()
	if len(g.groups) != 2 || len(g.groups[0]) != 1 || len(g.groups[1]) != 20 {
		t.Fatalf("%d groups, want one of 1 and one of 20", len(g.groups))
	}
	if w.busy || len(w.queue) > 0 {
		t.Fatal("the writer is not idle at the end")
	}
}

func TestWriterWithdraws(t *testing.T) {
	var w writer
	g := newGate()
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.submit(context.Background(), result{}, g.write) })
	<-g.entered
	ctx, cancel := context.WithCancel(context.Background())
	for range 3 {
		wg.Go(func() {
			if err := w.submit(ctx, result{}, g.write); !errors.Is(err, context.Canceled) {
				t.Errorf("a change that waited: %v", err)
			}
		})
	}
	waitQueued(t, &w, 3)
	wg.Go(func() {
		if err := w.submit(context.Background(), result{}, g.write); err != nil {
			t.Error(err)
		}
	})
	waitQueued(t, &w, 4)
	cancel()
	waitQueued(t, &w, 1)
	close(g.leave)
	wg.Wait()
	if len(g.groups) != 2 || len(g.groups[1]) != 1 {
		t.Fatalf("%d groups; the changes that were withdrawn must not be in one", len(g.groups))
	}
}

// TestWriterTakenIsAwaited ends the context of a change that a group has taken.
func TestWriterTakenIsAwaited(t *testing.T) {
	var w writer
	first, second := newGate(), newGate()
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.submit(context.Background(), result{}, first.write) })
	<-first.entered
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		if err := w.submit(ctx, result{}, second.write); err != nil {
			t.Errorf("a change that was taken: %v", err)
		}
	})
	waitQueued(t, &w, 1)
	wg.Go(func() {
		if err := w.submit(ctx, result{}, second.write); err != nil {
			t.Errorf("a change that was taken: %v", err)
		}
	})
	waitQueued(t, &w, 2)
	close(first.leave)
	<-second.entered
	cancel()
	close(second.leave)
	wg.Wait()
}

func TestWriterHammer(t *testing.T) {
	var w writer
	var inside, total int // guarded by the writer itself
	var wg sync.WaitGroup
	write := func(group []*waiting) {
		if inside++; inside != 1 {
			t.Error("two groups at once")
		}
		total += len(group)
		inside--
	}
	var done, gone sync.Map
	for i := range 64 {
		wg.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				if n%5 == 0 {
					go cancel()
				}
				if err := w.submit(ctx, result{}, write); err == nil {
					done.Store([2]int{i, n}, true)
				} else {
					gone.Store([2]int{i, n}, true)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	if count(&done) != total || count(&done)+count(&gone) != 64*50 {
		t.Fatalf("%d done, %d withdrawn, %d written", count(&done), count(&gone), total)
	}
}

func mustPrepare(t *testing.T, c *batch.Commit) *waiting {
	t.Helper()
	ch, err := prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	return &waiting{planner: ch}
}

func simple(run batch.RunID, expect uint64) *batch.Commit {
	return &batch.Commit{Run: &batch.Run{ID: run, Fence: batch.Fence{Owner: "o", Epoch: 1}}, Expect: expect}
}

// TestGroupSeesItself puts commits into one group that depend on each other.
func TestGroupSeesItself(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	fenced := simple("b", 2)
	fenced.Run.Fence.Owner = "other"
	ticket := func(run batch.RunID) *batch.Commit {
		c := simple(run, 2)
		if run == "b" {
			c = simple(run, 1)
		}
		c.Tickets = []*batch.Ticket{{ID: "t", Run: run, Status: batch.TicketOpen}}
		return c
	}
	twice := func(expect uint64) *batch.Commit {
		c := simple("a", expect)
		c.Decisions = []*batch.DecisionRecord{{Operation: "a/1/0", Seq: 1}}
		return c
	}
	var group []*waiting
	var wants []error
	for _, tt := range []struct {
		c    *batch.Commit
		want error
	}{
		{simple("a", 0), nil},
		{simple("a", 0), batch.ErrConflict},
		{simple("a", 1), nil},
		{simple("a", 1), batch.ErrConflict},
		{simple("b", 0), nil},
		{ticket("a"), nil},
		{ticket("b"), batch.ErrConflict},
		{simple("b", 1), nil},
		{fenced, batch.ErrFenced},
		{twice(3), nil},
		{twice(4), batch.ErrConflict},
		{simple("c", 7), batch.ErrConflict},
		{simple("a", 4), nil},
	} {
		group = append(group, mustPrepare(t, tt.c))
		wants = append(wants, tt.want)
	}
	s.writeGroup(group)
	for i, m := range group {
		if !errors.Is(m.err, wants[i]) {
			t.Errorf("commit %d: %v, want %v", i, m.err, wants[i])
		}
	}
	for run, version := range map[batch.RunID]uint64{"a": 5, "b": 2} {
		r, err := s.Run(context.Background(), run)
		if err != nil || r.Version != version {
			t.Errorf("run %s: %+v, %v; want version %d", run, r, err, version)
		}
	}
}

// TestGroupSplits gives a group more than one transaction takes.
func TestGroupSplits(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	text := `"` + strings.Repeat("x", largeBytes-100) + `"`
	var group []*waiting
	for i := range 200 {
		c := simple(batch.RunID(fmt.Sprint("run-", i/2)), uint64(i%2))
		c.State = []batch.StateWrite{{Key: "k", Value: json.RawMessage(text)}}
		group = append(group, mustPrepare(t, c))
	}
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	pieces := s.planGroup(&view{txn: txn}, group)
	txn.Discard()
	if len(pieces) < 3 {
		t.Fatalf("%d pieces; the test needs several", len(pieces))
	}
	s.writeGroup(group)
	for i, m := range group {
		if m.err != nil {
			t.Fatalf("commit %d: %v", i, m.err)
		}
	}
	for i := range 100 {
		id := batch.RunID(fmt.Sprint("run-", i))
		st, err := s.State(context.Background(), id)
		if err != nil || string(st["k"]) != text {
			t.Fatalf("run %s: %d bytes of state, %v", id, len(st["k"]), err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	many := func(n, size int) *batch.Commit {
		c := simple("a", 0)
		for i := range n {
			c.State = append(c.State, batch.StateWrite{Key: fmt.Sprint(i), Value: json.RawMessage(strings.Repeat("1", size))})
		}
		return c
	}
	for name, c := range map[string]*batch.Commit{
		"too many records": many(s.limits.entries+1, 1),
		"too many bytes":   many(200, largeBytes-10),
		"too large values": many(130, 1<<20),
	} {
		if err := s.Commit(context.Background(), c); !errors.Is(err, batch.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Run(context.Background(), "a"); !errors.Is(err, batch.ErrNotFound) {
			t.Errorf("%s: the run is there: %v", name, err)
		}
		if st, err := s.State(context.Background(), "a"); err != nil || len(st) > 0 {
			t.Errorf("%s: state was written: %d keys, %v", name, len(st), err)
		}
	}
	// One large member does not harm the others of its group.
	group := []*waiting{mustPrepare(t, simple("b", 0)), mustPrepare(t, many(200, largeBytes-10)), mustPrepare(t, simple("c", 0))}
	s.writeGroup(group)
	if group[0].err != nil || !errors.Is(group[1].err, batch.ErrTooLarge) || group[2].err != nil {
		t.Fatalf("%v, %v, %v", group[0].err, group[1].err, group[2].err)
	}
	// Badger takes what just fits.
	most := many(s.limits.entries-2, 1)
	if err := s.Commit(context.Background(), most); err != nil {
		t.Fatal(err)
	}
	st, err := s.State(context.Background(), "a")
	if err != nil || len(st) != len(most.State) {
		t.Fatalf("%d keys, %v", len(st), err)
	}
}

// TestFailureIsFinal breaks the disk below the store.
func TestFailureIsFinal(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	ctx := context.Background()
	if err := s.Commit(ctx, simple("a", 0)); err != nil {
		t.Fatal(err)
	}
	s.log.Errorf("Error while curlf sync: %v\n", "input/output error")
	err := s.Commit(ctx, simple("a", 1))
	if err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Fatalf("a commit whose sync failed: %v", err)
	}
	if err := s.Commit(ctx, simple("b", 0)); err == nil {
		t.Fatal("a commit after a failed one was taken")
	}
	if _, err := s.Run(ctx, "b"); !errors.Is(err, batch.ErrNotFound) {
		t.Fatalf("it was written: %v", err)
	}
	if _, err := s.Run(ctx, "a"); err != nil {
		t.Fatalf("reads go on: %v", err)
	}
}

func TestCommitPanicIsAnError(t *testing.T) {
	s := openStore(t, Options{NoSync: true})
	group := []*waiting{{planner: panics{}}}
	s.writeGroup(group)
	if group[0].err == nil {
		t.Fatal("a panic passed as success")
	}
	if err := s.Commit(context.Background(), simple("a", 0)); err == nil {
		t.Fatal("the store goes on after a panic in its writer")
	}
}

type panics struct{}

func (panics) plan(*view) ([]entry, error) { panic("boom") }
