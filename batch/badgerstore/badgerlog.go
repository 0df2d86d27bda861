package badgerstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// badgerLog is Badger's logger. Two of Badger's messages are all one ever hears
// of trouble that must not pass: a value log whose sync failed, and a damaged
// table that is left out when the store opens. They are kept as errors.
type badgerLog struct {
	log     *slog.Logger
	sync    atomic.Pointer[error]
	ignored atomic.Pointer[error]
}

// How the two messages begin in Badger 4.9.
const (
	syncFailedMessage   = "Error while curlf sync"
	ignoredTableMessage = "Ignoring table"
)

func (l *badgerLog) syncFailure() error  { return loadError(&l.sync) }
func (l *badgerLog) ignoredTable() error { return loadError(&l.ignored) }
func loadError(p *atomic.Pointer[error]) error {
	if e := p.Load(); e != nil {
		return *e
	}
	return nil
}

func (l *badgerLog) print(level slog.Level, format string, a []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "badger", "text", strings.TrimSpace(fmt.Sprintf(format, a...)))
	}
}

// Errorf implements badger.Logger.
func (l *badgerLog) Errorf(format string, a ...any) {
	keep := func(p *atomic.Pointer[error]) {
		err := fmt.Errorf("badger: %s", strings.TrimSpace(fmt.Sprintf(format, a...)))
		p.CompareAndSwap(nil, &err)
	}
	switch {
	case strings.HasPrefix(format, syncFailedMessage):
		keep(&l.sync)
	case strings.HasPrefix(format, ignoredTableMessage):
		keep(&l.ignored)
	}
	l.print(slog.LevelError, format, a)
}

// Warningf implements badger.Logger.
func (l *badgerLog) Warningf(format string, a ...any) { l.print(slog.LevelWarn, format, a) }

// Infof implements badger.Logger.
func (l *badgerLog) Infof(format string, a ...any) { l.print(slog.LevelDebug, format, a) }

// Debugf implements badger.Logger.
func (l *badgerLog) Debugf(format string, a ...any) { l.print(slog.LevelDebug, format, a) }
