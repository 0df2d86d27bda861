package kube

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/klog/v2"
)

// quiet sends what client-go logs to the logger of the first tier, and not to standard
// error: its logger is the process's.
var quiet sync.Once

func demoteClient(logger *slog.Logger) {
	quiet.Do(func() { klog.SetSlogLogger(slog.New(demoted{logger.Handler()})) })
}

// demoted is a slog.Handler that makes everything a detail. What client-go calls an
// unhandled error is one that the caller gets too, and says in its own words.
type demoted struct{ to slog.Handler }

// Enabled implements slog.Handler.
func (d demoted) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.to.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, r.Level) {
		return nil // klog does not ask before
	}
	r.Level = slog.LevelDebug
	return d.to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler { return demoted{d.to.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.to.WithGroup(name)} }
