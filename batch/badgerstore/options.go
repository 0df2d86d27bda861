package badgerstore

import (
	"log/slog"

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
	// MinFreeMiB is the free space below which a commit with a new batch is
	// refused with batch.ErrDiskFull, in MiB. Zero: 64; negative: no guard.
	MinFreeMiB int64

	keepFiles bool // leaves files that nothing refers to, for Doctor to find
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
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
	// valueBytes is the largest value, and Badger's own largest threshold: nothing
	// enters its value log. What lies there is of format 1.
	valueBytes      = 1 << 20
	valueLogBytes   = 1 << 20 // Badger makes a file of twice that, with nothing in it
	blockCacheBytes = 8 << 20
)

func badgerOptions(dir string, o Options, l badger.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(!o.NoSync && !ownSync).
		WithLogger(l).
		WithMetricsEnabled(false).
		WithDetectConflicts(false). // the writer is alone and checks versions itself
		WithMemTableSize(memTableBytes).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueThreshold(valueBytes).
		WithValueLogFileSize(valueLogBytes).
		WithBlockCacheSize(blockCacheBytes).
		WithIndexCacheSize(0). // indexes stay in the tables' memory maps
		WithChecksumVerificationMode(options.OnBlockRead).
		WithVerifyValueChecksum(true)
}
