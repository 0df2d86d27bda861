package namespace

import (
	"context"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Leftovers lists nothing: the kernel ends what is in a sandbox with its host.
func (*Tier) Leftovers(context.Context, string) ([]sandbox.Leftover, error) { return nil, nil }

// Remove has nothing to remove.
func (*Tier) Remove(context.Context, sandbox.Leftover) error { return nil }
