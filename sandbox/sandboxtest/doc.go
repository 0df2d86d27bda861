// Package sandboxtest is what every tier of a sandbox is held to, on its real engine.
//
//   - Suite checks the contract of sandbox.Tier and of the Hand inside: starting and
//     stopping, what is left behind, calls, commands, files, cancelling, the ledger.
//   - Escapes runs a hostile program inside and checks what comes of each attempt. The
//     table in docs/SECURITY.md is written from what it expects:
//     go generate ./sandbox/sandboxtest
//   - Engines tells where the engines of the tests are.
//
// It uses the Hand as it is shipped, and the plugins of `make guests`.
package sandboxtest

//go:generate go test -run ^TestEscapeTable$ -count 1 . -update
