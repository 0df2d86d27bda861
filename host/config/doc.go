// Package config reads host.toml: the one file an operator writes.
//
// Reading has three steps. The document is decoded key by key into typed values,
// where a missing key keeps its default; then the values are validated; then what
// this release cannot do is refused. Every step collects all its problems, and
// each problem names file, line and key, what is wrong, and what to do.
//
// Values come from flags, then the file, then typed defaults. The process
// environment is never read: a secret may name a variable as its source, and only
// the one who resolves the secret looks there.
//
// # Glossary
//
//   - Config: the typed, validated file.
//   - Problem: one thing wrong, or without effect, at one place of the file.
//   - Setting: one effective value with where it came from, for people.
//   - Secret: text that formats as "[redacted]" however it is printed.
package config
