package wasm

import (
	"context"
	"log/slog"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// Options configure a Runtime. They are copied.
type Options struct {
	// CacheDir keeps compiled machine code between processes. It is created with
	// mode 0700 and refused when anybody else owns it, can read it, or could have
	// written to what is in it. Several processes may share it. Empty: compiled code
	// is kept in memory only, and every start compiles again (about a second for a
	// large module).
	CacheDir string
	// CodeDir is a folder that Precompile filled, which is only read: one on a read-only
	// mount, or that nobody but this process's user could have written to; any other is
	// not used, and said so in the log. What is not in it, or does not load, is compiled
	// as if there were no such folder. Empty: none.
	CodeDir string
	// Logger gets what the host and its guests have to say. Nil: discarded.
	Logger *slog.Logger
	// Redactor learns the values of secrets that guests are given, and keeps them out
	// of results and of what guests log. Nil: one of the Runtime's own.
	Redactor *plugins.Redactor
	// MaxConcurrent bounds the calls that run at once; others wait. 0: twice
	// GOMAXPROCS.
	MaxConcurrent int
	// MaxQueued bounds the calls that wait to run; more are refused, as unavailable
	// before dispatch. 0: 1000.
	MaxQueued int
	// TotalMemoryMiB bounds the memory of all instances together. A call takes its
	// whole limit from it while it runs, an idle instance what it really has; calls
	// wait, and idle instances go, until there is room. A plugin whose own limit is
	// larger is refused by Load. 0: half of the machine's memory, or of what its
	// control group may have if that is less, but at least plugins.DefaultLimits.
	TotalMemoryMiB int
	// ReplacementsPerSecond is how fast instances that died (a trap, a timeout) are
	// replaced, for each plugin, once it has lost four times as many at once; its calls
	// wait until then. 0: 25.
	ReplacementsPerSecond int
	// CallsPerInstance is after how many calls an instance with isolation "run" or
	// "shared" is replaced by a fresh one; guests leak. 0: 1000.
	CallsPerInstance int
	// Idle is how long an instance, and the code of a plugin, are kept without a
	// call. Both are made again when needed. 0: 5 minutes.
	Idle time.Duration
	// MaxRunInstances bounds the instances that wait for another call of their run,
	// over all plugins; the ones idle longest go first. 0: 64.
	MaxRunInstances int
	// CompileTimeout is how long compiling one module may take before the plugin is
	// refused, and how long it may wait for others to be compiled. 0: 60 seconds. The
	// compiler cannot be interrupted: what is over time goes on in the background and
	// keeps one of the GOMAXPROCS places for compilations until it ends.
	CompileTimeout time.Duration
	// Egress is the way out for requests of guests, to the hosts that their plugin
	// may reach. Nil: one with egress.Options' defaults.
	Egress *egress.Guard
	// HTTP carries the requests of guests in place of Egress, from where there is no
	// way out: a Hand's go over its channel. What Egress says of sizes holds all the
	// same. Nil: Egress.
	HTTP Carrier
	// Commands runs the commands that guests ask for with awaken_exec. Nil, as in the
	// Brain: they are told that there are none.
	Commands Commands
}

// Carrier sends what guests request. Safe for concurrent use.
type Carrier interface {
	// Send is egress.Session's Do on behalf of a call, with the same errors.
	Send(ctx context.Context, call *batch.Call, allowed []plugins.HostPattern, r *egress.Request) (*egress.Response, error)
}
