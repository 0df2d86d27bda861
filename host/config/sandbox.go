package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// Sandbox is where tools with target "sandbox" run.
type Sandbox struct {
	Tier               string // one of sandbox.Tiers; default "namespace"
	Provisioning       string // "on_tool_use" (default) or "eager"
	Image              string // for container tiers, pinned: "name@sha256:…", or "sha256:…" for one that is on this machine
	Network            string // "none" (default), "allowlist" or "host"
	AllowLocalFallback bool
	Warm               int               // Environments kept ready; default 0
	MaxReady           int               // Environments that run at once; default 16
	Idle               time.Duration     // how long an unused one keeps running; default 10m
	Workspace          string            // what becomes of the files of a finished run: "keep" (default) them until it is pruned, or "remove"
	HandBin            string            // the Hand's program; empty: awaken-hand beside the host's own
	EngineArgs         []string          // further options of docker's or podman's run
	Require            map[string]string // property to the word demanded of it, for every tool; see plugins.CheckRequirement
	Limits             SandboxLimits
	Mounts             []SandboxMount

	Namespace SandboxNamespace
	Docker    SandboxEngine
	Podman    SandboxEngine
	Kube      SandboxKube
}

// SandboxLimits bound one Environment.
type SandboxLimits struct {
	MemoryMiB    int     // of all processes together; default 512
	CPUs         float64 // processors' worth of time; default 2
	PIDs         int     // processes and threads; default 256
	WorkspaceMiB int     // what the workspace may hold; default 1024
	TempMiB      int     // what /tmp may hold; default 64
	OpenFiles    int     // of one process; default 1024
}

// SandboxMount is one [[sandbox.mount]]: something of this machine in every
// Environment. Exactly one of Folder, File and Archive is set.
type SandboxMount struct {
	Target  string // where it is in the Environment: absolute, clean
	Folder  string
	File    string
	Archive string // tar, tar.gz or zip, unpacked
	SHA256  string // of Archive or File: hex, lower case; an archive needs it
	Mode    string // "ro", the default, or "rw"
}

const (
	workspaceKeep   = "keep"
	workspaceRemove = "remove"

	defaultMaxReady = 16
	defaultIdle     = 10 * time.Minute
)

var (
	tiers         = []string{sandbox.TierNamespace, sandbox.TierDocker, sandbox.TierPodman, sandbox.TierKube, sandbox.TierLocal}
	provisionings = []string{"on_tool_use", "eager"}
	networks      = []string{string(sandbox.NetworkNone), string(sandbox.NetworkAllowlist), string(sandbox.NetworkHost)}
	workspaces    = []string{workspaceKeep, workspaceRemove}
)

func defaultSandbox() Sandbox {
	d := sandbox.DefaultInstanceLimits
	return Sandbox{
		Tier: sandbox.TierNamespace, Provisioning: "on_tool_use", Network: string(sandbox.NetworkNone),
		MaxReady: defaultMaxReady, Idle: defaultIdle, Workspace: workspaceKeep,
		Limits:    SandboxLimits{MemoryMiB: d.MemoryMiB, CPUs: d.CPUs, PIDs: d.PIDs, WorkspaceMiB: d.WorkspaceMiB, TempMiB: d.TempMiB, OpenFiles: d.OpenFiles},
		Namespace: SandboxNamespace{User: defaultUser},
		Docker:    SandboxEngine{Command: []string{sandbox.TierDocker}}, Podman: SandboxEngine{Command: []string{sandbox.TierPodman}},
		Kube: defaultKube(),
	}
}

// KeepsWorkspace reports whether the files of a finished run stay until it is pruned.
func (s *Sandbox) KeepsWorkspace() bool { return s.Workspace == workspaceKeep }

// Eager reports whether a host may not start before a boundary is ready.
func (s *Sandbox) Eager() bool { return s.Provisioning == "eager" }

// InstanceLimits are the limits as tiers take them.
func (l SandboxLimits) InstanceLimits() sandbox.InstanceLimits {
	return sandbox.InstanceLimits{MemoryMiB: l.MemoryMiB, CPUs: l.CPUs, PIDs: l.PIDs, WorkspaceMiB: l.WorkspaceMiB, TempMiB: l.TempMiB, OpenFiles: l.OpenFiles}
}

