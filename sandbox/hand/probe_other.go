//go:build !linux

package hand

import (
	"os/exec"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Needless makes no call: there is no filter of Linux.
func Needless() int { return 1 }

// probeSystem says nothing: what holds elsewhere is for the tier to know.
func probeSystem(string, func(*exec.Cmd) error) sandbox.Properties { return nil }
