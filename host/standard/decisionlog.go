package standard

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
	"github.com/awaken-agents/awaken-host/policy/decisionlog"
)

// openDecisionLog opens what [policy.log] describes; nil when it describes nothing.
func openDecisionLog(ctx context.Context, cfg *config.Config, store batch.Store, gate *policy.Gate, known *plugins.Redactor, so Options) (*decisionlog.Log, error) {
	dir := filepath.Join(cfg.DataDir, "decisions")
	l := &cfg.Policy.Log
	o := decisionlog.Options{
		Dir: dir, Ledger: store, Masker: gate, Redact: known, Require: cfg.Policy.RequireLog, Logger: so.Logger, Metrics: so.Metrics,
		Labels: map[string]string{"app": "awaken-host"},
	}
	if name, err := os.Hostname(); err == nil {
		o.Labels["id"] = name
	}
	if l.File != "" {
		o.File = &decisionlog.File{Path: l.File, MaxBytes: int64(l.MaxMiB) << 20, MaxAge: l.MaxAge, Keep: l.Keep, Sync: l.Sync}
	}
	if h := &l.HTTP; h.URL != "" {
		o.HTTP = &decisionlog.HTTP{
			URL: h.URL, NoGzip: !h.Gzip, BatchEvents: h.BatchEvents, BatchBytes: int64(h.BatchKiB) << 10,
			MinDelay: h.MinDelay, MaxDelay: h.MaxDelay, Timeout: h.Timeout, BufferBytes: int64(h.BufferMiB) << 20,
		}
		if h.Token != nil {
			o.HTTP.Token = knownToken(bearer(secretSource(cfg, *h.Token)), known)
		}
		if h.CAFile != "" {
			pem, err := os.ReadFile(h.CAFile)
			if err != nil {
				return nil, setupError{fmt.Errorf("policy.log.http.ca_file: %w", err)}
			}
			o.HTTP.RootCAs = x509.NewCertPool()
			if !o.HTTP.RootCAs.AppendCertsFromPEM(pem) {
				return nil, setupError{fmt.Errorf("policy.log.http.ca_file: %s has no certificate in PEM form", h.CAFile)}
			}
		}
	}
	// A sink that is not used now finds what it missed when it is used again.
	if err := decisionlog.Suspend(dir, l.File == "", l.HTTP.URL == ""); err != nil {
		return nil, err
	}
	if !l.On() {
		return nil, nil
	}
	opened, err := decisionlog.Open(ctx, o)
	if err != nil && ctx.Err() == nil {
		err = setupError{err}
	}
	return opened, err
}

// knownToken makes what is read known to the redactor, so that no log shows it.
func knownToken(read func(context.Context) (string, error), known *plugins.Redactor) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := read(ctx)
		known.Add("policy.log.http.token", []byte(text))
		return text, err
	}
}
