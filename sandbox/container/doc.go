// Package container is the tiers docker and podman: each Environment is a container
// of an image that is pinned by digest, with the Hand's binary mounted into it, so
// that any image works.
//
// The engines are spoken to by their command lines. "run" stays in the foreground for
// as long as the container lives: its standard input and output are the channel. What
// differs between the engines is in engine.go.
package container
