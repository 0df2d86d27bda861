package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// wal syncs Badger's write-ahead log, one file a memtable, in Badger's stead:
// Badger would sync the value log after each transaction, too, where nothing is.
//
// A transaction lies in one file: Badger looks for room before it writes one, and
// then goes on to the next file if need be. Nobody but the writer makes Badger
// write, so after a transaction that file is the newest: the one that was newest
// before, or its successor. A file that is gone was flushed: its table was synced
// and listed in the MANIFEST before.
//
// Only the writer uses it.
type wal struct {
	dir    string
	number int      // of the newest file
	f      *os.File // a handle of our own
	last   int64    // bytes of the last transaction, at least
	used   int64    // bytes that Badger has written to the file, at least
	ready  int64    // up to here its blocks are on disk; not below used
	sync   func(*os.File) error
}

const walSuffix = ".mem"

func walPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%05d%s", number, walSuffix))
}

// openWAL also syncs what recovery read from files that an earlier process had
// not synced before it died: from now on it can be seen.
func openWAL(dir string, sync func(*os.File) error) (*wal, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+walSuffix))
	if err != nil {
		return nil, err
	}
	w := &wal{dir: dir, number: -1, sync: sync}
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), walSuffix))
		if err != nil {
			return nil, fmt.Errorf("file %s is none of the store's: move it away", name)
		}
		if n > w.number {
			w.number = n
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // flushed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if err := errors.Join(sync(f), f.Close()); err != nil {
			return nil, err
		}
	}
	if w.number < 0 {
		return nil, errors.New("there is no write-ahead log of Badger")
	}
	// Badger has just made it and written nothing but the file's header.
	w.used, w.ready = walOverhead, walOverhead
	w.f, err = os.OpenFile(walPath(dir, w.number), os.O_RDWR, 0)
	return w, err
}

// walOverhead is above what a log file and each transaction have besides entries.
const walOverhead = 128

// prepare is called before a transaction of the given size, in bytes, is written.
func (w *wal) prepare(size int64) {
	w.last = size + walOverhead
	if w.last <= smallWrite && w.used+w.last > w.ready {
		setAside(w, w.used+w.last)
	}
	w.used += w.last
	w.ready = max(w.ready, w.used)
}

// commit makes the transaction that was just written durable.
func (w *wal) commit() error {
	if err := w.sync(w.f); err != nil {
		return err
	}
	for {
		next, err := os.OpenFile(walPath(w.dir, w.number+1), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.f.Close(); err != nil {
			return errors.Join(err, next.Close())
		}
		w.number, w.f = w.number+1, next
		w.used, w.ready = w.last, w.last
		if err := w.sync(w.f); err != nil {
			return err
		}
	}
}

func (w *wal) close() error { return w.f.Close() }
