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
//   - Grant: what the operator lets a plugin use, [plugin.grant].
//
// # Names
//
// A plugin id is [a-z0-9][a-z0-9-]* of at most 48 bytes, a tool id
// [a-zA-Z0-9_-]+ of at most 64. The model sees <plugin>__<tool> or the name the
// operator gives in [plugin.names], at most 64 bytes. An id without underscores
// ends at the first "__", so no tool can pose as another plugin's.
//
// # JSON
//
// Arguments, state and schema-checked outputs are read such that policy, host and
// guest cannot read them differently: UTF-8, no key twice at any level, no lone
// surrogates, numbers within a double, at most 64 levels and 250,000 values.
// Schemas are JSON Schema 2020-12 unless they say otherwise, load nothing and are
// checked in bounded time.
package plugins
