package badgerstore

import (
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Options configure a Store. The zero value is ready for production.
type Options struct {
	// NoSync leaves syncing to the operating system: a power cut may then take
	// back acknowledged commits, SIGKILL may not. Zero: every commit is synced.
	NoSync bool
	// Logger gets what the store and Badger have to say; Badger's chatter comes at
	// debug level. Nil discards.
	Logger *slog.Logger
	// GCInterval is the time between collections of the value log. Zero: 10
	// minutes; negative: never.
	GCInterval time.Duration
	// MinFreeMiB is the free space below which a commit with a new batch is
	// refused with batch.ErrDiskFull, in MiB. Zero: 64; negative: no guard.
	MinFreeMiB int64
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.GCInterval == 0 {
		o.GCInterval = 10 * time.Minute
	}
	if o.MinFreeMiB == 0 {
		o.MinFreeMiB = 64
	}
	return o
}

const (
	// memTableBytes sets three things at once: idle memory (an arena of about 1.3
	// times this), how often tables are flushed, and the small values a
	// transaction may hold (15 %).
	memTableBytes = 16 << 20
	// valueThreshold separates small from large values. Large ones cost a second
	// sync per commit and are not rewritten by compactions.
	valueThreshold = 32 << 10
	// valueLogBytes is when a value log file is closed and a new one begun. Badger
	// maps twice as much and would have to grow the map under its readers' feet if
	// one transaction exceeded the rest, so largeBytes stays below.
	valueLogBytes   = 128 << 20
	largeBytes      = 120 << 20
	blockCacheBytes = 8 << 20
)

func badgerOptions(dir string, o Options, l badger.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(!o.NoSync).
		WithLogger(l).
		WithMetricsEnabled(false).
		WithDetectConflicts(false). // the writer is alone and checks versions itself
		WithMemTableSize(memTableBytes).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(valueLogBytes).
		WithBlockCacheSize(blockCacheBytes).
		WithIndexCacheSize(0). // indexes stay in the tables' memory maps
		WithChecksumVerificationMode(options.OnBlockRead).
		WithVerifyValueChecksum(true)
}
