package wasm

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// What one call may log. More is counted and dropped.
const (
	maxLogLine  = 4 << 10 // bytes
	maxLogLines = 50
	maxLogBytes = 16 << 10
)

// guestLog passes what a guest says during one call to the host's logger. It is
// used by the goroutine of the call only.
type guestLog struct {
	ctx    context.Context // of the call while it runs; nil before
	logger *slog.Logger
	known  *plugins.Redactor
	attrs  []any
	lines  int
	bytes  int
	lost   int
}

func newGuestLog(logger *slog.Logger, plugin string, call *batch.Call) guestLog {
	return guestLog{logger: logger, attrs: []any{"plugin", plugin, "tool", string(call.Tool), "operation", string(call.Operation())}}
}

// say logs one line of the guest's. Nothing that a guest says is an error of the
// host's: whoever asks to see only those must not see what a guest calls one.
func (l *guestLog) say(level slog.Level, source, message string) {
	ctx := context.Background()
	attrs := []any{"source", source}
	if level > slog.LevelWarn {
		level, attrs = slog.LevelWarn, append(attrs, "guest_level", level.String())
	}
	if !l.logger.Enabled(ctx, level) {
		return
	}
	if l.lines >= maxLogLines || l.ended() {
		l.lost++
		return
	}
	text := printable(l.known.String(message), maxLogLine)
	if l.bytes+len(text) > maxLogBytes {
		l.lost++
		return
	}
	l.lines++
	l.bytes += len(text)
	l.logger.With(l.attrs...).Log(ctx, level, "guest", append(attrs, "text", text)...)
}

// ended reports whether the call is over: nothing that it still says counts.
func (l *guestLog) ended() bool { return l.ctx != nil && l.ctx.Err() != nil }

// end reports what was dropped.
func (l *guestLog) end() {
	if l.lost > 0 {
		l.logger.With(l.attrs...).Warn("a guest logged more than one call may, the rest was dropped", "kept", l.lines, "dropped", l.lost)
	}
}

// lineWriter is a guest's standard output or error when it is not the result: its
// lines go to the log of the current call.
type lineWriter struct {
	log    *guestLog // of the current call; nil between calls
	level  slog.Level
	source string
	part   []byte
	tail   *tail // nil: not kept
}

// Write takes no more once the call is over: a guest can have one request to the
// host write the same bytes a million times, and nothing else would end that.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	if w.log != nil && w.log.ended() {
		return 0, errEnded
	}
	if w.tail != nil {
		w.tail.add(p)
	}
	for w.log != nil {
		if w.log.ended() {
			return n - len(p), errEnded
		}
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		// A line without end is cut, not collected: it could be the whole memory. Of
		// what begins before the cut enough is kept to find a secret there.
		if room := maxLogLine + 1 + w.log.known.Longest() - len(w.part); room > 0 {
			w.part = append(w.part, line[:min(len(line), room)]...)
		}
		if !whole {
			break
		}
		w.flush()
		p = rest
	}
	return n, nil
}

// errEnded is what a guest hears of the host when its call is over, should it still
// listen.
var errEnded = errors.New("the call has ended")

func (w *lineWriter) flush() {
	if len(w.part) > 0 && w.log != nil {
		text := w.part
		if len(text) > maxLogLine {
			// What comes after the cut may be the beginning of a secret.
			text = w.log.known.Bytes(text)
			text = text[:max(0, len(text)-w.log.known.Longest())]
		}
		w.log.say(w.level, w.source, string(bytes.TrimRight(text, "\r")))
	}
	w.part = w.part[:0]
}

// tail keeps the end of a stream.
type tail struct {
	known *plugins.Redactor
	buf   []byte
	cut   bool
}

const maxTail = 4 << 10

func (t *tail) add(p []byte) {
	most := maxTail + t.known.Longest()
	if len(p) > most {
		p, t.cut = p[len(p)-most:], true
	}
	if over := len(t.buf) + len(p) - most; over > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[over:]...), true
	}
	t.buf = append(t.buf, p...)
}

func (t *tail) String() string {
	text := t.known.Bytes(t.buf)
	if t.cut {
		// The beginning may be the end of a secret.
		text = text[min(len(text), t.known.Longest()):]
	}
	s := string(bytes.TrimSpace(text))
	if t.cut {
		s = "…" + s
	}
	return printable(s, 2*maxTail)
}

func (t *tail) reset() { t.buf, t.cut = t.buf[:0], false }
