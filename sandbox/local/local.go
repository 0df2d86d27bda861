// Package local is the tier without a boundary: the Hand is a process of this machine
// with everything that the host's user may do. It is for development, and for
// operators who say that they want it.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/process"
)

// Options are what the tier can be told.
type Options struct {
	Logger *slog.Logger // of what the Hand writes to standard error; nil discards
}

// Tier implements sandbox.Tier.
type Tier struct {
	log *slog.Logger
}

// New makes the tier. It starts nothing.
func New(o Options) *Tier {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Tier{log: log}
}

// Name is sandbox.TierLocal.
func (*Tier) Name() string { return sandbox.TierLocal }

// Check has nothing that could be missing: the Hand is looked for by Start.
func (*Tier) Check(context.Context) error { return nil }

// Start starts the Hand in a session of its own. Its temporary folder is made beside
// spec.State.
func (t *Tier) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, &sandbox.UnavailableError{Tier: sandbox.TierLocal, Reason: sandbox.ReasonStart, What: "it was given up", Transient: true, Err: err}
	}
	temp, err := os.MkdirTemp(filepath.Dir(spec.State), "temp-")
	if err != nil {
		return nil, &sandbox.UnavailableError{Tier: sandbox.TierLocal, Reason: sandbox.ReasonStart, What: "no folder for temporary files", Err: err}
	}
	i := &instance{
		id: spec.ID, temp: temp,
		places: map[string]string{sandbox.WorkspaceDir: spec.Workspace, sandbox.StateDir: spec.State, sandbox.TempDir: temp},
	}
	for _, m := range spec.Mounts {
		i.places[m.Target] = m.Source
	}
	if err := i.start(spec, t.log); err != nil {
		return nil, errors.Join(err, sandbox.RemoveTree(temp))
	}
	return i, nil
}

type instance struct {
	id     string
	mark   string // see process.Mark
	temp   string
	places map[string]string
	*process.Program

	stop    sync.Mutex // held while Stop works
	stopped bool
}

func (i *instance) start(spec *sandbox.Spec, log *slog.Logger) error {
	unavailable := func(reason sandbox.Reason, what, remedy string, err error) error {
		return &sandbox.UnavailableError{Tier: sandbox.TierLocal, Reason: reason, What: what, Remedy: remedy, Err: err}
	}
	cmd := exec.Command(spec.Hand, "serve") //nolint:gosec // the operator's own Hand
	cmd.Dir = spec.Workspace
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + i.temp, "TMPDIR=" + i.temp, "LANG=C.UTF-8",
	}, spec.Env...)
	i.mark = setUp(cmd, &spec.Labels)
	var err error
	i.Program, err = process.Launch(cmd, log.With("environment", spec.ID))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return unavailable(sandbox.ReasonTool, "the Hand is not at "+spec.Hand, "build it with: make build", err)
	case err != nil:
		return unavailable(sandbox.ReasonStart, "starting "+spec.Hand, "", err)
	}
	return nil
}

// Places says where the places are: on this machine.
func (i *instance) Places() map[string]string { return i.places }

func (i *instance) Ended(context.Context) error { return i.EndedAs(sandbox.TierLocal) }

func (i *instance) Inspect(context.Context) (*sandbox.Effective, error) {
	const remedy = "use another tier, such as namespace"
	none := func(detail string) sandbox.Finding {
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: detail, Remedy: remedy}
	}
	network := none("what this machine reaches")
	network.Level = string(sandbox.NetworkHost)
	return &sandbox.Effective{Tier: sandbox.TierLocal, ID: strconv.Itoa(i.PID()), Properties: sandbox.Properties{
		sandbox.PropertyFilesystem: none("the file system of this machine"),
		sandbox.PropertyNetwork:    network,
		sandbox.PropertyProcesses:  none("a process among those of this machine"),
		sandbox.PropertyUser:       none(fmt.Sprintf("user %d, who runs the host", os.Getuid())),
		sandbox.PropertyMemory:     none("no limit of all processes together"),
		sandbox.PropertyPIDs:       none("no limit"),
		sandbox.PropertySyscalls:   none("no filter"),
	}}, nil
}

// Stop ends the Hand and what it started, processes in sessions of their own too.
func (i *instance) Stop(ctx context.Context) error {
	i.stop.Lock()
	defer i.stop.Unlock()
	if i.stopped {
		return nil
	}
	// Its input is still open: what a Hand leaves behind that ends by itself is harder to
	// find than what is still below it.
	if err := i.killAll(ctx); err != nil {
		return fmt.Errorf("environment %s, tier %s: %w", i.id, sandbox.TierLocal, err)
	}
	if err := i.Discard(ctx); err != nil {
		return fmt.Errorf("environment %s, tier %s: process %d has not ended: %w", i.id, sandbox.TierLocal, i.PID(), err)
	}
	if err := sandbox.RemoveTree(i.temp); err != nil {
		return fmt.Errorf("environment %s, tier %s: removing temporary files: %w", i.id, sandbox.TierLocal, err)
	}
	i.stopped = true
	return nil
}

var (
	_ sandbox.Tier   = (*Tier)(nil)
	_ sandbox.Placer = (*instance)(nil)
)
