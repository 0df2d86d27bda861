//go:build !linux && !darwin

package namespace

import (
	"context"
	"runtime"

	"github.com/awaken-agents/awaken-host/sandbox"
)

var defaultFolders []string

func unsupported() error {
	return unavailable(sandbox.ReasonUnsupported, "there are no such namespaces on "+runtime.GOOS, "use tier docker, podman or k8s", nil)
}

// Check says that this system is not supported.
func (*Tier) Check(context.Context) error { return unsupported() }

// Start says that this system is not supported.
func (*Tier) Start(context.Context, *sandbox.Spec) (sandbox.Instance, error) {
	return nil, unsupported()
}

// Leftovers finds nothing: nothing was started.
func (*Tier) Leftovers(context.Context, string) ([]sandbox.Leftover, error) { return nil, nil }

// Remove has nothing to remove.
func (*Tier) Remove(context.Context, sandbox.Leftover) error { return nil }
