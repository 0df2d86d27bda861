// Package host is the hallway: it composes store, gate, registry and executors
// into a Host that runs assistant messages, and gives the faces (command line,
// MCP, HTTP) one set of views on what the ledger holds.
//
// A Host is built by host/standard from a host.toml, or by hand from parts with
// New. It does nothing by itself until Start, which continues what an earlier
// process left and then fires tickets when their time comes. A Ledger is the
// read-only half: it lists and shows, and never executes anything.
package host
