package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// Options configure a Manager. They are copied. Dir, and Tier or TierError, are
// required.
type Options struct {
	// Dir is where Environments are kept, absolute; it is created with mode 0700. Whoever
	// opens a Manager on it must hold it against other processes: that is the proof that
	// earlier owners are dead.
	Dir string

	Tier Tier
	// TierError is why there is no Tier, such as a Hand that is not there; Tier is nil
	// then, and every call is a placement error that says so (or runs in Fallback).
	TierError error
	// Fallback runs what Tier cannot run, or what demands more than it holds; every
	// result says so. Nil: nothing is ever run elsewhere.
	Fallback Tier

	Hand string // file of the Hand's binary, absolute
	// CodeDir is where machine code of plugins that run in sandboxes is kept, absolute, so
	// that a Hand need not compile: it is made by Hand, run outside of any boundary, and
	// mounted read-only. Created with mode 0700. Nobody else may be able to write to it.
	// Empty: each Hand compiles for itself.
	CodeDir string
	Mounts  []MountSpec
	Network Network        // empty: NetworkNone
	Limits  InstanceLimits // zero fields: DefaultInstanceLimits
	Require Requirements   // of every call, besides what its tool demands
	Env     []string       // see Spec.Env

	// Idle is how long an Environment keeps its Hand without a call. 0: 10 minutes.
	Idle time.Duration
	// MaxReady bounds the Instances there are at once, warm ones included; calls of other
	// sessions wait. 0: 16.
	MaxReady int
	// Warm is how many Instances are started ahead of sessions. 0: none.
	Warm int
	// StartTimeout bounds the start of one Instance. 0: 3 minutes.
	StartTimeout time.Duration
	// Heartbeat of channels; see ChannelOptions. 0: DefaultHeartbeat.
	Heartbeat time.Duration

	// RemoveWorkspaces removes the folder of an Environment when its session has ended;
	// otherwise it stays until the session is gone.
	RemoveWorkspaces bool
	// Session says what has become of a session. Nil: all are open, for ever.
	Session func(ctx context.Context, session string) (SessionState, error)

	Egress   *egress.Guard     // the way out for NetworkAllowlist and NetworkHost. Nil: none
	Redactor *plugins.Redactor // learns secrets, and keeps them out of results and logs. Nil: one of the Manager's own
	Logger   *slog.Logger      // nil: discard
}

// SessionState is what has become of a session.
type SessionState string

// The states of a session. A session is a run; see SessionOf.
const (
	SessionOpen  SessionState = "open"  // it may make calls
	SessionEnded SessionState = "ended" // it makes no calls any more: its Environment is released
	SessionGone  SessionState = "gone"  // nothing is known of it: the folder is removed, too
)

// Defaults of Options.
const (
	DefaultIdle     = 10 * time.Minute
	DefaultMaxReady = 16

	defaultStartTimeout = 3 * time.Minute
	ledgerKeyBytes      = 32
)

func (o *Options) setDefaults() error {
	if !filepath.IsAbs(o.Dir) {
		return fmt.Errorf("sandbox: the folder %q is not absolute", o.Dir)
	}
	if (o.Tier == nil) == (o.TierError == nil) {
		return errors.New("sandbox: a tier is needed, or why there is none")
	}
	if o.Network == "" {
		o.Network = NetworkNone
	}
	o.Limits = o.Limits.WithDefaults()
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	if o.MaxReady <= 0 {
		o.MaxReady = DefaultMaxReady
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Redactor == nil {
		o.Redactor = &plugins.Redactor{}
	}
	o.Logger = slog.New(o.Redactor.Handler(o.Logger.Handler()))
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	// What a tier mounts has no symbolic link in it.
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	o.Dir = dir
	return nil
}

// tiers are those there are, by name.
func (o *Options) tiers() map[string]Tier {
	m := map[string]Tier{}
	for _, t := range []Tier{o.Fallback, o.Tier} {
		if t != nil {
			m[t.Name()] = t
		}
	}
	return m
}
