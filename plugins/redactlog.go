package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a slog.Handler that passes records on to next without secrets. It
// looks into the message and every attribute: texts, errors and what else prints as
// one. An attribute added with Logger.With is looked at when it is added, and knows
// only the secrets of that time.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return &redactingHandler{r, next} }

type redactingHandler struct {
	known *Redactor
	next  slog.Handler
}

// Enabled implements slog.Handler.
func (h *redactingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *redactingHandler) Handle(ctx context.Context, rec slog.Record) error {
	if h.known.needles() == nil {
		return h.next.Handle(ctx, rec)
	}
	clean := slog.NewRecord(rec.Time, rec.Level, h.known.String(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.known.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *redactingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.known.attr(a)
	}
	return &redactingHandler{h.known, h.next.WithAttrs(clean)}
}

// WithGroup implements slog.Handler.
func (h *redactingHandler) WithGroup(name string) slog.Handler {
	return &redactingHandler{h.known, h.next.WithGroup(name)}
}

func (r *Redactor) attr(a slog.Attr) slog.Attr {
	s := r.needles()
	if s == nil {
		return a
	}
	a.Key = r.String(a.Key)
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(r.String(v.String()))
	case slog.KindGroup:
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, member := range group {
			clean[i] = r.attr(member)
		}
		a.Value = slog.GroupValue(clean...)
	case slog.KindAny:
		a.Value = r.anyValue(v)
	default: // numbers and times
		if text := v.String(); s.inText(text) {
			a.Value = slog.StringValue(r.String(text))
		}
	}
	return a
}

// anyValue is for what handlers print as text or as JSON: where either holds a
// secret, the same without it stands for the value.
func (r *Redactor) anyValue(v slog.Value) slog.Value {
	if b, is := v.Any().([]byte); is {
		if clean := r.Bytes(b); !bytes.Equal(clean, b) {
			return slog.StringValue(string(clean))
		}
		return v
	}
	if asJSON, err := json.Marshal(v.Any()); err == nil {
		// A list of bytes is base64 here, and a list of numbers as text.
		if clean := r.JSON(asJSON); !bytes.Equal(clean, asJSON) {
			return slog.StringValue(string(clean))
		}
	}
	if text := fmt.Sprintf("%+v", v.Any()); r.String(text) != text {
		return slog.StringValue(r.String(text))
	}
	return v
}
