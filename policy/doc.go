// Package policy is the lock of the host: a gate (batch.Gate) that asks Rego
// policies about every tool call. It is the only importer of OPA.
//
// # Glossary
//
//   - Operator's policy: the Rego v1 modules and data under [policy].paths. Its
//     rules allow, block, require_confirmation, schedule, set_result and grant
//     live in package awaken.policy; helpers and data live where they like.
//   - Base policy: the embedded package awaken.gate, which composes those rules
//     into data.awaken.gate.decision, the entry point. Operators cannot define
//     anything in it.
//   - Library: the embedded packages awaken.lib.…, helpers that operators import
//     and cannot change: hosts, paths, commands, rate, hours.
//   - Input: the document a policy sees, see type Input and InputSchema.
//   - Decision: what the entry point answers for one input. Only the exact shape
//     counts; everything else is a decision to block with a reason code.
//   - Bundle: an OPA bundle, a policy as one signed archive, from disk or a server.
//   - Set: one compiled policy with its data, prepared once, replaced whole.
//   - Revision: the identity of a set: SHA-256 over its sources, the base policy
//     and the built-ins let in.
//   - Capabilities: the OPA built-ins a policy may use. Those that reach the
//     network or the environment are absent unless the operator lists them.
package policy
