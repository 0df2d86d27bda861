//go:build !linux && !darwin

package wasm

func machineMemory() uint64 { return unknownMemory }
