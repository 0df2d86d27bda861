package standard

import (
	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/plugins"
)

// More names for the command line and for embedders, who import no other package
// of this module. Each is documented where it is declared.
type (
	Host      = host.Host
	Ledger    = host.Ledger
	Message   = host.Message
	Result    = host.Result
	RunView   = host.RunView
	BatchView = host.BatchView
	CallView  = host.CallView
	Output    = batch.Output
	Ticket    = batch.Ticket
	Tool      = plugins.Tool

	DecisionFilter = host.DecisionFilter
	DecisionRecord = batch.DecisionRecord
	RunSummary     = host.RunSummary
	EventView      = host.EventView
	PruneReport    = host.PruneReport
	Amendment      = batch.Amendment
	ExternalResult = batch.ExternalResult
	ContentBlock   = batch.ContentBlock
)

// Values of the fields above.
const (
	BatchFinalized = batch.BatchFinalized

	PhaseAwaiting  = batch.PhaseAwaiting
	PhaseCompleted = batch.PhaseCompleted
	AnswerTool     = batch.AnswerTool

	TicketPermission     = batch.TicketPermission
	TicketSchedule       = batch.TicketSchedule
	TicketExternalResult = batch.TicketExternalResult

	BlockText = batch.BlockText

	EventBatchRequested    = batch.EventBatchRequested
	EventCallExecuting     = batch.EventCallExecuting
	EventCallAwaiting      = batch.EventCallAwaiting
	EventCallCompleted     = batch.EventCallCompleted
	EventCallIndeterminate = batch.EventCallIndeterminate
	EventCallAmended       = batch.EventCallAmended
	EventTicketDecided     = batch.EventTicketDecided
)
