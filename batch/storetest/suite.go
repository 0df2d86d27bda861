package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Open returns a fresh, empty store for one test, and a function that closes the
// store it returned last and opens the same records again, as a restart would.
// Both stores are closed by Open's own cleanup, or by the test.
type Open func(t *testing.T) (store batch.Store, reopen func() batch.Store)

// Run holds a store against the contract of batch.Store. Every subtest opens a
// store of its own.
func Run(t *testing.T, open Open) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *harness)
	}{
		{"create", testCreate},
		{"version grows by one", testVersion},
		{"conflict", testConflict},
		{"commit is not changed or kept", testCommitUntouched},
		{"fence", testFence},
		{"claim", testClaim},
		{"claim of an unknown run", testClaimUnknown},
		{"new batch", testNewBatch},
		{"new batch is new", testNewBatchTwice},
		{"unknown batch", testUnknownBatch},
		{"only changed calls are written", testChangedOnly},
		{"what was requested never changes", testImmutable},
		{"invalid batch", testInvalidBatch},
		{"byte for byte", testBytes},
		{"output shapes", testOutputShapes},
		{"large values", testLarge},
		{"a thousand calls", testThousandCalls},
		{"open batches", testOpen},
		{"events", testEvents},
		{"events without holes", testEventHoles},
		{"decisions", testDecisions},
		{"tickets", testTickets},
		{"ticket of another run", testForeignTicket},
		{"state", testState},
		{"runs are listed in pages", testRuns},
		{"runs are apart", testIsolation},
		{"unknown run", testUnknownRun},
		{"malformed commits", testMalformed},
		{"a refused commit leaves no trace", testAtomic},
		{"reads belong to the caller", testReadsOwned},
		{"many runs at once", testManyRuns},
		{"one winner a version", testOneWinner},
		{"reads during writes", testReadDuringWrites},
		{"parents, cancellations and findings", testRunControl},
		{"delete", testDelete},
		{"a run is deleted whole", testDeleteWhole},
		{"delete or commit", testDeleteRace},
		{"reopen", testReopen},
		{"context", testContext},
		{"close", testClose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, reopen := open(t)
			tt.test(t, &harness{t: t, Store: store, reopen: reopen})
		})
	}
}

// harness is a store with shorthand for the tests.
type harness struct {
	batch.Store
	t      *testing.T
	reopen func() batch.Store
}

var (
	ctx   = context.Background()
	epoch = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)
	fence = batch.Fence{Owner: "host-1", Epoch: 3}
)

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) refused(err, want error) {
	h.t.Helper()
	if !errors.Is(err, want) {
		h.t.Fatalf("error is %v, want one that is %q", err, want)
	}
}

func (h *harness) equal(what string, got, want any) {
	h.t.Helper()
	if !reflect.DeepEqual(got, want) {
		h.t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// head returns the run as stored.
func (h *harness) head(id batch.RunID) *batch.Run {
	h.t.Helper()
	r, err := h.Run(ctx, id)
	h.must(err)
	return r
}

func (h *harness) batch(id batch.RunID, step int) *batch.Batch {
	h.t.Helper()
	b, err := h.Batch(ctx, id, step)
	h.must(err)
	return b
}

// create makes an empty run.
func (h *harness) create(id batch.RunID) *batch.Run {
	h.t.Helper()
	h.must(h.Commit(ctx, &batch.Commit{Run: newRun(id)}))
	return h.head(id)
}

// next returns a commit on top of the stored run; edit fills in the rest and
// events are numbered.
func (h *harness) next(id batch.RunID, edit func(*batch.Commit)) *batch.Commit {
	h.t.Helper()
	r := h.head(id)
	c := &batch.Commit{Run: r, Expect: r.Version}
	if edit != nil {
		edit(c)
	}
	for i := range c.Events {
		r.LastSeq++
		c.Events[i].Seq = r.LastSeq
	}
	return c
}

func (h *harness) commit(id batch.RunID, edit func(*batch.Commit)) {
	h.t.Helper()
	h.must(h.Commit(ctx, h.next(id, edit)))
}

// request creates a run with one open batch.
func (h *harness) request(id batch.RunID, calls int) *batch.Batch {
	h.t.Helper()
	h.create(id)
	b := newBatch(id, 1, calls)
	h.commit(id, func(c *batch.Commit) { c.Batch, c.NewBatch = b, true })
	return h.batch(id, 1)
}

func newRun(id batch.RunID) *batch.Run {
	return &batch.Run{
		ID: id, Fence: fence, Principal: "ann@example.com", Agent: "agent-1",
		Labels: map[string]string{"team": "billing"}, CreatedAt: epoch, UpdatedAt: epoch.Add(time.Second),
		Counts: map[batch.ToolID]int{"text__word_count": 2},
	}
}

func newBatch(run batch.RunID, step, calls int) *batch.Batch {
	b := &batch.Batch{
		Run: run, Step: step, Phase: batch.BatchOpen, Digest: "sha256:content", Dialect: "own",
		Message: []byte(`{"calls": [ ]}`), CatalogFingerprint: "fingerprint", RequestedAt: epoch,
	}
	for i := range calls {
		b.Calls = append(b.Calls, batch.CallState{
			Call: batch.Call{
				Run: run, Step: step, Index: i, ID: batch.CallID("call-" + string(batch.NewOperationID("x", 1, i))),
				Tool: "text__word_count", Arguments: []byte(`{ "text": "one two" }`),
			},
			Pin: batch.Pin{
				ToolDigest: "sha256:tool", Plugin: "text", Target: batch.TargetBrain, Capability: batch.ReplaySafe,
				Policy: batch.RecoveryPolicy(batch.ReplaySafe), MaxAttempts: 3, PolicyRevision: "rev-1",
			},
			Phase: batch.PhaseRequested,
		})
	}
	return b
}

func newTicket(id batch.TicketID, run batch.RunID, at time.Time) *batch.Ticket {
	return &batch.Ticket{
		ID: id, Kind: batch.TicketPermission, Status: batch.TicketOpen, Run: run, Step: 1, CallID: "call-0",
		Tool: "text__word_count", ToolDigest: "sha256:tool", ArgumentDigest: "abc", PolicyRevision: "rev-1",
		Prompt: "May it?", Approvers: []string{"bob"}, Quorum: 2, CreatedAt: at, Deadline: at.Add(time.Hour),
	}
}

func newDecision(run batch.RunID, step, index, seq int) *batch.DecisionRecord {
	return &batch.DecisionRecord{
		Operation: batch.NewOperationID(run, step, index), Seq: seq, Time: epoch, Principal: "ann@example.com",
		Tool: "text__word_count", ToolDigest: "sha256:tool", ArgumentDigest: "abc", PolicyRevision: "rev-1",
		Outcome: batch.OutcomeAllow, Reasons: []batch.Reason{{Code: "ok", Message: "a <rule> said so", Detail: "line 3"}},
		Grant: &batch.Grant{Hosts: []string{}, MemoryMiB: 8}, Elapsed: 1234,
		Input: []byte(`{ "tool" : {"id": "text__word_count"} }`),
	}
}
