// Package decisionlog writes every decision of the gate where people and other
// systems read it: a file of JSON lines with rotation, and an HTTP server that takes
// OPA's decision log.
//
// The ledger holds the truth. A decision is committed there first, then written here
// under an id that never changes (operation and seq), masked by the operator's
// data.system.log.mask and by secret values. What a process leaves out because it was
// stopped, or because a disk was full, is found in the ledger and written later.
//
//   - event: one decision as OPA's decision log has it
//   - sink: where events go, with what it is owed
//   - checkpoint: the time before which a sink is owed nothing
//   - spool: events on disk that wait for the server
package decisionlog
