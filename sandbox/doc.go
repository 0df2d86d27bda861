// Package sandbox runs tools whose manifest says target = "sandbox" inside the
// boundary that the operator configured, and nowhere weaker.
//
// Its words:
//
//   - An Environment belongs to one session and has an id of its own: a workspace,
//     mounts, limits, and at most one Hand. See Environment for its states.
//   - A Tier is a kind of boundary: local, namespace, docker, podman, k8s. It starts
//     an Instance, which is one running boundary with a Hand in it, of one Environment.
//   - The Hand is the small program inside the boundary. It runs the module of a call,
//     and the commands that the call may run.
//   - The Channel is how host and Hand speak: the same protocol over the standard
//     input and output of the Hand in every tier. Everything crosses it: modules,
//     calls, secrets, requests to the network, files of the workspace.
//   - A Property is what a boundary holds (the network, the file system, …), with a
//     Level. Levels are read back from inside a running Instance, never assumed.
//   - An owner is one process of a host. What it leaves behind is removed by the next
//     one, once the owner is proven dead.
//
// The parent package knows no tier: each is a child package and implements Tier.
package sandbox
