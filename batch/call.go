package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Target says where a tool runs. It comes from the trusted manifest and from
// nowhere else.
type Target string

// The targets.
const (
	TargetUnknown Target = ""
	TargetBrain   Target = "brain"   // beside the model, in process
	TargetSandbox Target = "sandbox" // through the configured sandbox executor
	TargetClient  Target = "client"  // nowhere in this host: the client executes it; only of host.toml's client tools
)

// Grant narrows what a call may use, below what manifest and operator allow.
// A nil field does not narrow; an empty non-nil one allows nothing.
type Grant struct {
	Hosts     []string          `json:"hosts,omitzero"`
	Paths     map[string]string `json:"paths,omitzero"` // guest path to "ro" or "rw"
	Commands  []string          `json:"commands,omitzero"`
	MemoryMiB int               `json:"memory_mib,omitempty"` // 0: not narrowed
	Timeout   time.Duration     `json:"timeout,omitempty"`    // nanoseconds; 0: not narrowed
}

// Call is one tool call. The first block of fields is committed with the batch
// and never changes. The second is filled by the Engine for the Executor, is not
// part of the stored call, and must not be retained after Invoke returns.
type Call struct {
	Run       RunID
	Step      int
	Index     int // position in model order, from 0
	ID        CallID
	Tool      ToolID
	Arguments []byte // what the model wrote, byte for byte; may be invalid JSON

	RunBegan   time.Time // tells the run from one of its name that was removed; zero: not known
	Attempt    int       // 1 for the first
	ToolDigest string    // digest pinned when the batch was requested
	Grant      *Grant    // what the gate narrowed; nil: nothing
	// State is the published run state of the tool's plugin, by declared key. It
	// never shows what is staged. Read only.
	State map[string]json.RawMessage
}

// Batch returns the id of the batch the call belongs to.
func (c *Call) Batch() BatchID { return NewBatchID(c.Run, c.Step) }

// Operation returns the idempotency key of the call.
func (c *Call) Operation() OperationID { return NewOperationID(c.Run, c.Step, c.Index) }

// ArgumentDigest is the hex SHA-256 of the argument bytes.
func (c *Call) ArgumentDigest() string {
	sum := sha256.Sum256(c.Arguments)
	return hex.EncodeToString(sum[:])
}

// Executor runs allowed calls of one Target. Both methods are called
// concurrently, for calls of different runs and of one.
//
// Invoke returns the output, or an error that is a *ToolError. An error of
// another type counts as kind execution: dispatched, outcome unknown. Invoke
// returns promptly once ctx ends, and may keep nothing of call or of the output
// it returned. It is called at most once per committed attempt.
type Executor interface {
	// RecoveryCapability is what the tool can promise; non_recoverable when
	// unknown.
	RecoveryCapability(tool ToolID) RecoveryCapability
	Invoke(ctx context.Context, call *Call) (*Output, error)
}

// Recaller is an Executor that keeps a record of what it ran, where it runs it. A call
// that is found executing, because its process stopped or its outcome was not
// committed, is looked up there before anything is decided about it.
//
// Recall returns the recorded output of the operation, of whichever attempt, or the
// recorded *ToolError, and true. False: no end of it is recorded, whether or not it
// began; err then says why the record could not be read, if that is why. It runs
// nothing, and when it returns, nothing of an earlier attempt runs any more.
type Recaller interface {
	Executor
	Recall(ctx context.Context, call *Call) (out *Output, known bool, err error)
}

// Delegator is an Executor some of whose tools do their work in a child run, found
// again by the operation id. Invoke starts the child, or finds it, and returns
// ErrPending while it is not finished; the call then stays executing, and is
// invoked again, in the same attempt, when the batch is resumed. Such a tool's
// output has no state.
type Delegator interface {
	Executor
	Delegates(tool ToolID) bool
	// Parallel reports that calls of the tool may run side by side, when the batch
	// has nothing but delegations and every gate has said allow.
	Parallel(tool ToolID) bool
}

// ErrPending is what a Delegator's Invoke returns while the child is not finished.
var ErrPending = errors.New("the child run is not finished")

// ToolErrorKind classifies a host-side failure by what may have happened.
type ToolErrorKind string

// The kinds of ToolError.
const (
	// ToolErrorExecution: dispatched, outcome unknown. Not replayable unless
	// capability and pinned policy allow.
	ToolErrorExecution ToolErrorKind = "execution"
	// ToolErrorInvalidArguments: the tool refused the arguments; nothing ran.
	ToolErrorInvalidArguments ToolErrorKind = "invalid_arguments"
	// ToolErrorUnavailable: proof that nothing crossed the dispatch boundary, so
	// another attempt is safe.
	ToolErrorUnavailable ToolErrorKind = "unavailable_before_dispatch"
	// ToolErrorPlacement: the place the tool requires does not exist, cannot be
	// enforced here, or cannot run the tool's code. Nothing ran, and another attempt
	// will not help.
	ToolErrorPlacement ToolErrorKind = "placement"
)

// ToolError is a failure of the host to run a tool, as opposed to a tool that
// ran and failed (Output.IsError).
type ToolError struct {
	Kind ToolErrorKind
	Msg  string
	Err  error // may be nil
}

func (e *ToolError) Error() string { return fmt.Sprintf("%s: %s", e.Kind, e.Text()) }

// Text is the error without its kind: the message, with the cause where the message
// does not end in it already.
func (e *ToolError) Text() string {
	if e.Err == nil || strings.HasSuffix(e.Msg, e.Err.Error()) {
		return e.Msg
	}
	return e.Msg + ": " + e.Err.Error()
}

func (e *ToolError) Unwrap() error { return e.Err }

// Descriptor is what the ledger needs to know of a tool.
type Descriptor struct {
	ID          ToolID
	Plugin      string // owner of the tool's state keys
	Digest      string // changes whenever manifest or code change
	Target      Target
	Recovery    RecoveryPolicy // what the deployment pins
	MaxAttempts int            // 0: DefaultMaxAttempts
	Client      bool           // the client executes it: an allowed call waits for an external result
}

// Tool is one entry of a Catalog. Safe for concurrent use; never changes.
type Tool interface {
	Descriptor() Descriptor
	// CheckArguments validates a JSON object against the input schema.
	CheckArguments(args []byte) error
	// CheckOutput validates a successful output against the output schema.
	CheckOutput(out *Output) error
	// CheckState validates the value a state key would have, nil when it would be
	// deleted; an undeclared key is an error either way.
	CheckState(key string, value json.RawMessage) error
}

// Catalog is an immutable set of tools.
type Catalog interface {
	Lookup(id ToolID) (Tool, bool)
	// Fingerprint identifies the set and what it may do.
	Fingerprint() string
}
