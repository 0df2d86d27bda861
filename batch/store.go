package batch

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Errors of a Store, to be compared with errors.Is; returned errors name the run.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("run changed meanwhile")   // expected version does not match
	ErrFenced   = errors.New("run is owned by another") // owner or epoch does not match
	ErrClosed   = errors.New("store is closed")
	ErrCorrupt  = errors.New("stored record is damaged") // a record that does not decode or validate
	ErrTooLarge = errors.New("commit is too large")
	ErrDiskFull = errors.New("disk is nearly full") // a new batch is refused while others can still be finished
)

// Fence is who may commit to a run. Epochs of a run only grow.
type Fence struct {
	Owner string `json:"owner"`
	Epoch uint64 `json:"epoch"`
}

// Run is the head record of a run. Version grows by one with every commit.
type Run struct {
	ID        RunID             `json:"id"`
	Version   uint64            `json:"version"`
	Fence     Fence             `json:"fence"`
	Principal string            `json:"principal,omitempty"`
	Agent     string            `json:"agent,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	LastStep  int               `json:"last_step"`           // highest step requested, 0: none
	OpenStep  int               `json:"open_step,omitempty"` // step whose batch is open, 0: none
	LastSeq   uint64            `json:"last_seq"`            // sequence number of the last event
	Counts    map[ToolID]int    `json:"counts,omitempty"`    // calls executed in this run, by tool
	Parent    OperationID       `json:"parent,omitempty"`    // the delegation call this run is the child of
	Depth     int               `json:"depth,omitempty"`     // 0 for a run without a parent, else the parent's plus one
	Cancelled *Cancellation     `json:"cancelled,omitempty"` // set once and for ever
}

// Cancellation says who ended a run, when and why. A cancelled run takes no more
// steps.
type Cancellation struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// EventKind names what an Event reports. Persisted: names are never reused.
type EventKind string

// The event kinds.
const (
	EventBatchRequested    EventKind = "batch_requested"
	EventCallExecuting     EventKind = "call_executing"
	EventCallAwaiting      EventKind = "call_awaiting"
	EventCallCompleted     EventKind = "call_completed"
	EventCallIndeterminate EventKind = "call_indeterminate"
	EventTicketDecided     EventKind = "ticket_decided"
	EventBatchPublished    EventKind = "batch_published"
	EventRunCancelled      EventKind = "run_cancelled"
	EventCallAmended       EventKind = "call_amended" // what a person found out about an indeterminate call
)

// Event is one committed fact in the history of a run. Seq starts at 1, has no
// holes, and orders events as they were committed.
type Event struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    EventKind `json:"kind"`
	Step    int       `json:"step"`
	Index   int       `json:"index"` // -1 for events of the batch
	Attempt int       `json:"attempt,omitempty"`
	Ticket  TicketID  `json:"ticket,omitempty"`
	Note    string    `json:"note,omitempty"`   // for people; call_awaiting: the ticket's kind
	By      string    `json:"by,omitempty"`     // the person behind it, where there is one
	Output  *Output   `json:"output,omitempty"` // call_amended: the result that was found, nil when it is known only that it failed
}

// StateWrite sets a published state key of a run, or deletes it when Value is
// nil. Key is "<plugin>/<declared key>".
type StateWrite struct {
	Key   string
	Value json.RawMessage
}

// Commit is one atomic, durable change of one run. A Store applies all of it or
// nothing, and never retains or changes it.
type Commit struct {
	// Run is the head record as it shall stand, except that the Store sets Version to
	// Expect+1. Its Fence is the committer's and must equal the stored one.
	Run    *Run
	Expect uint64 // version the stored run must have; 0: the run must not exist

	// Batch, when not nil, is the batch as it shall stand. With NewBatch the whole
	// batch is written, arguments and assistant message included, and must not
	// exist yet; otherwise the batch's head and the mutable part of the calls
	// listed in Changed are.
	Batch    *Batch
	NewBatch bool
	Changed  []int

	Tickets   []*Ticket         // put by id
	Decisions []*DecisionRecord // appended; (Operation, Seq) is new
	Events    []Event           // appended; Seq continues Run.LastSeq of the stored run
	State     []StateWrite      // in order
}

// TicketFilter selects tickets; zero fields do not filter.
type TicketFilter struct {
	Run  RunID
	Open bool // only those with status open
}

// Store is the durable side of the ledger. Every method is safe for concurrent
// use. What a read returns belongs to the caller. Errors wrap the sentinels
// above and name the run or key.
//
// Commit returns nil only when the change is durable under the store's sync
// setting. After an error the change is either wholly absent or, when the
// context ended or the disk failed, possibly present: the caller reads the run
// again before it goes on. A context that ends does not tear a commit.
type Store interface {
	Commit(ctx context.Context, c *Commit) error

	// Claim makes (owner, epoch) the fence of run if epoch is greater than the
	// stored one, or changes nothing if both are equal to it; otherwise ErrFenced.
	// It returns the run after the claim. A change counts as a commit: the version
	// grows by one.
	Claim(ctx context.Context, run RunID, owner string, epoch uint64) (*Run, error)

	Run(ctx context.Context, run RunID) (*Run, error)
	// Runs lists at most limit runs (0: all) in byte order of id, after the id
	// after.
	Runs(ctx context.Context, after RunID, limit int) ([]*Run, error)
	// Open lists the batches that are not finalized, in byte order of run.
	Open(ctx context.Context) ([]BatchID, error)
	// Batch returns the batch with all calls, validated.
	Batch(ctx context.Context, run RunID, step int) (*Batch, error)
	Ticket(ctx context.Context, id TicketID) (*Ticket, error)
	// Tickets lists by creation time, then id.
	Tickets(ctx context.Context, f TicketFilter) ([]*Ticket, error)
	// Decisions lists those of a run by step, index and seq.
	Decisions(ctx context.Context, run RunID) ([]*DecisionRecord, error)
	// Events lists at most limit (0: all) with Seq greater than after, in order.
	Events(ctx context.Context, run RunID, after uint64, limit int) ([]Event, error)
	// State is the published state, by "<plugin>/<key>".
	State(ctx context.Context, run RunID) (map[string]json.RawMessage, error)

	// Delete removes a run with everything that belongs to it, in one change that a
	// crash cannot halve as seen by any method. ErrConflict when the run is not at
	// version expect, ErrInvalid while it has an open step.
	Delete(ctx context.Context, run RunID, expect uint64) error

	// Close waits for commits under way and releases the store. Later calls
	// return ErrClosed.
	Close() error
}
