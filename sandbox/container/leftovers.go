package container

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Removing is how often an engine is asked that is not done with a container yet.
const removing = 200 * time.Millisecond

// Leftovers lists the containers with this host's labels and the name that goes with
// them.
func (t *Tier) Leftovers(ctx context.Context, host string) ([]sandbox.Leftover, error) {
	ids, err := t.find(ctx, sandbox.LabelHost+"="+host)
	if err != nil {
		return nil, t.failed("ps", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := t.inspect(ctx, ids...)
	if err != nil && !isGone(err) {
		return nil, t.failed("container inspect", err)
	}
	var left []sandbox.Leftover
	for i := range list {
		// An image that somebody has made from one of these containers has its labels, and
		// whatever is run from that has them too.
		l := list[i].labels()
		if l.Host == host && strings.TrimPrefix(list[i].Name, "/") == containerName(l.Environment) {
			left = append(left, sandbox.Leftover{Tier: t.engine.name, ID: list[i].ID, Labels: l, Created: list[i].Created})
		}
	}
	return left, nil
}

// Remove ends and removes one of them.
func (t *Tier) Remove(ctx context.Context, l sandbox.Leftover) error { return t.remove(ctx, l.ID) }

// Find returns the ids of the containers, running or not, that have all the labels.
func (t *Tier) find(ctx context.Context, labels ...string) ([]string, error) {
	args := []string{"ps", "--all", "--quiet", "--no-trunc"}
	for _, l := range labels {
		args = append(args, "--filter", "label="+l)
	}
	out, err := t.ask(ctx, args...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// Remove ends a container and returns when the engine says that it is gone.
func (t *Tier) remove(ctx context.Context, id string) error {
	for {
		_, err := t.ask(ctx, "rm", "--force", "--volumes", id)
		switch {
		case err == nil || isGone(err):
			return nil
		case !isBusy(err):
			u := t.failed("rm", err)
			u.What = "container " + id + " may still be there: " + u.What
			return u
		}
		select {
		case <-time.After(removing):
		case <-ctx.Done():
			return t.failed("rm", fmt.Errorf("container %s is still being removed: %w", id, context.Cause(ctx)))
		}
	}
}

// IsBusy says that the engine is not done with a container yet, and will remove it when
// it is asked again: docker while it removes it already, podman 4 when it has killed one
// and not seen it end, because it was paused or its conmon is gone.
func isBusy(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "already in progress") || strings.Contains(text, "container state improper") ||
		strings.Contains(text, "timed out waiting for file")
}

// Inspected is what both engines say of a container.
type inspected struct {
	ID          string `json:"Id"`
	Name        string // docker's has a slash before it
	Image       string
	ImageDigest string // podman
	Created     time.Time
	State       struct {
		Status    string
		Running   bool
		OOMKilled bool
		ExitCode  int
		Error     string
	}
	Config struct {
		User   string
		Labels map[string]string
	}
	HostConfig struct {
		ReadonlyRootfs bool
		Privileged     bool
		CapAdd         []string
		CapDrop        []string
		SecurityOpt    []string
		PidsLimit      int64
		Memory         int64
		MemorySwap     int64
		NetworkMode    string
		PidMode        string
		IpcMode        string
		UTSMode        string
		Devices        []json.RawMessage
	}
	Mounts []struct {
		Type        string
		Destination string
		RW          bool
	}
	// Podman says these as they are in force, null for none; docker has only what was
	// asked of it.
	EffectiveCaps json.RawMessage
	BoundingCaps  json.RawMessage
}

func (c *inspected) labels() sandbox.Labels {
	l := c.Config.Labels
	return sandbox.Labels{
		Host: l[sandbox.LabelHost], Owner: l[sandbox.LabelOwner],
		Environment: l[sandbox.LabelEnvironment], Session: l[sandbox.LabelSession],
	}
}

// Inspect asks for containers by name or id. Those that are there are returned beside
// an error about the others.
func (t *Tier) inspect(ctx context.Context, ids ...string) ([]inspected, error) {
	out, failed := t.ask(ctx, slices.Concat([]string{"container", "inspect"}, ids)...)
	if failed != nil && !isGone(failed) {
		return nil, failed
	}
	var list []inspected
	if err := json.Unmarshal(out, &list); err != nil && failed == nil {
		return nil, fmt.Errorf("%s container inspect: %w", t.engine.name, err)
	}
	return list, failed
}
