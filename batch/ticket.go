package batch

import "time"

// TicketKind is what a parked call waits for.
type TicketKind string

// The kinds of ticket.
const (
	TicketPermission     TicketKind = "permission"
	TicketExternalResult TicketKind = "external_result"
	TicketSchedule       TicketKind = "schedule"
)

// TicketStatus is the life of a ticket: open, then closed once and for ever.
type TicketStatus string

// The ticket statuses.
const (
	TicketOpen      TicketStatus = "open"
	TicketApproved  TicketStatus = "approved" // permission: quorum reached; schedule: fired
	TicketDenied    TicketStatus = "denied"
	TicketExpired   TicketStatus = "expired"
	TicketResolved  TicketStatus = "resolved"  // external_result: the result came
	TicketCancelled TicketStatus = "cancelled" // the run was cancelled
)

// Ticket is the durable question a parked call waits on. It binds the call, its
// arguments and the tool: a decision on anything else is refused.
type Ticket struct {
	ID             TicketID         `json:"id"`
	Kind           TicketKind       `json:"kind"`
	Status         TicketStatus     `json:"status"`
	Run            RunID            `json:"run"`
	Step           int              `json:"step"`
	Index          int              `json:"index"`
	CallID         CallID           `json:"call_id"`
	Tool           ToolID           `json:"tool"`
	ToolDigest     string           `json:"tool_digest"`
	ArgumentDigest string           `json:"argument_digest"`
	PolicyRevision string           `json:"policy_revision"`
	Prompt         string           `json:"prompt,omitempty"`
	Approvers      []string         `json:"approvers,omitempty"`
	Quorum         int              `json:"quorum,omitempty"`
	CreatedAt      time.Time        `json:"created_at"`
	Deadline       time.Time        `json:"deadline,omitzero"` // zero: none
	DueAt          time.Time        `json:"due_at,omitzero"`   // schedule only
	Decisions      []TicketDecision `json:"decisions,omitempty"`
	ClosedAt       time.Time        `json:"closed_at,omitzero"`
}

// TicketDecision is one person's answer.
type TicketDecision struct {
	By      string    `json:"by"`
	Approve bool      `json:"approve"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
}
