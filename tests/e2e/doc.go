// Package e2e runs the program as people do: scripts in testdata start the real
// binary with real plugins, a real ledger on disk and real policies, kill it,
// tamper with its files, and look at what it prints and at its exit status.
//
// The commands of the scripts, besides those of testscript, are in commands_test.go
// and background_test.go; setup_test.go builds the binary.
package e2e
