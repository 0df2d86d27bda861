// Package namespace is the default tier: the Hand runs on this machine's kernel, in
// namespaces of its own. Bubblewrap makes them, with a system call filter and cgroups
// where they can be written. On other systems than Linux Check and Start refuse.
package namespace
