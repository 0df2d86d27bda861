// Package plugins is the library of the host: what a plugin is, who vouches for
// it, and which tools are in force.
//
// # Glossary
//
//   - Manifest: plugin.toml. It names the module by SHA-256, so whoever vouches
//     for the manifest vouches for code and permissions too.
//   - Signature: plugin.toml.minisig, a detached minisign signature.
//   - Trust: the operator's keys, with the plugins each may sign, pins and
//     revocations.
//   - Capabilities: what a plugin may use. Effective = manifest ∩ operator's grant
//     ∩ what the policy's decision leaves.
//   - Snapshot: an immutable set of verified plugins and their tools.
//   - Registry: the current Snapshot, swapped whole.
package plugins
