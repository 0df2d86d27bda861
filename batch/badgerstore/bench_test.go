package badgerstore

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// BenchmarkFsync is the floor: 4 KiB written and synced to a file on the disk
// that the other benchmarks use.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for b.Loop() {
		if _, err := f.WriteAt(page, 0); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

var benchWriters = []int{1, 64}

// BenchmarkPlainBadger writes what BenchmarkCommit writes, record for record,
// encoded beforehand, each commit as one synced transaction.
func BenchmarkPlainBadger(b *testing.B) {
	for _, writers := range benchWriters {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) { benchLoad(b, newPlainLoad(b, writers)) })
	}
}

// BenchmarkCommit makes realistic commits: run head, one call that moves, one
// decision, two events; every eighth is followed by one with a new batch.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range benchWriters {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) { benchLoad(b, newStoreLoad(b, writers)) })
	}
}

// BenchmarkRatio runs plain Badger and the store in short turns, so that a noisy
// machine disturbs both, and reports the ratio of their times without the slowest
// tenth. For one writer it is the time of a commit over plain Badger's (less is
// better), for 64 the commits per second over plain Badger's (more is better).
//
// The median would not do: a commit that begins a new page of the log costs the
// file system a journal entry, so that times come in two heaps.
func BenchmarkRatio(b *testing.B) {
	for _, tt := range []struct{ writers, turn int }{{1, 4}, {64, 64 * 8}} {
		b.Run(fmt.Sprint("writers=", tt.writers), func(b *testing.B) {
			loads := [2]benchCommits{newPlainLoad(b, tt.writers), newStoreLoad(b, tt.writers)}
			var took [2][]time.Duration
			for turn := 0; b.Loop(); turn++ {
				for i := range loads {
					i = (i + turn) % 2 // neither always follows the other
					took[i] = append(took[i], loads[i].run(b, tt.turn))
				}
			}
			plain, ours := trimmedMean(took[0]), trimmedMean(took[1])
			ratio := ours / plain
			if tt.writers > 1 {
				ratio = plain / ours
			}
			b.ReportMetric(ratio, "ratio")
			b.ReportMetric(plain/float64(tt.turn), "plain-ns/commit")
			b.ReportMetric(ours/float64(tt.turn), "store-ns/commit")
			b.ReportMetric(0, "ns/op") // the time of both together says nothing
		})
	}
}

func trimmedMean(ds []time.Duration) float64 {
	slices.Sort(ds)
	ds = ds[:max(1, len(ds)*9/10)]
	var sum time.Duration
	for _, d := range ds {
		sum += d
	}
	return float64(sum) / float64(len(ds))
}

func benchLoad(b *testing.B, l benchCommits) {
	b.ResetTimer()
	took := l.run(b, b.N)
	b.ReportMetric(float64(b.N)/took.Seconds(), "commits/s")
}

// benchCommits holds one closure a writer, which makes its next commit.
type benchCommits []func() error

