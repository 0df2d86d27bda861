// Package kube is the tier k8s: one Pod for each Environment, with the restricted Pod
// Security profile, on a cluster that client-go reaches.
//
// The Hand is in the Pod's image, or an init container copies it from an image of the
// host's own into a volume, so that any image works. The Pod's own process is
// "hand wait", which does nothing but reap; the Hand that speaks is started by exec,
// whose standard input and output are the channel. So a Pod outlives the process that
// made it, and the next one can read its ledger through another exec.
//
// Nothing of this machine is mounted: see sandbox.Carrier.
package kube
