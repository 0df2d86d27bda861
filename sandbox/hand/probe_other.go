//go:build !linux

package hand

import "github.com/awaken-agents/awaken-host/sandbox"

// probeSystem says nothing: what holds elsewhere is for the tier to know.
func probeSystem() sandbox.Properties { return nil }