func (c *Config) decodeSandbox(root *table) {
	t, s := root.section("sandbox"), &c.Sandbox
	t.text("tier", &s.Tier)
	t.text("provisioning", &s.Provisioning)
	t.text("image", &s.Image)
	t.text("network", &s.Network)
	t.flag("allow_local_fallback", &s.AllowLocalFallback)
	t.integer("warm", &s.Warm)
	t.integer("max_ready", &s.MaxReady)
	t.duration("idle", &s.Idle)
	t.text("workspace", &s.Workspace)
	t.text("hand_bin", &s.HandBin)
	s.HandBin = c.join(s.HandBin)
	t.texts("engine_args", &s.EngineArgs)
	require := t.section("require")
	for _, property := range require.names() {
		var v string
		require.text(property, &v)
		put(&s.Require, property, v)
	}
	l := t.section("limits")
	l.integer("memory_mib", &s.Limits.MemoryMiB)
	l.number("cpus", &s.Limits.CPUs)
	l.integer("pids", &s.Limits.PIDs)
	l.integer("workspace_mib", &s.Limits.WorkspaceMiB)
	l.integer("tmp_mib", &s.Limits.TempMiB)
	l.integer("open_files", &s.Limits.OpenFiles)
	for _, m := range t.list("mount", "start each mount with [[sandbox.mount]]") {
		s.Mounts = append(s.Mounts, c.decodeMount(m))
	}
	c.decodeTiers(t)
}

func (c *Config) decodeMount(t *table) SandboxMount {
	m := SandboxMount{Mode: defaultPathMode}
	t.text("target", &m.Target)
	t.text("folder", &m.Folder)
	t.text("file", &m.File)
	t.text("archive", &m.Archive)
	t.text("sha256", &m.SHA256)
	t.text("mode", &m.Mode)
	m.Folder, m.File, m.Archive = c.join(m.Folder), c.join(m.File), c.join(m.Archive)
	m.SHA256 = strings.ToLower(m.SHA256)
	return m
}

func (v *validator) sandbox() {
	s := &v.c.Sandbox
	v.oneOf("sandbox.tier", s.Tier, tiers)
	v.oneOf("sandbox.provisioning", s.Provisioning, provisionings)
	v.oneOf("sandbox.network", s.Network, networks)
	v.oneOf("sandbox.workspace", s.Workspace, workspaces)
	v.between("sandbox.warm", s.Warm, 0, maxWarm)
	v.between("sandbox.max_ready", s.MaxReady, 1, maxWarm)
	if s.Warm > s.MaxReady && s.MaxReady > 0 && s.Warm <= maxWarm {
		v.bad("sandbox.warm", fmt.Sprintf("is %d, and at most sandbox.max_ready, %d, run at once", s.Warm, s.MaxReady), "lower it, or raise sandbox.max_ready")
	}
	v.within("sandbox.idle", s.Idle, time.Second, 30*day)
	if s.HandBin != "" {
		v.path("sandbox.hand_bin", s.HandBin)
	}
	v.image(s)
	v.engineArgs(s)
	for _, property := range sorted(s.Require) {
		if err := plugins.CheckRequirement(property, s.Require[property]); err != nil {
			v.bad(child("sandbox.require", property), err.Error(), `write it as network = "none", or remove it`)
		}
	}
	v.sandboxLimits(&s.Limits)
	for i := range s.Mounts {
		v.mount(element("sandbox.mount", i), i, s.Mounts)
	}
	v.tiers(s)
}

func (v *validator) image(s *Sandbox) {
	const key = "sandbox.image"
	container := s.Tier == sandbox.TierDocker || s.Tier == sandbox.TierPodman
	switch {
	case s.Image == "" && (container || s.Tier == sandbox.TierKube):
		at := key
		if v.c.lines[at] == 0 {
			at = "sandbox.tier"
		}
		v.bad(at, fmt.Sprintf("%q needs an image pinned by its digest, and there is none", s.Tier), `add image = "name@sha256:…" to [sandbox]`)
	case s.Image == "":
	case container && strings.HasPrefix(s.Image, "sha256:") && isHex(s.Image[len("sha256:"):], 64):
	default:
		v.pinned(key, s.Image)
	}
}

func (v *validator) engineArgs(s *Sandbox) {
	for i, a := range s.EngineArgs {
		if a == "" || strings.ContainsRune(a, 0) {
			v.bad(element("sandbox.engine_args", i), "is empty or has a zero byte", "correct or remove it")
		}
	}
	if len(s.EngineArgs) > 0 && s.Tier != sandbox.TierDocker && s.Tier != sandbox.TierPodman && slices.Contains(tiers, s.Tier) {
		v.bad("sandbox.engine_args", fmt.Sprintf("is for docker and podman, and the tier is %q", s.Tier), "remove it, or set tier")
	}
}

