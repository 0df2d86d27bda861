package decisionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// lineFile is a file that only ever grows by whole lines. Append and sync are safe
// for concurrent use.
type lineFile struct {
	f    *os.File
	size int64 // of whole lines
	torn int64 // bytes of a line without an end that were cut off when it was opened

	mu         sync.Mutex
	appended   uint64 // lines
	broken     error  // a sync failed: what is in the file need not be on disk
	syncing    sync.Mutex
	synced     uint64 // lines
	syncedSize int64
}

// openLines opens or makes the file, for this user alone. A line that a crash left
// without its end is cut off: whoever wrote it was not told that it was written.
func openLines(path string) (*lineFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	l := &lineFile{f: f}
	if err := l.repair(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return l, nil
}

func (l *lineFile) repair() error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file; name one")
	}
	end, err := lastLineEnd(l.f, info.Size())
	if err != nil {
		return err
	}
	l.size, l.syncedSize, l.torn = end, end, info.Size()-end
	if l.torn > 0 {
		return l.f.Truncate(end)
	}
	return nil
}

// lastLineEnd is the offset behind the last line's end in the first size bytes.
func lastLineEnd(r io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := min(end, int64(len(buf)))
		if _, err := r.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// append writes a line, which ends with a newline, whole or not at all.
func (l *lineFile) append(line []byte) (ticket uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, l.broken
	}
	n, err := l.f.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		if n > 0 {
			err = errors.Join(err, l.f.Truncate(l.size))
		}
		return 0, err
	}
	l.size += int64(n)
	l.appended++
	return l.appended, nil
}

// sync makes the line of the ticket durable; those who wait at once share one fsync.
// After a failure the kernel says nothing of what it dropped: the lines since the last
// success are taken out, so that they are written anew, and the file takes no more.
func (l *lineFile) sync(ticket uint64) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.synced >= ticket {
		return nil
	}
	l.mu.Lock()
	upTo, size, err := l.appended, l.size, l.broken
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken = errors.Join(err, l.f.Truncate(l.syncedSize))
		return l.broken
	}
	l.synced, l.syncedSize = upTo, size
	return nil
}

// flush makes every line durable.
func (l *lineFile) flush() error {
	l.mu.Lock()
	upTo := l.appended
	l.mu.Unlock()
	return l.sync(upTo)
}

func (l *lineFile) close() error { return l.f.Close() }

// flushUnlessClosed flushes a file that another may close meanwhile, and by that
// flush. Nil: there is none.
func flushUnlessClosed(l *lineFile) error {
	if l == nil {
		return nil
	}
	if err := l.flush(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// syncFolder makes what was created, renamed or removed in a folder durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// replaceFile puts data in the place of a small file, which is at all times the old
// or the new one.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
