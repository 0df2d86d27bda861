package standard

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
)

// policyFolder is where bundles are kept and the status is, below data_dir.
const policyFolder = "policy"

func policyOptions(cfg *config.Config, registry *plugins.Registry, log *slog.Logger) policy.Options {
	o := policy.Options{
		Paths: cfg.Policy.Paths, Deadline: cfg.Policy.Deadline, Builtins: cfg.Policy.Builtins,
		StateDir:     filepath.Join(cfg.DataDir, policyFolder),
		TestOnReload: cfg.Policy.TestOnReload, WatchEvery: cfg.Policy.Watch,
		Tools: registry.Load, Logger: log,
	}
	if o.WatchEvery == 0 {
		o.WatchEvery = -1 // written as 0s: never
	}
	for i := range cfg.Policy.Bundles {
		b := &cfg.Policy.Bundles[i]
		bo := policy.BundleOptions{
			Name: b.Name, Path: b.Path, URL: b.URL, AllowUnsigned: b.AllowUnsigned,
			Poll: b.Poll, Timeout: b.Timeout, MaxBytes: int64(b.MaxMiB) << 20,
			CAFile: b.CAFile, Proxy: b.Proxy,
		}
		for _, k := range b.Keys {
			bo.Keys = append(bo.Keys, policy.BundleKey{ID: k.ID, File: k.File, Algorithm: k.Algorithm, Scope: k.Scope})
		}
		if b.Token != nil {
			bo.Token = bearer(secretSource(cfg, *b.Token))
		}
		o.Bundles = append(o.Bundles, bo)
	}
	return o
}

// bearer reads a token anew for each download, so that it can be replaced while the host
// runs.
func bearer(source plugins.SecretSource) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		raw, err := source.Resolve(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", source, err)
		}
		return strings.TrimRight(string(raw), "\r\n"), nil
	}
}

// CheckPolicy compiles the policy of file, or paths in its place, and reports what is in
// it. With optional the file may be missing when there are paths; then the defaults count.
func CheckPolicy(ctx context.Context, file string, optional bool, paths []string, o Options) (*policy.Report, error) {
	po, err := optionsOfPolicy(file, optional && len(paths) > 0, paths, o)
	if err != nil {
		return nil, err
	}
	r, err := policy.Check(ctx, po)
	if err != nil {
		return nil, setupError{err}
	}
	return r, nil
}

// PolicyStatus is what is in force, and who says so.
type PolicyStatus struct {
	PID int `json:"pid,omitempty"` // the process that has it in force; absent: none runs
	*policy.Status
}

// StatusOfPolicy asks the process that holds the data folder what it has in force. When
// none does, it loads the policy as a start would, without keeping anything.
func StatusOfPolicy(ctx context.Context, file string, o Options) (*PolicyStatus, error) {
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return nil, err
	}
	st, pid, err := policy.ReadStatus(filepath.Join(cfg.DataDir, policyFolder))
	if err != nil {
		return nil, err
	}
	if st == nil {
		gate, err := policy.Open(ctx, policyOptions(cfg, &plugins.Registry{}, o.Logger))
		if err != nil {
			return nil, asSetup(ctx, err)
		}
		st = gate.Status()
	}
	return &PolicyStatus{PID: pid, Status: st}, nil
}

// PolicySource is one path or bundle of a PolicyStatus.
type PolicySource = policy.SourceStatus
