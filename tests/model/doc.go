// Package model drives the real Engine through random histories and holds what it
// does against a small reference model: maps and slices, written from the contract,
// that know nothing of the engine.
//
// A history is a row of actions: batches of calls of every kind, decisions, results
// of clients, time, cancels, amendments, tools that change. Of a call that a stop cut
// short there may be a record, which says how it ended, or cannot be read. Into an action comes, at
// a random place, one trouble: the process dies before or after a call of the store,
// a call of the store fails in passing, another host takes the run, somebody cancels
// it, the host is asked to stop. After every action the records of the store and the
// deeds outside (questions to the gate, calls that reached a tool) are compared with
// the model's.
//
// The model performs an action as a row of steps, each one commit or one deed. When a
// process died the records of each run must be those after one of the steps; the model
// goes on from there.
package model
