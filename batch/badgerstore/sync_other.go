//go:build !linux

package badgerstore

import "os"

// ownSync says that the store syncs the write-ahead log itself. Elsewhere nobody
// promises that fsync covers what was written through a map, so Badger does it.
const ownSync = false

func syncData(f *os.File) error { return f.Sync() }

const smallWrite = 0

func setAside(*wal, int64) {}