// run makes n commits in all and returns how long they took.
func (l benchCommits) run(b *testing.B, n int) time.Duration {
	b.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for w, commit := range l {
		share := n / len(l)
		if w < n%len(l) {
			share++
		}
		wg.Go(func() {
			for range share {
				if err := commit(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func newStoreLoad(b *testing.B, writers int) benchCommits {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	var l benchCommits
	for w := range writers {
		j := newJourney(w)
		if err := s.Commit(context.Background(), j.request()); err != nil {
			b.Fatal(err)
		}
		l = append(l, func() error {
			if err := s.Commit(context.Background(), j.move()); err != nil || j.b.Next() >= 0 {
				return err
			}
			return s.Commit(context.Background(), j.request())
		})
	}
	return l
}

func newPlainLoad(b *testing.B, writers int) benchCommits {
	request, move := benchEntries(b)
	db, err := badger.Open(badger.DefaultOptions(b.TempDir()).WithSyncWrites(true).WithLogger(nil))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	var l benchCommits
	for w := range writers {
		run, n := benchRun(w), 0
		write := func(template []entry) error {
			return db.Update(func(txn *badger.Txn) error {
				for _, e := range template {
					if err := txn.Set(plainKey(e.key[0], run, n), e.value); err != nil {
						return err
					}
				}
				return nil
			})
		}
		l = append(l, func() error {
			n++
			if err := write(move); err != nil || n%benchCalls != 0 {
				return err
			}
			return write(request)
		})
	}
	return l
}

// plainKey is the key that the n-th commit of a run writes.
func plainKey(kind byte, run batch.RunID, n int) []byte {
	step, index := 1+n/benchCalls, n%benchCalls
	switch kind {
	case kindRun:
		return runKey(run)
	case kindCall:
		return callKey(run, step, index)
	case kindDecision:
		return decisionKey(run, step, index, 1)
	case kindEvents:
		return eventsKey(run, uint64(2*n))
	}
	return stepKey(kind, run, step)
}

// benchEntries are the records of a commit with a new batch and of one that moves
// a call.
func benchEntries(b *testing.B) (request, move []entry) {
	s, err := Open(b.TempDir(), Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	plan := func(c *batch.Commit) []entry {
		ch, err := prepare(c)
		if err != nil {
			b.Fatal(err)
		}
		txn := s.db.NewTransactionAt(math.MaxUint64, false)
		defer txn.Discard()
		entries, err := ch.plan(&view{txn: txn})
		if err != nil {
			b.Fatal(err)
		}
		return entries
	}
	j := newJourney(0)
	c := j.request()
	request = plan(c)
	if err := s.Commit(context.Background(), c); err != nil {
		b.Fatal(err)
	}
	return request, plan(j.move())
}

// journey makes the commits of one run.
type journey struct {
	r *batch.Run
	b *batch.Batch
}

const benchCalls = 8

var benchTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func benchRun(w int) batch.RunID { return batch.RunID(fmt.Sprintf("run-%016d", w)) }

func newJourney(w int) *journey {
	return &journey{r: &batch.Run{
		ID: benchRun(w), Fence: batch.Fence{Owner: "host-7f3a", Epoch: 1}, Principal: "ann@example.com", Agent: "assistant",
		CreatedAt: benchTime, UpdatedAt: benchTime, Counts: map[batch.ToolID]int{"text__word_count": 3, "http__get": 1},
	}}
}

func (j *journey) commit(c *batch.Commit) *batch.Commit {
	c.Run, c.Expect, c.Batch = j.r, j.r.Version, j.b
	j.r.Version++
	return c
}

func (j *journey) request() *batch.Commit {
	j.r.LastStep++
	j.r.OpenStep = j.r.LastStep
	j.b = &batch.Batch{
		Run: j.r.ID, Step: j.r.LastStep, Phase: batch.BatchOpen, Digest: "sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",
		Dialect: "own", Message: []byte(`{"calls":[]}`), CatalogFingerprint: "sha256:53c234e5e8472b6ac51c1ae1cab3fe06", RequestedAt: benchTime,
	}
	for i := range benchCalls {
		j.b.Calls = append(j.b.Calls, batch.CallState{
			Call: batch.Call{
				Run: j.b.Run, Step: j.b.Step, Index: i, ID: batch.CallID(fmt.Sprint("toolu_01A09q90qw90lq91", i)),
				Tool: "text__word_count", Arguments: []byte(`{"text":"the quick brown fox jumps over the lazy dog"}`),
			},
			Pin: batch.Pin{
				ToolDigest: "sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865", Plugin: "text", Target: batch.TargetBrain,
				Capability: batch.ReplaySafe, Policy: "replay_safe", MaxAttempts: 3, PolicyRevision: "rev-12",
			},
			Phase: batch.PhaseRequested,
		})
	}
	return j.commit(&batch.Commit{NewBatch: true})
}

func (j *journey) move() *batch.Commit {
	i := j.b.Next()
	out := &batch.Output{CallID: j.b.Calls[i].Call.ID, Content: []batch.ContentBlock{batch.JSONBlock([]byte(`{"words":9,"chars":43}`))}}
	if err := j.b.Complete(i, out, batch.AnswerPolicy, benchTime); err != nil {
		panic(err)
	}
	j.r.LastSeq += 2
	return j.commit(&batch.Commit{
		Changed: []int{i},
		Decisions: []*batch.DecisionRecord{{
			Operation: j.b.Calls[i].Call.Operation(), Seq: 1, Time: benchTime, Principal: j.r.Principal, Agent: j.r.Agent,
			Tool: "text__word_count", ToolDigest: j.b.Calls[i].Pin.ToolDigest, ArgumentDigest: j.b.Calls[i].Pin.ToolDigest[7:],
			PolicyRevision: "rev-12", Outcome: batch.OutcomeAllow, Reasons: []batch.Reason{{Code: "pure_compute", Message: "tools without capabilities may run"}},
			Elapsed: 43210, Input: benchInput,
		}},
		Events: []batch.Event{
			{Seq: j.r.LastSeq - 1, Time: benchTime, Kind: batch.EventCallExecuting, Step: j.b.Step, Index: i, Attempt: 1},
			{Seq: j.r.LastSeq, Time: benchTime, Kind: batch.EventCallCompleted, Step: j.b.Step, Index: i, Attempt: 1, Note: "tool"},
		},
	})
}

// benchInput is about what the gate's input document is.
var benchInput = []byte(`{"tool":{"id":"text__word_count","plugin":"text","version":"1.2.0","digest":"sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",` +
	`"signer":"RWQf6LRCGA9i53ml","target":"brain","capabilities":{"hosts":[],"paths":{},"commands":[],"secrets":[],"memory_mib":64,"timeout":"5s"},` +
	`"annotations":{"read_only":true}},"call":{"id":"toolu_01A09q90qw90lq91"},"run":{"id":"run-0000000000000000","principal":"ann@example.com",` +
	`"agent":"assistant","step":1,"labels":{}},"history":{"run":{"text__word_count":3},"principal":{"1h":{"text__word_count":12}}},"now":"2026-03-04T05:06:07Z"}`)
