// Package namespace is the default tier: the Hand runs on this machine's kernel, in
// namespaces of its own. Bubblewrap makes them, with a system call filter and cgroups
// where they can be written. On macOS it is a Seatbelt profile instead, under which the
// Hand starts no commands. On other systems Check and Start refuse.
package namespace
