package standard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// sandboxFolder is where Environments are, below data_dir.
const sandboxFolder = "sandbox"

// sandboxed reports whether a plugin has tools that run in a sandbox.
func sandboxed(p *plugins.Plugin) bool { return p.Manifest.Has(batch.TargetSandbox) }

// compiled reports whether the host itself runs something of a plugin. What runs in
// sandboxes alone is compiled there.
func compiled(p *plugins.Plugin) bool { return !sandboxed(p) || p.Manifest.Has(batch.TargetBrain) }

// admit makes a plugin ready to run beside the model, or says why its module could run
// nowhere.
func admit(ctx context.Context, r *wasm.Runtime, p *plugins.Plugin) error {
	var err error
	if compiled(p) {
		err = r.Load(ctx, p)
	} else {
		err = wasm.Check(p.Manifest, p.Module)
	}
	if err != nil {
		return fmt.Errorf("plugin %s (%s): %w", p.Manifest.ID, p.Dir, err)
	}
	return nil
}

// sandboxes are what the Manager of a host needs besides the host file.
type sandboxes struct {
	cfg   *config.Config
	store batch.Store
	guard *egress.Guard
	known *plugins.Redactor
	log   *slog.Logger
}

// needed reports whether there is anything for a Manager to do: a tool that needs a
// sandbox, one that has to be ready, or something of an earlier process.
func (s *sandboxes) needed(snapshot *plugins.Snapshot) bool {
	if s.cfg.Sandbox.Eager() {
		return true
	}
	for _, p := range snapshot.Plugins() {
		if sandboxed(p) {
			return true
		}
	}
	return s.begun()
}

// begun reports whether an earlier process had sandboxes.
func (s *sandboxes) begun() bool {
	_, err := os.Stat(s.dir())
	return !errors.Is(err, fs.ErrNotExist)
}

func (s *sandboxes) dir() string { return filepath.Join(s.cfg.DataDir, sandboxFolder) }

// open makes the Manager. data_dir is held. A tier that cannot be had is no error: what
// needs it is answered with why.
func (s *sandboxes) open() (*sandbox.Manager, error) {
	cfg := &s.cfg.Sandbox
	dir, err := filepath.Abs(s.dir())
	if err != nil {
		return nil, err
	}
	require, err := sandbox.ParseRequirements(cfg.Require)
	if err != nil {
		return nil, setupError{err}
	}
	mounts, err := s.mounts()
	if err != nil {
		return nil, err
	}
	o := sandbox.Options{
		Dir: dir, CodeDir: filepath.Join(filepath.Dir(dir), "cache", "hand"), Mounts: mounts, Network: sandbox.Network(cfg.Network), Limits: cfg.Limits.InstanceLimits(), Require: require,
		Idle: cfg.Idle, MaxReady: cfg.MaxReady, Warm: cfg.Warm,
		RemoveWorkspaces: !cfg.KeepsWorkspace(), Session: s.session,
		Egress: s.guard, Redactor: s.known, Logger: s.log,
	}
	o.Tier, err = openTier(s.cfg, cfg.Tier, s.log)
	var setup setupError
	if errors.As(err, &setup) {
		return nil, err
	}
	o.TierError = err
	if hand, err := handProgram(s.cfg, cfg.Tier); err == nil {
		o.Hand = hand
	} else {
		o.Tier, o.TierError = nil, err
	}
	if cfg.AllowLocalFallback && cfg.Tier != sandbox.TierLocal && o.Hand != "" {
		if o.Fallback, err = openTier(s.cfg, sandbox.TierLocal, s.log); err != nil {
			return nil, err
		}
	}
	m, err := sandbox.Open(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.cfg.File, err)
	}
	return m, nil
}

// mounts are those of the host file, with absolute names.
func (s *sandboxes) mounts() ([]sandbox.MountSpec, error) {
	var list []sandbox.MountSpec
	var errs []error
	absolute := func(name string) string {
		if name == "" {
			return ""
		}
		abs, err := filepath.Abs(name)
		errs = append(errs, err)
		return abs
	}
	for _, m := range s.cfg.Sandbox.Mounts {
		list = append(list, sandbox.MountSpec{
			Target: m.Target, Folder: absolute(m.Folder), File: absolute(m.File), Archive: absolute(m.Archive), SHA256: m.SHA256, Mode: m.Mode,
		})
	}
	return list, errors.Join(errs...)
}

// session says what has become of a session, which is a run.
func (s *sandboxes) session(ctx context.Context, session string) (sandbox.SessionState, error) {
	run, err := s.store.Run(ctx, sandbox.RunOf(session))
	switch {
	case errors.Is(err, batch.ErrNotFound):
		return sandbox.SessionGone, nil
	case err != nil:
		return "", err
	case session != sandbox.SessionOf(run.ID, run.CreatedAt):
		return sandbox.SessionGone, nil // it is another run of that name
	case run.Cancelled != nil && run.OpenStep == 0:
		return sandbox.SessionEnded, nil
	}
	return sandbox.SessionOpen, nil
}

// closeTimeout bounds how long a host waits for its sandboxes to end.
const closeTimeout = time.Minute

func closeSandboxes(m *sandbox.Manager) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return m.Close(ctx)
}

// weakSandbox is what an operator should read of the settings, every time.
func weakSandbox(cfg *config.Config, snapshot *plugins.Snapshot) []message {
	used := false
	for _, p := range snapshot.Plugins() {
		used = used || sandboxed(p)
	}
	if !used {
		return nil
	}
	s := &cfg.Sandbox
	var list []message
	warn := func(text string) { list = append(list, message{slog.LevelWarn, text}) }
	switch {
	case s.Tier == sandbox.TierLocal:
		warn(`[sandbox].tier is "local": tools that ask for a sandbox run as processes of this machine, with everything that this user may do; for development only`)
	case s.AllowLocalFallback:
		warn("[sandbox].allow_local_fallback is on: what tier " + s.Tier + " cannot run here runs without any boundary; its results say tier local")
	}
	if s.Network == string(sandbox.NetworkHost) {
		warn(`[sandbox].network is "host": commands in a sandbox reach whatever this machine reaches`)
	}
	return list
}
