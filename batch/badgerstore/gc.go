package badgerstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// discardRatio is how much of a value log file must be garbage before the rest
// of it is moved and the file removed.
const discardRatio = 0.5

// collector reclaims value log files.
type collector struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startCollector(db *badger.DB, every time.Duration, log *slog.Logger) *collector {
	ctx, cancel := context.WithCancel(context.Background())
	c := &collector{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if every < 0 {
			return
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				collect(ctx, db, log)
			}
		}
	}()
	return c
}

// collect removes one file after the other until none is worth it.
func collect(ctx context.Context, db *badger.DB, log *slog.Logger) {
	for ctx.Err() == nil {
		err := db.RunValueLogGC(discardRatio)
		switch {
		case err == nil:
			log.Debug("value log file reclaimed")
		case errors.Is(err, badger.ErrNoRewrite), errors.Is(err, badger.ErrRejected):
			return
		default:
			log.Warn("value log collection failed", "err", err)
			return
		}
	}
}

func (c *collector) stop() {
	c.cancel()
	<-c.done
}
