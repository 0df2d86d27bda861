// Crash kills a host and looks at what is left: at every commit, in the middle of
// tools, while it starts and at random times.
//
// A life is a process that opens a real host: Badger on disk, policy, signed Wasm
// tools. It submits the runs of a scene, plays the people and clients around it, and
// ends when everything is published, or is killed with SIGKILL before. A world is a
// data_dir that lives one life after the other until a life ends by itself. After
// each life the ledger is compared with the journal, a file in which the life wrote
// down what it was told, and with the effects, a file in which each tool leaves a
// line. Both are outside of the ledger, and each line is one write, which a SIGKILL
// cannot take back.
//
//	crash [-kills N] [-seed N] [-report docs/RELIABILITY.md]
//
// exits with 1 when an invariant is broken. The tests of this package are a short
// form of the same, and the faults other than crashes.
package main
