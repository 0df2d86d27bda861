package sandbox

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
)

// TestALyingHandCannotFloodTheLog: a call may log so much, in the levels there are, and
// not in another's name.
func TestALyingHandCannotFloodTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		events func(send func(kind string, ev any))
		want   []string // in the log, each once
		never  []string
		lines  int
	}{
		"an honest one": {func(send func(string, any)) {
			send(EventLog, LogEvent{Level: 4, Message: "guest", Attrs: map[string]any{"text": "hello", "n": 3, "operation": "r/1/0"}})
			send(EventProgress, LogEvent{Message: "guest", Attrs: map[string]any{"source": "awaken_progress"}})
		}, []string{"level=WARN msg=guest plugin=p tool=p__t operation=r/1/0 n=3 text=hello\n", "level=INFO msg=guest plugin=p tool=p__t operation=r/1/0 source=awaken_progress\n"}, []string{"dropped"}, 2},
		"too many": {func(send func(string, any)) {
			for i := range 400 {
				send(EventLog, LogEvent{Message: fmt.Sprintf("line-%d.", i)})
			}
		}, []string{"line-0.", "line-99.", "level=WARN", "kept=100 dropped=300"}, []string{"line-100."}, 101},
		"too large": {func(send func(string, any)) {
			for range 20 {
				send(EventLog, LogEvent{Message: strings.Repeat("x", 10<<10), Attrs: map[string]any{"text": strings.Repeat("y", 100<<10)}})
			}
		}, []string{"kept=3 dropped=17"}, []string{strings.Repeat("x", maxHandText+1), strings.Repeat("y", maxHandText+1)}, 4},
		"unknown levels": {func(send func(string, any)) {
			send(EventLog, LogEvent{Level: 1 << 40, Message: "high"})
			send(EventLog, LogEvent{Level: -1 << 40, Message: "low"})
			send(EventLog, LogEvent{Level: 2, Message: "odd"})
		}, []string{"level=ERROR msg=high", "level=DEBUG msg=low", "level=INFO msg=odd"}, nil, 3},
		"in the name of others": {func(send func(string, any)) {
			send(EventLog, LogEvent{Message: "m", Attrs: map[string]any{"operation": "other/1/0", "tier": "none", "level": "ERROR", "Bad Name": 1, "a\nb": 2, strings.Repeat("n", 33): 3}})
		}, []string{"level=INFO msg=m plugin=p tool=p__t operation=r/1/0\n"}, nil, 1},
		"many attributes": {func(send func(string, any)) {
			attrs := map[string]any{}
			for i := range 100 {
				attrs[fmt.Sprintf("a%02d", i)] = i
			}
			send(EventLog, LogEvent{Message: "m", Attrs: attrs})
		}, []string{"a15=15"}, []string{"a16="}, 1},
		"what a terminal obeys": {func(send func(string, any)) {
			send(EventLog, LogEvent{Message: "a\x1b[2Jb\r\u202ec", Attrs: map[string]any{"deep": map[string]any{"k": []any{"\x07"}}}})
		}, []string{"\uFFFD[2Jb"}, nil, 1},
		"no record": {func(send func(string, any)) {
			send("other", LogEvent{Message: "m"})
			send(EventLog, 7)
		}, []string{"kept=0 dropped=2"}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log logText
			w := newFakeWorld(t, newFakeTier("fake"), func(o *Options) {
				o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			p, _ := w.catalog.Tool("p__t")
			l := w.m.newHandLog(p.Plugin, w.request("r", 1))
			c.events(func(kind string, ev any) {
				raw, err := json.Marshal(ev)
				if err != nil {
					t.Fatal(err)
				}
				l.event(kind, raw)
			})
			l.end(0)
			l.event(EventLog, json.RawMessage(`{"message":"too late"}`))
			text := log.String()
			for _, want := range c.want {
				if strings.Count(text, want) != 1 {
					t.Errorf("%q is not there once in\n%.2000s", want, text)
				}
			}
			for _, never := range append(c.never, "too late") {
				if strings.Contains(text, never) {
					t.Errorf("%.40q is there", never)
				}
			}
			if got := strings.Count(text, "\n"); got != c.lines {
				t.Errorf("%d lines, want %d:\n%.2000s", got, c.lines, text)
			}
			if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("it is not harmless: %q", text)
			}
		})
	}
}

// TestWhatWasDroppedIsSaidWithTheCall: also of events that the channel dropped.
func TestWhatWasDroppedIsSaidWithTheCall(t *testing.T) {
	tier := newFakeTier("fake")
	tier.say = func(s *Stream) error {
		for i := range 500 {
			if err := s.Event(EventLog, LogEvent{Message: fmt.Sprint("line ", i)}); err != nil {
				return err
			}
		}
		return nil
	}
	var log logText
	w := newFakeWorld(t, tier, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	w.mustRun("r", 1)
	if text := log.String(); !strings.Contains(text, `msg="line 0"`) || strings.Count(text, "dropped=") != 1 || strings.Count(text, `msg="line `) > maxHandLines {
		t.Error(text)
	}
}
