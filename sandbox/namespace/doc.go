// Package namespace is the default tier: the Hand runs on this machine's kernel, in
// namespaces of its own. On Linux bubblewrap makes them, with a system call filter and
// cgroups where they can be written; on macOS Seatbelt takes their place.
package namespace
