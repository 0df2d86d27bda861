// Package batch is the ledger of the host: what a tool call is, and the durable
// life it leads from the model's message to the published result.
//
// # Glossary
//
//   - Run: one conversation's worth of tool calls, owned by a principal and
//     driven by an agent. A run advances in steps.
//   - Batch: all tool calls of one assistant message, identified by
//     "<run>/<step>". A batch is open until every call is terminal, then
//     finalized and published as a whole.
//   - Call: one tool call in a batch. The provider's call id names it towards
//     the model; the operation id "<batch>/<index>" names it towards tools and
//     is the idempotency key.
//   - Gate: the permission port. It answers allow, block, set_result,
//     require_confirmation or schedule.
//   - Ticket: the durable question a parked call waits on.
//   - Executor: the port that runs an allowed call, one per Target.
//   - Command: a change of run state that a tool asks for. Commands are staged
//     with the call's outcome and applied when the batch is published.
//   - Fence: owner and epoch of the process that may commit to a run.
//
// # Life of a batch
//
// Submit commits the whole batch as requested before anything runs. Calls are
// then taken in model order: the gate decides, the decision is committed, the
// call is executed or answered or parked, and its outcome is committed on its
// own. When every call is terminal one commit finalizes the batch and publishes
// ordered results and staged state together. After a crash the Engine continues
// from the committed phase of each call and from nothing else.
//
// The package imports the standard library only. Stores, gates, catalogs and
// executors are ports declared here and implemented elsewhere.
package batch
