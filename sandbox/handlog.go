package sandbox

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// What a Hand may log during one call: what the runtime in it lets a guest log, and as
// much again of its own. A Hand that was taken over may send anything.
const (
	maxHandLines   = 100
	maxHandBytes   = 32 << 10
	maxHandText    = 4 << 10 // bytes of a message or an attribute
	maxHandAttrs   = 16
	maxHandUnheard = 10_000 // events that are looked at, also of levels that nobody hears
)

// Names of attributes are those of this program. Some are the log's own, or say whose
// line it is.
var (
	attrName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
	ownedAttr = []string{"time", "level", "msg", "plugin", "tool", "operation", "environment", "tier"}
)

// handLog passes what a Hand has to say of one call to the host's log. It is safe for
// concurrent use.
type handLog struct {
	log   *slog.Logger
	known *plugins.Redactor

	mu    sync.Mutex
	seen  int
	lines int
	bytes int
	lost  int
	over  bool
}

func (m *Manager) newHandLog(p *plugins.Plugin, call *batch.Call) *handLog {
	return &handLog{
		log:   m.o.Logger.With("plugin", p.Manifest.ID, "tool", string(call.Tool), "operation", string(call.Operation())),
		known: m.o.Redactor,
	}
}

// event takes one event of the call's stream.
func (l *handLog) event(kind string, raw json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.seen++
	if l.seen > maxHandUnheard || l.lines >= maxHandLines || l.bytes >= maxHandBytes {
		l.lost++
		return
	}
	var ev LogEvent
	if kind != EventLog && kind != EventProgress || json.Unmarshal(raw, &ev) != nil {
		l.lost++
		return
	}
	ctx := context.Background()
	level := knownLevel(ev.Level)
	if !l.log.Enabled(ctx, level) {
		return
	}
	message := l.text(ev.Message)
	size := len(message)
	attrs := make([]any, 0, 2*min(len(ev.Attrs), maxHandAttrs))
	for _, name := range slices.Sorted(maps.Keys(ev.Attrs)) {
		if len(attrs) == 2*maxHandAttrs || !attrName.MatchString(name) || slices.Contains(ownedAttr, name) {
			continue
		}
		value := l.value(ev.Attrs[name])
		if s, is := value.(string); is {
			size += len(s)
		}
		attrs = append(attrs, name, value)
	}
	if l.bytes+size > maxHandBytes {
		l.lost++
		return
	}
	l.lines++
	l.bytes += size
	l.log.Log(ctx, level, message, attrs...) //nolint:sloglint // it is the Hand's
}

// knownLevel is the level of slog's own that is in force at n.
func knownLevel(n int) slog.Level {
	for _, l := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo} {
		if n >= int(l) {
			return l
		}
	}
	return slog.LevelDebug
}

func (l *handLog) value(v any) any {
	switch v := v.(type) {
	case string:
		return l.text(v)
	case bool, float64, nil:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return l.text(string(raw))
}

// text bounds a text, without secrets and without what a terminal would obey.
func (l *handLog) text(s string) string {
	s = l.known.String(s)
	if len(s) > maxHandText {
		s = s[:maxHandText] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// end says what was dropped, with what did not get as far as event. Nothing is heard
// after it.
func (l *handLog) end(unheard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if lost := l.lost + unheard; lost > 0 {
		l.log.Warn("a Hand logged more of a call than it may, or what cannot be read: the rest was dropped", "kept", l.lines, "dropped", lost)
	}
}
