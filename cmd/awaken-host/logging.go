package main

import (
	"log/slog"
)

// logger logs to standard error as text, whose handler quotes what could act on a
// terminal. The time is left out where a person watches.
func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	switch {
	case a.verbose:
		level = slog.LevelDebug
	case a.quiet:
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey && a.errOnTerminal {
				return slog.Attr{}
			}
			return attr
		},
	}))
}
