package namespace

import (
	"log/slog"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Options are what the tier can be told.
type Options struct {
	// Program is bubblewrap's file, or sandbox-exec's on macOS. Empty: as PATH finds it.
	Program string

	// Folders and files of this machine that can be read inside, absolute, at the same
	// place. What is not there is left out. Nil: DefaultFolders.
	Folders []string

	// User is the user and group id that sandboxes have on this machine while the host
	// runs as root. Zero: 65534, nobody. A host of an ordinary user cannot change it:
	// its sandboxes have its own id, without any of its rights beyond files.
	User int

	// Cgroup is the folder of a cgroup v2 below which those of sandboxes are made,
	// absolute. Empty: one is looked for, of v2 and of v1.
	Cgroup string

	// Logger gets what the Hand writes to standard error, and what could not be limited.
	// Nil discards.
	Logger *slog.Logger
}

// DefaultFolders are programs and libraries, and nothing that tells about this machine
// or who uses it.
func DefaultFolders() []string {
	return append([]string(nil), defaultFolders...)
}

// Tier implements sandbox.Tier. It is safe for concurrent use.
type Tier struct {
	o   Options
	log *slog.Logger
}

// New makes the tier. It starts nothing.
func New(o Options) *Tier {
	t := &Tier{o: o, log: o.Logger}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.o.Folders == nil {
		t.o.Folders = defaultFolders
	}
	if t.o.User == 0 {
		t.o.User = 65534
	}
	return t
}

// Name is sandbox.TierNamespace.
func (*Tier) Name() string { return sandbox.TierNamespace }

// unavailable is an error of Check and Start.
func unavailable(reason sandbox.Reason, what, remedy string, err error) *sandbox.UnavailableError {
	return &sandbox.UnavailableError{Tier: sandbox.TierNamespace, Reason: reason, What: what, Remedy: remedy, Err: err}
}

var _ sandbox.Tier = (*Tier)(nil)