func (v *validator) sandboxLimits(l *SandboxLimits) {
	const key = "sandbox.limits"
	v.between(child(key, "memory_mib"), l.MemoryMiB, 64, maxTotalMemoryMiB) // the Hand alone takes 40
	if l.CPUs < 0.05 || l.CPUs > 1024 {
		v.bad(child(key, "cpus"), fmt.Sprintf("is %g", l.CPUs), "write a number from 0.05 to 1024, such as 2 or 0.5")
	}
	v.between(child(key, "pids"), l.PIDs, 32, 1<<22) // the Hand's own threads count
	v.between(child(key, "workspace_mib"), l.WorkspaceMiB, 1, maxDiskMiB)
	v.between(child(key, "tmp_mib"), l.TempMiB, 1, maxTotalMemoryMiB)
	v.between(child(key, "open_files"), l.OpenFiles, 64, 1<<20)
}

// takenPlaces are the boundary's own, where no mount may be.
var takenPlaces = []string{sandbox.HandDir, sandbox.WorkspaceDir, sandbox.TempDir, "/proc", "/sys", "/dev"}

func (v *validator) mount(key string, i int, all []SandboxMount) {
	m, at := &all[i], child(key, "target")
	switch {
	case m.Target == "" && v.c.lines[at] == 0:
		v.bad(key, "has no target", `add target = "/data", where it is in the sandbox`)
	case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" || strings.ContainsRune(m.Target, 0):
		v.bad(at, fmt.Sprintf("%q is not a place in the sandbox", clip(m.Target)), `write an absolute path without "..", such as "/data"`)
	default:
		for _, taken := range takenPlaces {
			if m.Target == taken || strings.HasPrefix(m.Target, taken+"/") {
				v.bad(at, fmt.Sprintf("lies in %s, which is the sandbox's own", taken), `write another path, such as "/data"`)
			}
		}
		for j := range all[:i] {
			if all[j].Target == m.Target {
				v.bad(at, "is that of "+element("sandbox.mount", j)+" too", "give each mount a place of its own")
				break
			}
		}
	}
	sources := 0
	for name, source := range map[string]string{"folder": m.Folder, "file": m.File, "archive": m.Archive} {
		if source != "" {
			sources++
			v.path(child(key, name), source)
		}
	}
	if sources != 1 {
		v.bad(key, fmt.Sprintf("names %d sources", sources), `give it exactly one of folder = "…", file = "…" and archive = "…"`)
	}
	switch {
	case m.SHA256 != "" && m.Folder != "":
		v.bad(child(key, "sha256"), "stands beside folder", "a digest is of a file or an archive: remove it")
	case m.SHA256 != "":
		v.digest(child(key, "sha256"), m.SHA256)
	case m.Archive != "":
		v.bad(key, "has an archive and no sha256", `add sha256 = "…", the 64 digits that sha256sum prints`)
	}
	v.oneOf(child(key, "mode"), m.Mode, []string{"ro", "rw"})
	if m.Mode == "rw" && m.Folder == "" {
		v.bad(child(key, "mode"), `is "rw", and only a folder can be written`, `write "ro", or name a folder`)
	}
}

func (e *effective) sandbox(s *Sandbox) {
	e.add("sandbox.tier", s.Tier)
	e.add("sandbox.provisioning", s.Provisioning)
	e.add("sandbox.image", s.Image)
	e.add("sandbox.network", s.Network)
	e.add("sandbox.allow_local_fallback", s.AllowLocalFallback)
	e.add("sandbox.warm", s.Warm)
	e.add("sandbox.max_ready", s.MaxReady)
	e.add("sandbox.idle", s.Idle)
	e.add("sandbox.workspace", s.Workspace)
	e.add("sandbox.hand_bin", s.HandBin)
	e.add("sandbox.engine_args", s.EngineArgs)
	for _, property := range sorted(s.Require) {
		e.add(child("sandbox.require", property), s.Require[property])
	}
	e.add("sandbox.limits.memory_mib", s.Limits.MemoryMiB)
	e.add("sandbox.limits.cpus", s.Limits.CPUs)
	e.add("sandbox.limits.pids", s.Limits.PIDs)
	e.add("sandbox.limits.workspace_mib", s.Limits.WorkspaceMiB)
	e.add("sandbox.limits.tmp_mib", s.Limits.TempMiB)
	e.add("sandbox.limits.open_files", s.Limits.OpenFiles)
	for i := range s.Mounts {
		key, m := element("sandbox.mount", i), &s.Mounts[i]
		e.add(child(key, "target"), m.Target)
		for name, source := range map[string]string{"folder": m.Folder, "file": m.File, "archive": m.Archive} {
			if source != "" {
				e.add(child(key, name), source)
			}
		}
		if m.SHA256 != "" {
			e.add(child(key, "sha256"), m.SHA256)
		}
		e.add(child(key, "mode"), m.Mode)
	}
	e.tiers(s)
}
