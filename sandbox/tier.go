package sandbox

import (
	"context"
	"io"
	"time"
)

// The tiers by name, as [sandbox].tier, results and records name them.
const (
	TierLocal     = "local"     // a process of this machine: no boundary at all
	TierNamespace = "namespace" // Linux namespaces by bubblewrap, macOS Seatbelt; the default
	TierDocker    = "docker"
	TierPodman    = "podman"
	TierKube      = "k8s"
)

// Tiers lists all names, in the order in which tables show them.
var Tiers = []string{TierLocal, TierNamespace, TierDocker, TierPodman, TierKube}

// Places inside every boundary. The local tier has no file system of its own: there
// the Hand is told where they are by Welcome.
const (
	WorkspaceDir = "/workspace"    // writable, kept with the Environment
	TempDir      = "/tmp"          // writable, of bounded size, gone with the Instance
	HandDir      = "/awaken"       // read-only
	HandPath     = "/awaken/hand"  // the Hand's binary
	StateDir     = "/awaken/state" // writable by the Hand: its operation ledger
	CodeDir      = "/awaken/code"  // read-only: machine code of plugins, made ahead; may be missing
)

// HandReady is the line that the Hand, started with the arguments "serve" and
// "--ready", writes to its standard error when it can be spoken to. A tier whose
// engine does not say that a boundary has started waits for it.
const HandReady = "awaken-hand: ready"

// Tier starts boundaries of one kind. Implementations are safe for concurrent use.
//
// Every error of a Tier is an *UnavailableError when nothing of the Environment runs
// because of it, which is so for all errors of Check and Start.
type Tier interface {
	// Name is one of Tiers.
	Name() string

	// Check finds out whether Start could work here: the program or engine answers,
	// the image is there and pinned by digest. It starts nothing that lasts, takes at
	// most a few seconds, and may be called at any time.
	Check(ctx context.Context) error

	// Start makes the boundary that spec describes and starts the Hand in it. When it
	// returns an error, nothing that it made is left. The Instance lives until Stop,
	// or until this process ends, whatever becomes of ctx.
	Start(ctx context.Context, spec *Spec) (Instance, error)

	// Leftovers lists what carries the label of the host with this id, of whatever
	// owner: containers, Pods, processes. Folders of the host's are not the tier's.
	Leftovers(ctx context.Context, host string) ([]Leftover, error)

	// Remove ends and removes one of them, and returns when nothing of it runs. It is
	// no error when it is gone already.
	Remove(ctx context.Context, l Leftover) error
}

// Attacher is a Tier whose boundaries outlive the process that started them, and
// whose ledger and workspace are inside of them (see Carrier). Attach starts another
// Hand in one, so that they can be read before the boundary is removed.
type Attacher interface {
	Tier
	Attach(ctx context.Context, l Leftover) (Instance, error)
}

// Carrier is a Tier that cannot mount folders of this machine: Spec.Workspace,
// Spec.State and Spec.Mounts are then carried over the channel, into the boundary
// when an Instance starts and, of the workspace, back before it is stopped. Such a
// tier makes empty folders in their place, writable for the Hand: WorkspaceDir,
// StateDir, and the target of each mount.
type Carrier interface {
	Tier
	Carries() bool
}

// HandUser is a Tier whose Hand has a user of its own: the workspace and the state
// folder are given to it before Start, which only root can do. ok is false where the
// Hand runs as whoever runs the host.
type HandUser interface {
	Tier
	HandUser() (uid, gid int, ok bool)
}

// Placer is an Instance without a file system of its own: Places says where
// WorkspaceDir, TempDir, StateDir and the targets of mounts really are; see
// Hello.Places.
type Placer interface {
	Instance
	Places() map[string]string
}

// Instance is one running boundary. Its methods are safe for concurrent use.
type Instance interface {
	// Channel is the Hand's standard input (Write) and output (Read). Close closes the
	// input, on which the Hand ends everything and itself. One user at a time.
	Channel() io.ReadWriteCloser

	// Inspect reads back what is in force, from the engine or the kernel.
	Inspect(ctx context.Context) (*Effective, error)

	// Done is closed when the boundary or its Hand has ended, for whatever reason.
	Done() <-chan struct{}

	// Ended says why, once Done is closed: an *EndedError. Nil before. It may ask the
	// engine, and ends with ctx.
	Ended(ctx context.Context) error

	// Stop ends every process inside and removes what Start made, except folders that
	// Spec named. It returns when nothing of it runs any more, or with an error that
	// names what is left. Calling it again is harmless. It gets a context of its own
	// that is not the call's.
	Stop(ctx context.Context) error
}

