package batch

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// Outcome is a gate's answer. Persisted: names are never reused.
type Outcome string

// The outcomes. The unknown zero blocks.
const (
	OutcomeUnknown             Outcome = ""
	OutcomeAllow               Outcome = "allow"
	OutcomeBlock               Outcome = "block"
	OutcomeSetResult           Outcome = "set_result"
	OutcomeRequireConfirmation Outcome = "require_confirmation"
	OutcomeSchedule            Outcome = "schedule"
)

// Reason says why a gate decided as it did. Code is stable and machine readable
// ("no_rule", "timeout", an operator's own). Message is for people and, when the
// call is blocked, for the model. Detail is for the operator alone: it stays in
// the decision record, so that a failing policy does not tell a model about
// itself.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// Gate decides on calls. Decide is called concurrently, once per call and once
// more when a parked call resumes. Whatever goes wrong must come back as a
// decision to block with a reason; an error, a nil decision or one that does not
// validate also blocks.
type Gate interface {
	// Revision identifies the policy set in force.
	Revision() string
	Decide(ctx context.Context, q *Query) (*Decision, error)
}

// Query is what a gate is asked. It may not be retained or changed.
type Query struct {
	Call     *Call
	Tool     Descriptor
	Run      *Run
	Approval *Approval // nil unless the call was parked and is being resumed
	Now      time.Time
	// Recent counts by tool, for each window before Now, the calls that began in any
	// run of the run's principal, this call left out; runs without a principal count
	// as those of one. A window is above 0 and at most RecentHorizon. A call counts
	// from its first attempt, whatever came of it, also in a run that was cancelled
	// since. A call that another gate decision is being made about counts too, until
	// that decision is another than allow: so a limit holds over runs that call at
	// the same moment. A run that is pruned no longer counts after a restart. The
	// first use after a start reads the runs that changed within the horizon; later
	// ones read nothing. Nil: nobody knows.
	Recent func(ctx context.Context, windows ...time.Duration) ([]map[ToolID]int, error)
}

// Approval tells the gate how a parked call came back.
type Approval struct {
	Kind      TicketKind `json:"kind"`
	Ticket    TicketID   `json:"ticket"`
	By        []string   `json:"by,omitempty"` // who approved; empty for a schedule
	At        time.Time  `json:"at"`
	Requested time.Time  `json:"requested"`
}

// Decision is a gate's answer to a Query. The fields of other outcomes than the
// one given are zero; Grant goes with allow only.
type Decision struct {
	Outcome        Outcome
	Reasons        []Reason
	PolicyRevision string
	Grant          *Grant        // allow: narrowing, may be nil
	Result         *Result       // set_result
	Confirmation   *Confirmation // require_confirmation
	At             time.Time     // schedule: not before
	Elapsed        time.Duration
	// Input is the evaluated input document as JSON, with call.arguments left out
	// (the call record has them). May be nil.
	Input json.RawMessage
}

// Result is what set_result answers in the tool's stead.
type Result struct {
	Content []ContentBlock
	IsError bool
}

// Confirmation describes the question of require_confirmation.
type Confirmation struct {
	Prompt    string
	Approvers []string      // who may decide; empty: anyone who may decide at all
	Quorum    int           // approvals needed; 0: 1
	Timeout   time.Duration // until the deadline; 0: the engine's default
}

// DecisionRecord is the durable trace of one gate decision. Every call leaves
// one, and one more per resume; calls refused before the gate (unknown tool, invalid
// arguments) leave one with outcome block and the reason's code.
type DecisionRecord struct {
	Operation      OperationID     `json:"operation"`
	Seq            int             `json:"seq"` // 1 for the first decision on the operation
	Time           time.Time       `json:"time"`
	Principal      string          `json:"principal,omitempty"`
	Agent          string          `json:"agent,omitempty"`
	Tool           ToolID          `json:"tool"`
	ToolDigest     string          `json:"tool_digest,omitempty"`
	ArgumentDigest string          `json:"argument_digest"`
	PolicyRevision string          `json:"policy_revision,omitempty"`
	Outcome        Outcome         `json:"outcome"`
	Reasons        []Reason        `json:"reasons,omitempty"`
	Grant          *Grant          `json:"grant,omitempty"`
	Approval       *Approval       `json:"approval,omitempty"`
	Elapsed        time.Duration   `json:"elapsed_ns,omitempty"`
	Input          json.RawMessage `json:"input,omitempty"`
}

// ID names the record for ever: "<operation>/<seq>".
func (r *DecisionRecord) ID() string { return string(r.Operation) + "/" + strconv.Itoa(r.Seq) }
