// Package hand is the inside of a sandbox: it answers the requests of a host that come
// over one channel. It runs the modules of calls with the runtime of plugins/wasm, the
// commands that those calls may run, keeps the ledger of operations, and reads and
// writes the files of the workspace.
//
// It trusts the host, which verified the plugins, and nothing that runs beside it:
// modules and their commands are what the boundary is for. A command has the user and
// the system calls that the Hand has, so it is kept from the Hand by what a process can
// do to itself: no memory of the Hand can be read, no new privileges had, and, where
// the kernel has Landlock, neither the ledger nor a folder that the call may not use be
// seen.
package hand
