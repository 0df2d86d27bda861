package container

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// HandUID is the user and group of the Hand where root runs the host: "nonroot" of
// many images, and nobody's on common systems.
const handUID = 65532

// ContainerName is the name of an Environment's container. One Environment has one
// container, which the engine sees to.
func containerName(environment string) string { return "awaken-" + environment }

// LabelStart is the label of one Start: what a failed one made is told by it from the
// container that was in its way.
const labelStart = "awaken.host/start"

// Run is the command that starts a container and stays with it. Start is for its label.
func (t *Tier) run(f *facts, spec *sandbox.Spec, start string) ([]string, error) {
	limits := spec.Limits.WithDefaults()
	memory := strconv.Itoa(limits.MemoryMiB) + "m"
	cpus := limits.CPUs
	if f.cpus > 0 {
		cpus = min(cpus, float64(f.cpus)) // docker refuses more than there are
	}
	network := "none"
	if spec.Network == sandbox.NetworkHost {
		network = "host"
	}
	pull := "never"
	if t.pull {
		pull = "missing"
	}
	user, err := t.user(f, os.Geteuid(), os.Getegid())
	if err != nil {
		return nil, err
	}
	// An engine's init would be process 1 with the channel as its standard input and
	// output, which every command of its user can open. The Hand is process 1 itself, lets
	// nobody look into it, and reaps.
	args := []string{
		"run", "--interactive", "--name", containerName(spec.ID), "--pull", pull, "--sig-proxy=false",
		"--init=false", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", user,
		"--network", network, "--ipc", "private",
		"--pids-limit", strconv.Itoa(limits.PIDs), "--memory", memory, "--memory-swap", memory,
		"--cpus", strconv.FormatFloat(cpus, 'f', -1, 64),
		"--ulimit", fmt.Sprintf("nofile=%d:%d", limits.OpenFiles, limits.OpenFiles), "--ulimit", "core=0:0",
		"--tmpfs", fmt.Sprintf("%s:rw,nosuid,nodev,noexec,mode=1777,size=%dm", sandbox.TempDir, limits.TempMiB),
		"--shm-size", strconv.Itoa(limits.TempMiB) + "m",
		"--workdir", sandbox.WorkspaceDir, "--log-driver", "none", "--no-healthcheck", "--restart", "no",
	}
	if f.selinux {
		args = append(args, "--security-opt", "label=disable")
	}
	for _, l := range append(labels(spec.Labels), labelStart+"="+start) {
		args = append(args, "--label", l)
	}
	for _, m := range slices.Concat([]sandbox.Mount{
		{Source: spec.Hand, Target: sandbox.HandPath},
		{Source: spec.State, Target: sandbox.StateDir, Writable: true},
		{Source: spec.Workspace, Target: sandbox.WorkspaceDir, Writable: true},
	}, spec.Mounts) {
		if strings.ContainsAny(m.Source+m.Target, "\r\n\x00") {
			return nil, t.unavailable(sandbox.ReasonUnsupported, fmt.Sprintf("%q at %q cannot be mounted: there is a line break in it", m.Source, m.Target), "give it another name")
		}
		args = append(args, "--mount", mount(m, t.engine.flat(f)))
	}
	args = append(args, t.engine.run(f)...)
	for _, e := range spec.Env {
		args = append(args, "--env", e)
	}
	// The operator's come last, so that their ulimits are the ones that count.
	args = append(args, t.extra...)
	return append(args, "--entrypoint", sandbox.HandPath, t.image, "serve", "--ready"), nil
}

// Mount writes a bind mount as both engines read it: the fields of a line of CSV, so
// that a path may hold anything.
func mount(m sandbox.Mount, flat string) string {
	fields := []string{"type=bind", "src=" + m.Source, "dst=" + m.Target, "bind-propagation=rprivate", flat}
	if !m.Writable {
		fields = append(fields, "readonly")
	}
	var line bytes.Buffer
	w := csv.NewWriter(&line)
	if err := w.Write(fields); err != nil {
		panic("a line of CSV cannot be written into memory: " + err.Error())
	}
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n")
}

func labels(l sandbox.Labels) []string {
	return []string{
		sandbox.LabelHost + "=" + l.Host, sandbox.LabelOwner + "=" + l.Owner,
		sandbox.LabelEnvironment + "=" + l.Environment, sandbox.LabelSession + "=" + l.Session,
	}
}

// User is as whom the Hand runs, as the container sees it, where uid and gid run the
// host. Outside, it is whom HandUser says, or who runs the host.
func (t *Tier) user(f *facts, uid, gid int) (string, error) {
	switch {
	case f.remapped:
		return "", t.unavailable(sandbox.ReasonUnsupported, "the engine gives containers other users than this machine's (userns-remap), so that the Hand could not write to its workspace",
			"use an engine without userns-remap, a rootless one, or another tier")
	case uid == 0 && f.rootless:
		return "", t.unavailable(sandbox.ReasonUnsupported, "root runs the host and the engine is another user's (rootless)",
			"run the host as that user, or use an engine that root runs")
	case uid == 0:
		return fmt.Sprintf("%d:%d", handUID, handUID), nil
	case f.rootless && t.engine.name == sandbox.TierDocker:
		return "0:0", nil // which is, outside, the user who runs the engine
	}
	return fmt.Sprintf("%d:%d", uid, gid), nil
}
