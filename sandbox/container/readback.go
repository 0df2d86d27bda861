package container

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Inspect reads back what the engine made, as opposed to what it was asked for. A
// container of another image than the pinned one is stopped.
func (i *instance) Inspect(ctx context.Context) (*sandbox.Effective, error) {
	list, err := i.tier.inspect(ctx, i.name)
	if err != nil {
		return nil, i.tier.failed("container inspect", err)
	}
	if len(list) != 1 {
		return nil, i.tier.unavailable(sandbox.ReasonStart, "not one container is called "+i.name, "")
	}
	c := &list[0]
	if !i.facts.image.runs(c) {
		u := i.tier.unavailable(sandbox.ReasonDigest, fmt.Sprintf("container %s runs image %s, and %s is pinned", i.name, c.Image, i.tier.image), "")
		if err := i.Stop(ctx); err != nil {
			u.What += "; and it could not be stopped"
			u.Err = err
		}
		return nil, u
	}
	return &sandbox.Effective{
		Tier: i.tier.engine.name, ID: c.ID, Image: digestOf(i.tier.image),
		Properties: sandbox.Properties{
			sandbox.PropertyFilesystem: c.filesystem(&i.spec),
			sandbox.PropertyNetwork:    c.network(i.spec.Network),
			sandbox.PropertyProcesses:  c.processes(),
			sandbox.PropertyUser:       c.user(i.facts),
			sandbox.PropertyMemory:     c.memory(),
			sandbox.PropertyPIDs:       c.pids(),
			sandbox.PropertySyscalls:   c.syscalls(i.facts),
		},
	}, nil
}

func (i *image) runs(c *inspected) bool {
	return c.Image != "" && withAlgorithm(c.Image) == withAlgorithm(i.ID)
}

func enforced(format string, args ...any) sandbox.Finding {
	return sandbox.Finding{State: sandbox.Enforced, Detail: fmt.Sprintf(format, args...)}
}

func notEnforced(remedy, format string, args ...any) sandbox.Finding {
	return sandbox.Finding{State: sandbox.NotEnforced, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

const engineConfig = "look at the engine's own configuration for what adds it"

func (c *inspected) filesystem(spec *sandbox.Spec) sandbox.Finding {
	h := &c.HostConfig
	switch {
	case h.Privileged:
		return notEnforced(engineConfig, "the container is privileged")
	case !h.ReadonlyRootfs:
		return notEnforced(engineConfig, "the root file system is writable")
	case len(h.Devices) > 0:
		return notEnforced(engineConfig, "%d devices of the host are inside", len(h.Devices))
	}
	writable := map[string]bool{
		sandbox.HandPath: false, sandbox.StateDir: true, sandbox.WorkspaceDir: true, sandbox.TempDir: true,
	}
	for _, m := range spec.Mounts {
		writable[m.Target] = m.Writable
	}
	for _, m := range c.Mounts {
		asked, known := writable[m.Destination]
		switch {
		case !known:
			return notEnforced(engineConfig, "%s is mounted and was not asked for", m.Destination)
		case m.RW && !asked:
			return notEnforced(engineConfig, "%s is writable and was asked for read-only", m.Destination)
		}
	}
	return enforced("read-only root, %d mounts, all of them asked for", len(c.Mounts))
}

func (c *inspected) network(asked sandbox.Network) sandbox.Finding {
	mode := c.HostConfig.NetworkMode
	if mode != "none" {
		f := notEnforced("network = \"none\"", "network mode %s", mode)
		f.Level = string(sandbox.NetworkHost)
		return f
	}
	f := enforced("only a loopback interface")
	f.Level = string(sandbox.NetworkNone)
	if asked == sandbox.NetworkAllowlist {
		f.Level = string(asked)
		f.Detail += "; requests go through the host"
	}
	return f
}

func (c *inspected) processes() sandbox.Finding {
	h := &c.HostConfig
	for name, mode := range map[string]string{"PID": h.PidMode, "IPC": h.IpcMode, "UTS": h.UTSMode} {
		if mode == "host" || strings.HasPrefix(mode, "container:") || strings.HasPrefix(mode, "ns:") {
			return notEnforced(engineConfig, "%s namespace %s", name, mode)
		}
	}
	return enforced("PID and IPC namespaces of its own, removed with the container")
}

func (c *inspected) user(f *facts) sandbox.Finding {
	h := &c.HostConfig
	uid, _, _ := strings.Cut(c.Config.User, ":")
	switch {
	case h.Privileged || len(h.CapAdd) > 0:
		return notEnforced(engineConfig, "capabilities were added: %s", strings.Join(h.CapAdd, " "))
	case !c.noCapabilities():
		return notEnforced(engineConfig, "not all capabilities were dropped")
	case !slices.ContainsFunc(h.SecurityOpt, func(o string) bool {
		return strings.HasPrefix(o, "no-new-privileges") && !strings.HasSuffix(o, "false")
	}):
		return notEnforced(engineConfig, "a program may get more privileges than who starts it")
	case (uid == "0" || uid == "" || uid == "root") && !f.rootless:
		return notEnforced("", "the Hand runs as root")
	case uid == "0":
		return enforced("root of a rootless engine, without capabilities")
	}
	return enforced("user %s, without capabilities", c.Config.User)
}

func (c *inspected) noCapabilities() bool {
	if c.EffectiveCaps != nil && c.BoundingCaps != nil {
		return isEmptyList(c.EffectiveCaps) && isEmptyList(c.BoundingCaps)
	}
	return slices.ContainsFunc(c.HostConfig.CapDrop, func(s string) bool { return strings.EqualFold(s, "ALL") })
}

func isEmptyList(raw json.RawMessage) bool {
	var list []string
	return json.Unmarshal(raw, &list) == nil && len(list) == 0
}

func (c *inspected) memory() sandbox.Finding {
	h := &c.HostConfig
	switch {
	case h.Memory <= 0:
		return notEnforced("let the engine use the memory controller of cgroups", "the engine applied no limit")
	case h.MemorySwap != h.Memory:
		return enforced("%d MiB, and swap besides", h.Memory>>20)
	}
	return enforced("%d MiB, no swap", h.Memory>>20)
}

func (c *inspected) pids() sandbox.Finding {
	if n := c.HostConfig.PidsLimit; n > 0 {
		return enforced("%d", n)
	}
	return notEnforced("let the engine use the pids controller of cgroups", "the engine applied no limit")
}

func (c *inspected) syscalls(f *facts) sandbox.Finding {
	switch {
	case c.HostConfig.Privileged || slices.ContainsFunc(c.HostConfig.SecurityOpt, func(o string) bool { return strings.Contains(o, "unconfined") }):
		return notEnforced(engineConfig, "the container runs unconfined")
	case !f.seccomp:
		return notEnforced("use an engine with seccomp", "the engine has no seccomp filter")
	}
	return enforced("seccomp, the engine's default profile")
}
