package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// macFolders are what a program needs to start on macOS: its loader, the libraries of
// the system, and what tells time zones.
var macFolders = []string{
	"/System/Cryptexes", "/System/Library", "/System/Volumes/Preboot/Cryptexes",
	"/private/var/db/dyld", "/private/var/db/timezone", "/usr/lib", "/usr/share/zoneinfo", "/usr/share/zoneinfo.default",
}

var defaultFolders = macFolders

// seatbeltProgram takes a profile and a command, and becomes the command.
const seatbeltProgram = "/usr/bin/sandbox-exec"

// Check runs a program that does nothing under a profile that allows little.
func (t *Tier) Check(ctx context.Context) error {
	const nothing = "/usr/bin/true"
	profile, err := (&seatbelt{hand: nothing, readable: macFolders}).profile()
	if err != nil {
		return unavailable(sandbox.ReasonStart, "no profile", "", err)
	}
	out, err := exec.CommandContext(ctx, cmp.Or(t.o.Program, seatbeltProgram), "-p", profile, nothing).CombinedOutput() //nolint:gosec // the operator's own program
	switch {
	case errors.Is(err, os.ErrNotExist):
		return unavailable(sandbox.ReasonTool, "sandbox-exec is not there", "set [sandbox.namespace].program, or use tier docker, podman or k8s", err)
	case err != nil:
		return unavailable(sandbox.ReasonDenied, "Seatbelt refuses to run a program: "+string(out), "where this process has a sandbox of its own already, start the host outside of it", err)
	}
	return nil
}

// Start starts the Hand under a profile of its own. macOS has no file system for it
// alone: see Places.
func (t *Tier) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, &sandbox.UnavailableError{Tier: sandbox.TierNamespace, Reason: sandbox.ReasonStart, What: "it was given up", Transient: true, Err: err}
	}
	temp, err := os.MkdirTemp(filepath.Dir(spec.State), "temp-")
	if err != nil {
		return nil, unavailable(sandbox.ReasonStart, "no folder for temporary files", "", err)
	}
	i := &belted{id: spec.ID, temp: temp, places: map[string]string{}}
	if err := i.start(t, spec); err != nil {
		return nil, errors.Join(err, sandbox.RemoveTree(temp))
	}
	return i, nil
}

type belted struct {
	id     string
	temp   string
	places map[string]string
	*process.Program

	stop    sync.Mutex // held while Stop works
	stopped bool
}

func (i *belted) start(t *Tier, spec *sandbox.Spec) error {
	s := seatbelt{readable: append([]string(nil), t.o.Folders...), network: spec.Network}
	mounts := append([]sandbox.Mount{
		{Source: spec.Workspace, Target: sandbox.WorkspaceDir, Writable: true},
		{Source: spec.State, Target: sandbox.StateDir, Writable: true},
		{Source: i.temp, Target: sandbox.TempDir, Writable: true},
	}, spec.Mounts...)
	for _, m := range mounts {
		real, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return unavailable(sandbox.ReasonStart, "the folder for "+m.Target, "", err)
		}
		i.places[m.Target] = real
		if m.Writable {
			s.writable = append(s.writable, real)
		} else {
			s.readable = append(s.readable, real)
		}
	}
	var err error
	if s.hand, err = filepath.EvalSymlinks(spec.Hand); err != nil {
		return unavailable(sandbox.ReasonTool, "the Hand is not at "+spec.Hand, "build it with: make build", err)
	}
	profile, err := s.profile()
	if err != nil {
		return unavailable(sandbox.ReasonStart, "no profile", "", err)
	}
	cmd := exec.Command(cmp.Or(t.o.Program, seatbeltProgram), "-p", profile, s.hand, "serve") //nolint:gosec // the operator's own programs
	cmd.Dir = i.places[sandbox.WorkspaceDir]
	temp := i.places[sandbox.TempDir]
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + temp, "TMPDIR=" + temp, "LANG=C.UTF-8"}, spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if i.Program, err = process.Launch(cmd, t.log.With("environment", spec.ID)); err != nil {
		return unavailable(sandbox.ReasonTool, "starting sandbox-exec", "set [sandbox.namespace].program, or use tier docker, podman or k8s", err)
	}
	return nil
}

// Places says where the places are: on this machine.
func (i *belted) Places() map[string]string { return i.places }

func (i *belted) Ended(context.Context) error { return i.EndedAs(sandbox.TierNamespace) }

// Inspect has nothing to read back from outside: the kernel tells nobody what profile a
// process has. What holds is found out inside.
func (i *belted) Inspect(context.Context) (*sandbox.Effective, error) {
	none := func(detail string) sandbox.Finding {
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: detail, Remedy: "use tier docker, podman or k8s"}
	}
	return &sandbox.Effective{Tier: sandbox.TierNamespace, ID: strconv.Itoa(i.PID()), Properties: sandbox.Properties{
		sandbox.PropertyUser:     none(fmt.Sprintf("user %d, who runs the host, under a Seatbelt profile", os.Getuid())),
		sandbox.PropertyMemory:   none("no limit of all processes together"),
		sandbox.PropertySyscalls: none("Seatbelt refuses what is done, and has no list of system calls"),
	}}, nil
}

// Stop ends the Hand, which could start nothing that outlives it.
func (i *belted) Stop(ctx context.Context) error {
	i.stop.Lock()
	defer i.stop.Unlock()
	if i.stopped {
		return nil
	}
	if err := syscall.Kill(-i.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("environment %s, tier %s: ending process group %d: %w", i.id, sandbox.TierNamespace, i.PID(), err)
	}
	if err := i.Discard(ctx); err != nil {
		return fmt.Errorf("environment %s, tier %s: process %d has not ended: %w", i.id, sandbox.TierNamespace, i.PID(), err)
	}
	if err := sandbox.RemoveTree(i.temp); err != nil {
		return fmt.Errorf("environment %s, tier %s: removing temporary files: %w", i.id, sandbox.TierNamespace, err)
	}
	i.stopped = true
	return nil
}

// Leftovers finds nothing on this system: a Hand ends when its input does, which the
// end of its host closes.
func (*Tier) Leftovers(context.Context, string) ([]sandbox.Leftover, error) { return nil, nil }

// Remove has nothing to remove on this system.
func (*Tier) Remove(context.Context, sandbox.Leftover) error { return nil }

var _ sandbox.Placer = (*belted)(nil)
