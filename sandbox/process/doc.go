// Package process starts programs that must not outlive this process, and finds out
// how they ended. Tiers that run the Hand on this machine use it.
package process
