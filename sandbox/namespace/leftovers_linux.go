package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/cgroup"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// users are those that processes of sandboxes have besides the host's own.
func (t *Tier) users() []int {
	if os.Geteuid() == 0 {
		return []int{t.o.User}
	}
	return nil
}

// Leftovers lists sandboxes whose bwrap runs, and cgroups without one: the kernel ends
// what is in a sandbox with its host, and leaves the cgroup.
func (t *Tier) Leftovers(_ context.Context, host string) ([]sandbox.Leftover, error) {
	marked, err := process.Marked(sandbox.TierNamespace, host, t.users()...)
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", sandbox.TierNamespace, err)
	}
	var found []sandbox.Leftover
	have := map[sandbox.Labels]bool{}
	add := func(l sandbox.Labels) {
		found = append(found, sandbox.Leftover{Tier: sandbox.TierNamespace, ID: l.Owner + "." + l.Environment, Labels: l})
		l.Session = "" // a cgroup does not tell
		have[l] = true
	}
	for l := range marked {
		add(l)
	}
	for _, l := range cgroup.Find(t.o.Cgroup).Leftovers(host) {
		if !have[l] {
			add(l)
		}
	}
	slices.SortFunc(found, func(a, b sandbox.Leftover) int { return cmp.Compare(a.ID, b.ID) })
	return found, nil
}

// Remove ends the sandbox by its bwrap, and removes the cgroup with what is in it.
func (t *Tier) Remove(ctx context.Context, l sandbox.Leftover) error {
	err := process.EndMarked(ctx, process.Mark(sandbox.TierNamespace, &l.Labels), t.users()...)
	err = errors.Join(err, cgroup.Find(t.o.Cgroup).Remove(ctx, &l.Labels))
	if err != nil {
		return fmt.Errorf("tier %s, environment %s: %w", sandbox.TierNamespace, l.Labels.Environment, err)
	}
	return nil
}
