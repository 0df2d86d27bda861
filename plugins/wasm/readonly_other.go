//go:build !linux

package wasm

// readOnly is not known on this system.
func readOnly(string) bool { return false }
