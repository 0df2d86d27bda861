package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

type inStruct struct{ Field, hidden string }

type valuer struct{ text string }

func (v valuer) LogValue() slog.Value { return slog.StringValue(v.text) }

func TestRedactingHandler(t *testing.T) {
	const value = "correct horse"
	r := known(value, "20261130")
	for _, c := range []struct {
		name string
		log  func(*slog.Logger)
	}{
		{"message", func(l *slog.Logger) { l.Info("<" + value + ">") }},
		{"text", func(l *slog.Logger) { l.Info("m", "a", value) }},
		{"key", func(l *slog.Logger) { l.Info("m", value, 1) }},
		{"error", func(l *slog.Logger) { l.Info("m", "error", errors.New("no "+value)) }},
		{"bytes", func(l *slog.Logger) { l.Info("m", "a", []byte(value)) }},
		{"raw JSON", func(l *slog.Logger) { l.Info("m", "a", json.RawMessage(`{"a":"`+value+`"}`)) }},
		{"struct", func(l *slog.Logger) { l.Info("m", "a", inStruct{Field: value}) }},
		{"pointer", func(l *slog.Logger) { l.Info("m", "a", &inStruct{Field: value}) }},
		{"unexported", func(l *slog.Logger) { l.Info("m", "a", inStruct{hidden: value}) }},
		{"bytes in a struct", func(l *slog.Logger) { l.Info("m", "a", struct{ B []byte }{[]byte(value)}) }},
		{"list", func(l *slog.Logger) { l.Info("m", "a", []string{"x", value}) }},
		{"group", func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", value, slog.Group("h", "b", value))) }},
		{"with", func(l *slog.Logger) { l.With("a", value).WithGroup("g").Info("m", "b", value) }},
		{"valuer", func(l *slog.Logger) { l.Info("m", "a", valuer{value}) }},
		{"number", func(l *slog.Logger) { l.Info("m", "a", 20261130) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text, asJSON bytes.Buffer
			c.log(slog.New(r.Handler(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: noTime}))))
			c.log(slog.New(r.Handler(slog.NewJSONHandler(&asJSON, &slog.HandlerOptions{ReplaceAttr: noTime}))))
			for _, out := range []string{text.String(), asJSON.String()} {
				if strings.Contains(out, value) || strings.Contains(out, "20261130") || strings.Contains(out, "Y29ycmVjdCBob3JzZQ") || !strings.Contains(out, "[redacted:") {
					t.Errorf("got %s", out)
				}
			}
		})
	}
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// What holds no secret is passed on as it came.
func TestRedactingHandlerLeavesTheRest(t *testing.T) {
	say := func(h slog.Handler) {
		l := slog.New(h).With("w", 1).WithGroup("g")
		l.Warn("m", "text", "t", "n", 1.5, "d", time.Second, "any", inStruct{"a", "b"}, "err", errors.New("e"), "v", valuer{"v"}, "b", []byte("b"), slog.Group("h", "a", true))
		l.Debug("not enabled")
	}
	for _, r := range []*Redactor{{}, known("correct horse")} {
		var want, got bytes.Buffer
		options := &slog.HandlerOptions{ReplaceAttr: noTime, AddSource: true}
		say(slog.NewJSONHandler(&want, options))
		say(r.Handler(slog.NewJSONHandler(&got, options)))
		if got.String() != want.String() || want.Len() == 0 {
			t.Errorf("got  %s\nwant %s", got.String(), want.String())
		}
		if h := r.Handler(slog.DiscardHandler); h.Enabled(context.Background(), slog.LevelError) {
			t.Error("enabled where the next one is not")
		}
	}
}
