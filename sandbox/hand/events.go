package hand

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// events is a slog.Handler that sends what is logged of a call to the host, beside
// the call's result, and hands on what is of no call that runs.
type events struct {
	least slog.Level
	rest  slog.Handler
	attrs map[string]any
	calls *callStreams
}

type callStreams struct {
	mu sync.Mutex
	by map[batch.OperationID]*sandbox.Stream
}

func newEvents(least slog.Level, rest slog.Handler) *events {
	return &events{least: least, rest: rest, calls: &callStreams{by: map[batch.OperationID]*sandbox.Stream{}}}
}

// follow sends what is logged of an operation to s, until the returned function is
// called.
func (e *events) follow(op batch.OperationID, s *sandbox.Stream) (stop func()) {
	e.calls.mu.Lock()
	defer e.calls.mu.Unlock()
	e.calls.by[op] = s
	return func() {
		e.calls.mu.Lock()
		defer e.calls.mu.Unlock()
		delete(e.calls.by, op)
	}
}

// Enabled implements slog.Handler.
func (e *events) Enabled(_ context.Context, l slog.Level) bool { return l >= e.least }

// Handle implements slog.Handler.
func (e *events) Handle(ctx context.Context, rec slog.Record) error {
	attrs := maps.Clone(e.attrs)
	if attrs == nil {
		attrs = map[string]any{}
	}
	rec.Attrs(func(a slog.Attr) bool {
		put(attrs, a)
		return true
	})
	op, _ := attrs["operation"].(string)
	e.calls.mu.Lock()
	s := e.calls.by[batch.OperationID(op)]
	e.calls.mu.Unlock()
	if s == nil {
		if !e.rest.Enabled(ctx, rec.Level) {
			return nil
		}
		return e.rest.Handle(ctx, rec)
	}
	kind := sandbox.EventLog
	if attrs["source"] == "awaken_progress" {
		kind = sandbox.EventProgress
	}
	return s.Event(kind, sandbox.LogEvent{Level: int(rec.Level), Message: rec.Message, Attrs: attrs})
}

// WithAttrs implements slog.Handler.
func (e *events) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := &events{least: e.least, rest: e.rest.WithAttrs(attrs), attrs: maps.Clone(e.attrs), calls: e.calls}
	if with.attrs == nil {
		with.attrs = map[string]any{}
	}
	for _, a := range attrs {
		put(with.attrs, a)
	}
	return with
}

// WithGroup implements slog.Handler. What logs here uses no groups.
func (e *events) WithGroup(string) slog.Handler { return e }

// put adds an attribute in a form that JSON keeps.
func put(attrs map[string]any, a slog.Attr) {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool, slog.KindString:
		attrs[a.Key] = v.Any()
	default:
		attrs[a.Key] = fmt.Sprint(v.Any())
	}
}
