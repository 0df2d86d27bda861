package decisionlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestEveryDecisionIsLogged(t *testing.T) {
	s := newScene(t)
	l := s.open()
	e := s.engine(l)
	b := s.run(e, "a", "allow", "block", "missing", "ask")
	tk := b.Calls[3].Ticket
	if _, err := e.Decide(t.Context(), tk, batch.TicketAnswer{By: "bob", Approve: true}); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, s.file()); !slices.Equal(got, []string{"a/1/0/1", "a/1/1/1", "a/1/2/1", "a/1/3/1", "a/1/3/2"}) {
		t.Errorf("logged %v", got)
	}
	s.close(l)
	s.complete()
	if st := l.Stats(); st.Written != 5 || st.Failed != 0 || st.Behind {
		t.Errorf("%+v", st)
	}
	info, err := os.Stat(s.file())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestNothingIsOwedToANewLog(t *testing.T) {
	s := newScene(t)
	s.run(s.engine(nil), "before", "allow")
	l := s.open()
	s.run(s.engine(l), "after", "allow")
	s.close(l)
	if got := lines(t, s.file()); !slices.Equal(got, []string{"after/1/0/1"}) {
		t.Errorf("logged %v", got)
	}
}

// A process that is stopped between commit and log, at any decision, leaves a gap that
// the next one closes, and nothing twice.
func TestCrash(t *testing.T) {
	s := newScene(t)
	for i := range 12 {
		l := s.open()
		b := breakSink(l, 0)
		e := s.engine(l)
		for j := range 4 {
			if j == i%5 {
				b.set(errDisk) // from here on nothing reaches the file
			}
			s.run(e, batch.RunID(fmt.Sprintf("r%d-%d", i, j)), "allow", "block")
		}
		if i%3 == 0 {
			for _, k := range l.sinks { // the checkpoint moves as far as it may
				k.checkpoint()
			}
		}
		s.crash(l)
	}
	l := s.open()
	s.complete()
	s.close(l)
	s.complete()
	// After an end in order nothing is looked for.
	before, _ := os.ReadFile(s.file())
	if err := os.Remove(s.file()); err != nil {
		t.Fatal(err)
	}
	s.close(s.open())
	if got := lines(t, s.file()); len(before) == 0 || len(got) != 0 {
		t.Errorf("logged again: %v", got)
	}
}

// What was announced, and may be committed or not, holds the checkpoint back.
func TestCrashBetweenCommitAndLog(t *testing.T) {
	s := newScene(t)
	l := s.open()
	quiet := &quietLog{DecisionLog: l, inner: l, skip: "lost/1/0"}
	s.run(s.engine(quiet), "lost", "allow")
	s.run(s.engine(l), "kept", "allow")
	l.sinks[0].checkpoint()
	s.crash(l)
	if got := lines(t, s.file()); !slices.Equal(got, []string{"kept/1/0/1"}) {
		t.Fatalf("logged %v", got)
	}
	s.close(s.open())
	s.complete()
}

// quietLog loses a record after its commit.
type quietLog struct {
	batch.DecisionLog
	inner *Log
	skip  batch.OperationID
}

func (q *quietLog) Log(ctx context.Context, r *batch.DecisionRecord, c *batch.Call) error {
	if r.Operation == q.skip {
		return nil
	}
	return q.inner.Log(ctx, r, c)
}

