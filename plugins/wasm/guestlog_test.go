package wasm

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

func TestGuestLogsAreBounded(t *testing.T) {
	var logged bytes.Buffer
	g := newRig(t, newRuntime(t, Options{Logger: logTo(&logged)}), guestPlugin(t))
	good(t, g.call("talk", `{}`), "true")
	for _, want := range []string{"by extism", "by awaken", "1/4 GUEST-SAYS progress", "on stdout", "on stderr", "plugin=t", "operation=run/1/0", "level=WARN"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	logged.Reset()
	good(t, g.call("log_flood", `{}`), "true")
	if n := strings.Count(logged.String(), "msg=guest"); n != maxLogLines {
		t.Errorf("%d lines of the guest were logged, the limit is %d", n, maxLogLines)
	}
	if !strings.Contains(logged.String(), "kept=50 dropped=4953") {
		t.Errorf("the log does not say how much was dropped: %s", logged.String()[max(0, logged.Len()-600):])
	}
	for _, line := range strings.Split(logged.String(), "\n") {
		if len(line) > maxLogLine+1024 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

func TestGuestLog(t *testing.T) {
	call := &batch.Call{Run: "r", Step: 1, ID: "c", Tool: "t__x"}
	record := func(least slog.Level, f func(*guestLog)) string {
		var out bytes.Buffer
		l := newGuestLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: least})), "t", call)
		f(&l)
		l.end()
		return out.String()
	}
	everything := func(l *guestLog) {
		for range 2 * maxLogLines {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, 99} {
				l.say(level, "awaken_log", "text")
			}
		}
	}
	// The host's own errors are the only ones, so whoever asks for errors sees them.
	if said := record(slog.LevelError, everything); said != "" {
		t.Errorf("a guest logged errors: %s", said)
	}
	said := record(slog.LevelWarn, everything)
	if strings.Contains(said, " level=ERROR") || !strings.Contains(said, "level=WARN msg=guest") || !strings.Contains(said, "guest_level=ERROR") {
		t.Errorf("got %s", clip(said))
	}
	// What is not logged takes nobody's place.
	if n := strings.Count(said, "msg=guest"); n != maxLogLines || !strings.Contains(said, "kept=50 dropped=250") {
		t.Errorf("%d lines: %s", n, said[max(0, len(said)-300):])
	}
	said = record(slog.LevelInfo, func(l *guestLog) {
		for range maxLogLines {
			l.say(slog.LevelInfo, "stdout", strings.Repeat("x", 1000))
		}
		l.say(slog.LevelInfo, "stdout", "short")
	})
	if n := strings.Count(said, strings.Repeat("x", 1000)); n != maxLogBytes/1000 {
		t.Errorf("%d lines of 1000 bytes, at most %d bytes are allowed", n, maxLogBytes)
	}
	if !strings.Contains(said, "text=short") || !strings.Contains(said, "kept=17 dropped=34") {
		t.Errorf("got %s", said[max(0, len(said)-400):])
	}
	if said := record(slog.LevelInfo, func(l *guestLog) { l.say(slog.LevelInfo, "stdout", "short") }); strings.Count(said, "\n") != 1 {
		t.Errorf("got %s", said)
	}
}
