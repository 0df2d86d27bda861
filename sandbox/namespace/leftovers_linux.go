package namespace

import (
	"context"
	"fmt"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/cgroup"
)

// Leftovers lists cgroups: the kernel ends what is in a sandbox with its host, and
// leaves the cgroup, which is empty then.
func (t *Tier) Leftovers(_ context.Context, host string) ([]sandbox.Leftover, error) {
	var found []sandbox.Leftover
	for _, l := range cgroup.Find(t.o.Cgroup).Leftovers(host) {
		found = append(found, sandbox.Leftover{Tier: sandbox.TierNamespace, ID: l.Owner + "." + l.Environment, Labels: l})
	}
	return found, nil
}

// Remove ends what is in the cgroup, should anything be, and removes it.
func (t *Tier) Remove(ctx context.Context, l sandbox.Leftover) error {
	if err := cgroup.Find(t.o.Cgroup).Remove(ctx, &l.Labels); err != nil {
		return fmt.Errorf("tier %s: %w", sandbox.TierNamespace, err)
	}
	return nil
}