// OOMCounter is an Instance that knows how many of its processes the kernel has killed
// for memory since it was started, and in which the Hand cannot see that by itself. The
// error says why it is not known.
type OOMCounter interface {
	Instance
	OOMKills() (uint64, error)
}

// Spec is what an Instance is made of. A Tier reads it and keeps nothing of it but
// copies.
type Spec struct {
	ID     string // of the Environment: 1 to 40 of [a-z0-9-], starts with a letter; fit for names of containers and Pods
	Labels Labels

	Hand      string  // file of the Hand's binary on this machine, absolute: static, for this machine's architecture
	Workspace string  // folder of this machine, absolute, exists; mounted at WorkspaceDir
	State     string  // folder of this machine, absolute, exists, mode 0700; mounted at StateDir. A Tier may keep a folder beside it
	Mounts    []Mount // in order; later ones may lie inside earlier ones
	Network   Network // with NetworkAllowlist the tier gives none: all of it goes over the channel
	Limits    InstanceLimits
	Env       []string // NAME=value for the Hand; no secrets
}

// Labels name whose an Instance is. Engines carry them as labels with these keys.
type Labels struct {
	Host        string // id of the data folder, which one process holds at a time
	Owner       string // id of the process
	Environment string // Spec.ID
	Session     string // empty: of a pool, not yet owned
}

// The keys of labels. Kubernetes has them too.
const (
	LabelHost        = "awaken.host/host"
	LabelOwner       = "awaken.host/owner"
	LabelEnvironment = "awaken.host/environment"
	LabelSession     = "awaken.host/session"
)

// Mount is a file or folder of this machine inside the boundary.
type Mount struct {
	Source   string // absolute, exists, no symbolic link in it
	Target   string // absolute and clean; not below HandDir, but for CodeDir
	Writable bool
}

// Network is what a sandbox may reach.
type Network string

// The networks, from least to most.
const (
	NetworkNone      Network = "none"      // nothing, the default
	NetworkAllowlist Network = "allowlist" // what the plugin is granted, through the host, on the channel
	NetworkHost      Network = "host"      // whatever this machine, or the Pod, reaches
)

// InstanceLimits bound one Instance. Zero fields are the defaults of
// DefaultInstanceLimits.
type InstanceLimits struct {
	MemoryMiB    int     // of all processes together
	CPUs         float64 // processors' worth of time
	PIDs         int     // processes and threads
	WorkspaceMiB int     // what the workspace may hold
	TempMiB      int     // what TempDir may hold
	OpenFiles    int     // of one process
}

// DefaultInstanceLimits apply where the operator sets none.
var DefaultInstanceLimits = InstanceLimits{MemoryMiB: 512, CPUs: 2, PIDs: 256, WorkspaceMiB: 1024, TempMiB: 64, OpenFiles: 1024}

// WithDefaults fills in zero fields.
func (l InstanceLimits) WithDefaults() InstanceLimits {
	d := DefaultInstanceLimits
	for _, f := range []struct{ v, d *int }{
		{&l.MemoryMiB, &d.MemoryMiB}, {&l.PIDs, &d.PIDs}, {&l.WorkspaceMiB, &d.WorkspaceMiB},
		{&l.TempMiB, &d.TempMiB}, {&l.OpenFiles, &d.OpenFiles},
	} {
		if *f.v == 0 {
			*f.v = *f.d
		}
	}
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	return l
}

// Effective is what was read back of a running Instance.
type Effective struct {
	Tier       string     `json:"tier"`
	ID         string     `json:"id"`              // of the container, Pod or process, as its engine names it
	Image      string     `json:"image,omitempty"` // digest of the image that really runs; empty: none
	Properties Properties `json:"properties"`      // what the engine or kernel says, from outside; unknown where it says nothing
}

// Leftover is something of this host's that a tier found.
type Leftover struct {
	Tier    string
	ID      string // as the engine names it
	Labels  Labels
	Created time.Time // zero: not known
}
