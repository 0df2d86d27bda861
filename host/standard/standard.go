package standard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/batch/badgerstore"
	"github.com/awaken-agents/awaken-host/host"
	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/policy"
)

// Options are what a caller adds to a host.toml. The zero value adds nothing.
type Options struct {
	Logger  *slog.Logger // nil: discard
	DataDir string       // in place of data_dir, relative to the working folder; empty: none
	// Metrics gets the collectors of the host's parts; nil: none. One host at a time.
	Metrics prometheus.Registerer
	// Observe hears of every commit; see batch.Options.
	Observe func(RunID, []Event)
}

// Names that callers of this package need and that are declared below it.
type (
	Request      = host.Request
	RunID        = batch.RunID
	ToolID       = batch.ToolID
	TicketID     = batch.TicketID
	TicketAnswer = batch.TicketAnswer
	Event        = batch.Event
)

// LoadConfig reads and validates a host.toml.
func LoadConfig(file string, o Options) (*config.Config, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	cfg.Override(config.Overrides{DataDir: o.DataDir})
	return cfg, nil
}

// Open builds the host that file describes: every plugin verified and compiled,
// the policy compiled, the ledger open and held against other processes. It is
// not started. The caller closes it.
//
// What is wrong with the configuration, a plugin or the policy is found before
// the ledger is touched; ExitCode tells such errors from others.
func Open(ctx context.Context, file string, o Options) (*host.Host, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return nil, err
	}
	known := &plugins.Redactor{} // of secrets, once they have been read
	o.Logger = slog.New(known.Handler(o.Logger.Handler()))
	for _, p := range cfg.Unsupported() {
		o.Logger.Warn("setting without effect in this release", "setting", p.String())
	}
	snapshot, messages, err := loadPlugins(cfg)
	if err != nil {
		return nil, err
	}
	for _, m := range append(messages, weakSandbox(cfg, snapshot)...) {
		o.Logger.Log(ctx, m.level, "plugins", "note", m.text)
	}
	registry := &plugins.Registry{}
	registry.Swap(snapshot)
	po := policyOptions(cfg, registry, o.Logger)
	po.Metrics = o.Metrics
	gate, err := policy.Open(ctx, po)
	if err != nil {
		return nil, setupError{err}
	}
	guard, err := openEgress(cfg)
	if err != nil {
		return nil, err
	}
	store, err := openStore(cfg, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := gate.Keep(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	runtime, err := compile(ctx, cfg, snapshot, guard, known, o.Logger)
	if err != nil {
		return nil, errors.Join(err, gate.Close(), store.Close())
	}
	parts := []func() error{
		func() error { return runtime.Close(context.WithoutCancel(ctx)) },
		gate.Close,
		store.Close,
	}
	executors := map[batch.Target]batch.Executor{batch.TargetBrain: runtime.Executor(registry.Load)}
	background := []func(context.Context){gate.Watch}
	if s := (&sandboxes{cfg: cfg, store: store, guard: guard, known: known, log: o.Logger}); s.needed(snapshot) {
		m, err := s.open()
		if err != nil {
			return nil, errors.Join(err, closeAll(parts))
		}
		parts = append([]func() error{func() error { return closeSandboxes(m) }}, parts...)
		executors[batch.TargetSandbox] = m.Executor(registry.Load)
		background = append(background, m.Watch)
		if cfg.Sandbox.Eager() {
			if err := m.Start(ctx); err != nil {
				return nil, errors.Join(setupError{fmt.Errorf("%s: [sandbox].provisioning is \"eager\", and the sandbox cannot be had: %w", cfg.File, err)}, closeAll(parts))
			}
		}
	}
	decisions, err := openDecisionLog(ctx, cfg, store, gate, known, o)
	if err != nil {
		return nil, errors.Join(err, closeAll(parts))
	}
	ho := host.Options{
		Store: store, Gate: gate, Registry: registry,
		Executors:        executors,
		Logger:           o.Logger,
		MaxArgumentBytes: cfg.Limits.MaxArgumentBytes(),
		MaxOutputBytes:   cfg.Limits.OutputMiB << 20,
		TicketTimeout:    cfg.Tickets.Timeout,
		Retention:        cfg.Store.Retention,
		Observe:          o.Observe,
		Background:       background,
		Close:            parts,
	}
	if decisions != nil {
		ho.DecisionLog, ho.Owed = decisions, decisions.Owed
		ho.Close = append([]func() error{decisions.Close}, parts...)
	}
	h, err := host.New(ho)
	if err != nil {
		return nil, errors.Join(err, closeAll(ho.Close))
	}
	return h, nil
}

func closeAll(parts []func() error) error {
	var errs []error
	for _, f := range parts {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// OpenLedger opens the store alone, to list and show: no plugin is loaded, no
// policy is asked, nothing is executed. The caller closes the Closer.
func OpenLedger(_ context.Context, file string, o Options) (*host.Ledger, io.Closer, error) {
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return nil, nil, err
	}
	store, err := openStore(cfg, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	return host.NewLedger(store), store, nil
}

func openStore(cfg *config.Config, log *slog.Logger) (*badgerstore.Store, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir %s: %w; make it writable or set another data_dir", cfg.DataDir, err)
	}
	return badgerstore.Open(filepath.Join(cfg.DataDir, ledgerFolder), badgerstore.Options{
		NoSync: !cfg.Store.Sync, Logger: log, MinFreeMiB: int64(cfg.Store.MinFreeMiB),
	})
}

// runtimeOptions are those of host.toml. Without a folder nothing that is compiled is
// kept.
func runtimeOptions(cfg *config.Config, cacheDir string, log *slog.Logger) wasm.Options {
	l := cfg.Limits
	return wasm.Options{
		CacheDir: cacheDir, Logger: log, CompileTimeout: l.CompileTimeout,
		MaxConcurrent: l.ConcurrentCalls, MaxQueued: l.QueuedCalls, TotalMemoryMiB: l.TotalMemoryMiB,
	}
}

// compile makes every plugin of the snapshot ready to run, two at a time.
func compile(ctx context.Context, cfg *config.Config, s *plugins.Snapshot, guard *egress.Guard, known *plugins.Redactor, log *slog.Logger) (*wasm.Runtime, error) {
	o := runtimeOptions(cfg, filepath.Join(cfg.DataDir, "cache", "wasm"), log)
	o.Egress, o.Redactor = guard, known
	r, err := wasm.New(ctx, o)
	if err != nil {
		return nil, err
	}
	var (
		wg   sync.WaitGroup
		sem  = make(chan struct{}, 2)
		ps   = s.Plugins()
		errs = make([]error, len(ps))
	)
	for i, p := range ps {
		wg.Go(func() {
			sem <- struct{}{}
			defer func() { <-sem }()
			errs[i] = admit(ctx, r, p)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		if ctx.Err() == nil {
			err = setupError{err}
		}
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}
