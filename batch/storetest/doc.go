// Package storetest holds what every batch.Store is held against.
//
//   - Run is the conformance suite: one test for every sentence of the contract
//     in package batch.
//   - Memory is the reference store: the contract in its simplest form, for
//     tests that need a store and no disk.
//   - Faulty is a decorator that breaks a store at a chosen call.
//
// It is imported by tests only.
package storetest
