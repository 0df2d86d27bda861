package standard

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/policy"
	"github.com/awaken-agents/awaken-host/policy/decisionlog"
)

// openDecisionLog opens what [policy.log] describes; nil when it describes nothing.
func openDecisionLog(ctx context.Context, cfg *config.Config, store batch.Store, gate *policy.Gate, known *plugins.Redactor, log *slog.Logger) (*decisionlog.Log, error) {
	dir := filepath.Join(cfg.DataDir, "decisions")
	l := &cfg.Policy.Log
	o := decisionlog.Options{
		Dir: dir, Ledger: store, Masker: gate, Redact: known, Require: cfg.Policy.RequireLog, Logger: log,
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
			o.HTTP.Token = tokenOf(h.Token)
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

// tokenOf reads the token anew for each request, so that a changed one is used.
func tokenOf(source *config.SecretSource) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		raw := []byte(os.Getenv(source.Env))
		if source.File != "" {
			var err error
			if raw, err = os.ReadFile(source.File); err != nil {
				return "", err
			}
		}
		raw = bytes.TrimSpace(raw)
		switch {
		case len(raw) == 0:
			return "", errors.New("policy.log.http.token is empty")
		case bytes.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }):
			return "", errors.New("policy.log.http.token has characters that no token has")
		}
		return string(raw), nil
	}
}