func TestTornLine(t *testing.T) {
	s := newScene(t)
	l := s.open()
	s.run(s.engine(l), "a", "allow", "block")
	s.crash(l)
	raw, err := os.ReadFile(s.file())
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(raw) - 1; cut > len(raw)-400; cut -= 37 {
		if err := os.WriteFile(s.file(), raw[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l := s.open()
		s.complete()
		s.crash(l)
		if err := writeCheckpoint(l.sinks[0].path, checkpoint{Since: at}); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(s.logs.String(), "was cut short by a crash") {
		t.Error("nothing was said")
	}
}

// Where no log is required calls go on, somebody is told, and nothing is missing in
// the end.
func TestTheLogFailsForAWhile(t *testing.T) {
	for name, half := range map[string]bool{"before it writes": false, "after it wrote": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			l := s.open()
			b := breakSink(l, 0)
			b.half = half
			e := s.engine(l)
			s.run(e, "a", "allow")
			b.set(errDisk)
			if got := s.run(e, "b", "allow", "block"); got.Calls[0].Answer != batch.AnswerTool {
				t.Errorf("the call is %s", got.Calls[0].Answer)
			}
			if st := l.Stats(); st.Failed < 2 || !st.Behind || l.Owed().IsZero() {
				t.Errorf("%+v", st)
			}
			if !strings.Contains(s.logs.String(), "a decision is not logged yet") {
				t.Error("nothing was said")
			}
			b.set(nil)
			eventually(t, "caught up", func() bool { return !l.Stats().Behind })
			s.run(e, "c", "allow")
			s.complete()
			s.close(l)
			s.complete()
		})
	}
}

// heldLedger keeps whoever reads it waiting while it is held.
type heldLedger struct {
	Ledger
	hold    sync.Mutex
	entered chan struct{}
}

func (h *heldLedger) Runs(ctx context.Context, after batch.RunID, limit int) ([]*batch.Run, error) {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	h.hold.Lock()
	defer h.hold.Unlock()
	return h.Ledger.Runs(ctx, after, limit)
}

// What is being copied is missing until it is there: the ledger must keep it, and the
// checkpoint must not pass it.
func TestBehindWhileCatchingUp(t *testing.T) {
	s := newScene(t)
	held := &heldLedger{Ledger: s.o.Ledger, entered: make(chan struct{}, 1)}
	s.o.Ledger = held
	l := s.open()
	b := breakSink(l, 0)
	e := s.engine(l)
	s.run(e, "a", "allow")
	b.set(errDisk)
	s.run(e, "b", "allow")
	held.hold.Lock()
	select { // of one that failed, or of the start
	case <-held.entered:
	default:
	}
	b.set(nil)
	<-held.entered
	st, owed := l.Stats(), l.Owed()
	l.sinks[0].mu.Lock()
	since := l.sinks[0].since()
	l.sinks[0].mu.Unlock()
	held.hold.Unlock()
	if !st.Behind || owed.IsZero() || since.After(owed) {
		t.Errorf("while it copies: behind %t, owed since %s, checkpoint at %s", st.Behind, owed, since)
	}
	eventually(t, "caught up", func() bool { return !l.Stats().Behind })
	s.close(l)
	s.complete()
}

func TestRequired(t *testing.T) {
	s := newScene(t)
	s.o.Require = true
	l := s.open()
	b := breakSink(l, 0)
	e := s.engine(l)
	s.run(e, "a", "allow")
	b.set(errDisk)
	first := s.run(e, "b", "allow", "allow", "block")
	for i := range 2 {
		if c := &first.Calls[i]; c.Answer != batch.AnswerBlocked || !strings.Contains(c.Output.Text(), "cannot be logged") {
			t.Errorf("call %d is %s: %s", i, c.Answer, c.Output.Text())
		}
	}
	if len(s.ran) != 1 {
		t.Errorf("ran %v", s.ran)
	}
	var codes []string
	ds, _ := s.store.Decisions(t.Context(), "b")
	for _, d := range ds {
		code := string(d.Outcome)
		if len(d.Reasons) > 0 {
			code += " " + d.Reasons[0].Code
		}
		codes = append(codes, fmt.Sprint(d.ID(), " ", code))
	}
	// The first call met the failure itself; from then on it is known before.
	if !slices.Equal(codes, []string{"b/1/0/1 allow", "b/1/0/2 block log_unavailable", "b/1/1/1 block log_unavailable", "b/1/2/1 block no_rule"}) {
		t.Errorf("records %v", codes)
	}
	b.set(nil)
	eventually(t, "caught up", func() bool { return l.Ready(t.Context()) == nil })
	if got := s.run(e, "c", "allow"); got.Calls[0].Answer != batch.AnswerTool {
		t.Errorf("the call is %s", got.Calls[0].Answer)
	}
	s.close(l)
	s.complete()
}

// While the log is off decisions are made without it; it finds them when it is on again.
func TestSuspend(t *testing.T) {
	s := newScene(t)
	if err := Suspend(s.o.Dir, true, true); err != nil {
		t.Fatal(err)
	}
	l := s.open()
	s.run(s.engine(l), "a", "allow")
	s.close(l)
	if err := Suspend(s.o.Dir, true, true); err != nil {
		t.Fatal(err)
	}
	s.run(s.engine(nil), "b", "allow")
	s.close(s.open())
	s.complete()
}

func TestMaskAndSecretsInTheFile(t *testing.T) {
	s := newScene(t)
	s.mask = func(event json.RawMessage) (json.RawMessage, error) {
		if strings.Contains(string(event), `"id":"block"`) {
			return nil, errors.New("rule failed")
		}
		return json.RawMessage(`["/input/call/arguments/n"]`), nil
	}
	s.o.Redact = replacer{"alice": "[redacted]"}
	l := s.open()
	e := s.engine(l)
	if _, err := e.Submit(t.Context(), &batch.Request{Run: "a", Principal: "alice", Calls: []batch.RequestedCall{
		{ID: "1", Tool: "allow", Arguments: []byte(`{"n":"hunter2"}`)},
		{ID: "2", Tool: "block", Arguments: []byte(`{"n":"hunter2"}`)},
	}}); err != nil {
		t.Fatal(err)
	}
	s.close(l)
	raw, err := os.ReadFile(s.file())
	if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "alice") || !strings.Contains(string(raw), "rule failed") {
		t.Errorf("%s %v", raw, err)
	}
	s.complete()
}

type replacer map[string]string

func (r replacer) JSON(raw json.RawMessage) json.RawMessage {
	text := string(raw)
	for from, to := range r {
		text = strings.ReplaceAll(text, from, to)
	}
	return json.RawMessage(text)
}

// Many runs at once, with failures, rotation and a catch-up among them.
func TestManyRuns(t *testing.T) {
	s := newScene(t)
	s.o.File.Sync, s.o.File.MaxBytes, s.o.File.Keep = true, 16<<10, 1000
	l := s.open()
	b := breakSink(l, 0)
	e := s.engine(l)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 8 {
				if i == 0 && j == 2 {
					b.set(errDisk)
				}
				if i == 0 && j == 6 {
					b.set(nil)
				}
				s.run(e, batch.RunID(fmt.Sprintf("r%d-%d", i, j)), "allow", "block")
			}
		})
	}
	stop := make(chan struct{})
	var catch sync.WaitGroup
	catch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = l.catchUp(t.Context(), l.sinks[0], patience)
				time.Sleep(time.Millisecond)
			}
		}
	})
	wg.Wait()
	close(stop)
	catch.Wait()
	s.close(l)
	var got []string
	names, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "d.jsonl") {
			files++
			got = append(got, lines(t, s.dir+"/"+n.Name())...)
		}
	}
	slices.Sort(got)
	if want := s.committed(); !slices.Equal(got, want) || files < 3 {
		t.Errorf("%d lines in %d files, %d decisions", len(got), files, len(want))
	}
}
