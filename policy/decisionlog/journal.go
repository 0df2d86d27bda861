package decisionlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// File says where decisions are kept as JSON lines.
type File struct {
	Path     string        // required; rotated files stand beside it as Path.000001 and so on
	MaxBytes int64         // rotated before it grows larger; 0: 64 MiB
	MaxAge   time.Duration // rotated when its first line is older; 0: never
	Keep     int           // rotated files kept, the newest; 0: 10
	Sync     bool          // every line is on disk before the call goes on
}

// journal is the file of JSON lines that people read. It may be renamed or removed by
// others at any time (logrotate): the next line begins a new one.
type journal struct {
	o   File
	now func() time.Time
	log *slog.Logger

	mu    sync.Mutex
	l     *lineFile // nil: to be opened
	since time.Time // of its first line
}

func openJournal(o File, now func() time.Time, log *slog.Logger) (*journal, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Keep <= 0 {
		o.Keep = 10
	}
	j := &journal{o: o, now: now, log: log}
	return j, j.open()
}

func (j *journal) open() error {
	if err := os.MkdirAll(filepath.Dir(j.o.Path), 0o700); err != nil {
		return err
	}
	if err := onlyDecisions(j.o.Path); err != nil {
		return err
	}
	l, err := openLines(j.o.Path)
	if err != nil {
		return err
	}
	if l.torn > 0 {
		j.log.Warn("a line of the decision log was cut short by a crash and is written anew", "file", j.o.Path, "bytes", l.torn)
	}
	j.l, j.since = l, firstTime(l.f, j.now())
	if j.o.Sync {
		return syncFolder(filepath.Dir(j.o.Path))
	}
	return nil
}

// lineBegins is how every line begins.
const lineBegins = `{"decision_id":"`

// onlyDecisions refuses a file that begins in another way, which is somebody else's: its
// end could be cut off as a line that a crash left.
func onlyDecisions(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err // what it is, is said when it is opened
	}
	head := make([]byte, len(lineBegins))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if !strings.HasPrefix(lineBegins, string(head[:n])) {
		return fmt.Errorf("%s: holds something else than decisions; name another file, or move this one away", path)
	}
	return nil
}

// firstTime is the timestamp of the first line, otherwise the given one.
func firstTime(r io.ReaderAt, otherwise time.Time) time.Time {
	line, err := bufio.NewReaderSize(io.NewSectionReader(r, 0, 1<<20), 4096).ReadBytes('\n')
	var e struct {
		Timestamp time.Time `json:"timestamp"`
	}
	if err != nil || json.Unmarshal(line, &e) != nil || e.Timestamp.IsZero() {
		return otherwise
	}
	return e.Timestamp
}

func (j *journal) append(line []byte) error {
	l, ticket, err := j.write(line)
	if err == nil && j.o.Sync {
		err = l.sync(ticket)
	}
	if err == nil {
		return nil
	}
	// Whatever is wrong with the file, the next line opens it anew.
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.l == l && l != nil {
		_ = l.close()
		j.l = nil
	}
	return fmt.Errorf("decision log %s: %w", j.o.Path, err)
}

func (j *journal) write(line []byte) (*lineFile, uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.prepare(int64(len(line))); err != nil {
		return j.l, 0, err
	}
	ticket, err := j.l.append(line)
	return j.l, ticket, err
}

// prepare makes j.l the file that takes the next n bytes.
func (j *journal) prepare(n int64) error {
	if j.l != nil && !j.inPlace() {
		j.log.Info("the decision log was moved away, a new one begins", "file", j.o.Path)
		if err := j.finish(); err != nil {
			return err
		}
	}
	if j.l == nil {
		if err := j.open(); err != nil {
			return err
		}
	}
	full := j.l.size > 0 && j.l.size+n > j.o.MaxBytes
	old := j.l.size > 0 && j.o.MaxAge > 0 && j.now().Sub(j.since) >= j.o.MaxAge
	if !full && !old {
		return nil
	}
	if err := j.finish(); err != nil {
		return err
	}
	if err := j.rotate(); err != nil {
		return err
	}
	return j.open()
}

// inPlace reports whether the open file is the one at the path, and nobody has cut it.
func (j *journal) inPlace() bool {
	at, err := os.Lstat(j.o.Path)
	if err != nil {
		return false
	}
	open, err := j.l.f.Stat()
	return err == nil && os.SameFile(at, open) && open.Size() == j.l.size
}

func (j *journal) finish() error {
	l := j.l
	j.l = nil
	var err error
	if j.o.Sync { // who waits for a line of it finds that it is durable
		err = l.flush()
	}
	return errors.Join(err, l.close())
}

func (j *journal) rotate() error {
	old, err := j.rotated()
	if err != nil {
		return err
	}
	next := 1
	if len(old) > 0 {
		next = old[len(old)-1] + 1
	}
	if err := os.Rename(j.o.Path, j.name(next)); err != nil {
		return err
	}
	for _, n := range old[:max(0, len(old)+1-j.o.Keep)] {
		if err := os.Remove(j.name(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.log.Warn("an old decision log cannot be removed", "err", err)
		}
	}
	return nil
}

func (j *journal) name(n int) string { return fmt.Sprintf("%s.%06d", j.o.Path, n) }

// rotated lists the numbers of the files beside it, oldest first.
func (j *journal) rotated() ([]int, error) {
	return numbered(filepath.Dir(j.o.Path), filepath.Base(j.o.Path)+".")
}

func numbered(dir, prefix string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ns []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && len(digits) >= 6 && n > 0 {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, nil
}

// has collects the ids of what was written since a time, and of some of what was
// written before.
func (j *journal) has(since time.Time) (map[string]bool, error) {
	old, err := j.rotated()
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, n := range old {
		info, err := os.Stat(j.name(n))
		if err != nil || info.ModTime().Before(since.Add(-clockSlack)) {
			continue
		}
		if err := collectIDs(j.name(n), ids); err != nil {
			return nil, err
		}
	}
	return ids, collectIDs(j.o.Path, ids)
}

// collectIDs adds the ids of a file's lines; a file that is not there has none.
func collectIDs(path string, ids map[string]bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReaderSize(f, 256<<10)
	for {
		head, err := r.ReadSlice('\n')
		id, ok := lineID(head)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if ok && err == nil {
			ids[id] = true
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lineID reads the id at the beginning of a line. Ids are made of characters that
// JSON does not escape.
func lineID(line []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(lineBegins))
	if !ok {
		return "", false
	}
	id, _, ok := bytes.Cut(rest, []byte{'"'})
	return string(id), ok
}

// flush makes every line durable that was written.
func (j *journal) flush() error {
	j.mu.Lock()
	l := j.l
	j.mu.Unlock()
	if err := flushUnlessClosed(l); err != nil {
		return fmt.Errorf("decision log %s: %w", j.o.Path, err)
	}
	return nil
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.l == nil {
		return nil
	}
	return j.finish()
}
