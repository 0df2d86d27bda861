package standard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/policy"
)

// CheckReport is what Check found in order.
type CheckReport struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"` // what works less than it could, such as a plugin without its grants
	Checked  []string `json:"checked"`
}

// Check looks for what would keep Open from opening what file describes: the host
// file, the authorities and keys it trusts, every plugin with its signature and its code, and the
// policy. The error has all that was found, not the first alone. The ledger is not
// opened, data_dir is not touched, and nothing is executed.
func Check(ctx context.Context, file string, o Options) (*CheckReport, error) {
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &CheckReport{File: file, OK: true, Warnings: []string{}, Notes: []string{}, Checked: []string{"host file"}}
	for _, p := range cfg.Unsupported() {
		r.Warnings = append(r.Warnings, p.String())
	}
	_, egressErr := openEgress(cfg)
	err = errors.Join(egressErr, r.plugins(ctx, cfg, o.Logger), r.policy(ctx, cfg, o.Logger))
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *CheckReport) plugins(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	s, messages, err := loadPlugins(cfg)
	if err != nil {
		return err
	}
	for _, m := range append(messages, weakSandbox(cfg, s)...) {
		if m.level >= slog.LevelWarn {
			r.Warnings = append(r.Warnings, m.text)
		} else {
			r.Notes = append(r.Notes, m.text)
		}
	}
	runtime, err := wasm.New(ctx, runtimeOptions(cfg, "", log))
	if err != nil {
		return err
	}
	var errs []error
	n := 0
	for _, p := range s.Plugins() {
		if err := admit(ctx, runtime, p); err != nil {
			errs = append(errs, err)
		}
		if p.Dir != cfg.File {
			n++
		}
	}
	err = errors.Join(append(errs, runtime.Close(context.WithoutCancel(ctx)))...)
	if err != nil {
		if ctx.Err() == nil {
			err = setupError{err}
		}
		return err
	}
	r.Checked = append(r.Checked, fmt.Sprintf("trust (keys: %d)", len(cfg.Trust.Keys)),
		fmt.Sprintf("plugins (%d, tools: %d)", n, len(s.Tools())))
	return nil
}

func (r *CheckReport) policy(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	report, err := policy.Check(ctx, policyOptions(cfg, &plugins.Registry{}, log))
	if err != nil {
		return setupError{err}
	}
	for _, w := range report.Warnings {
		r.Warnings = append(r.Warnings, w.String())
	}
	r.Checked = append(r.Checked, fmt.Sprintf("policy (modules: %d)", len(report.Modules)))
	return nil
}
