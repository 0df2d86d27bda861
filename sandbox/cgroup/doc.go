// Package cgroup limits what the processes of one sandbox use together, with the
// kernel's control groups of version 1, version 2, or both side by side, where this
// process may make some. On systems without them Find finds nothing.
package cgroup
