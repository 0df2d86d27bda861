package decisionlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const segmentBytes = 4 << 20

// errBufferFull: the server has not taken events for so long that no more fit.
var errBufferFull = errors.New("the buffer of events that wait for the server is full; see to the server, or raise policy.log.http.buffer_mib")

// position is a place in the spool: a segment and the bytes of it that were sent.
type position struct {
	Segment int   `json:"segment"`
	Offset  int64 `json:"offset"`
}

// spool keeps events on disk until the server has them: numbered segments of lines,
// written at the end of the last one and read from a durable position on. One process
// at a time.
type spool struct {
	dir      string
	maxBytes int64
	durable  bool // a line is on disk before append returns

	mu      sync.Mutex
	last    int       // number of the segment that is written
	l       *lineFile // it; nil: to be opened
	at      position  // of the first event that was not sent
	bytes   int64     // from there on
	waiting int       // lines from there on
	more    chan struct{}
}

func openSpool(dir string, maxBytes int64, durable bool) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &spool{dir: dir, maxBytes: maxBytes, durable: durable, more: make(chan struct{}, 1)}
	segments, err := numbered(dir, segmentPrefix)
	if err != nil {
		return nil, err
	}
	if err := s.locate(segments); err != nil {
		return nil, err
	}
	return s, s.open()
}

const segmentPrefix = "events."

func (s *spool) name(n int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%06d", segmentPrefix, n))
}

func (s *spool) cursor() string { return filepath.Join(s.dir, "sent.json") }

// locate finds the position, and counts what is behind it. Without a position that
// can be used everything there is sent, perhaps once more.
func (s *spool) locate(segments []int) error {
	raw, err := os.ReadFile(s.cursor())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if json.Unmarshal(raw, &s.at) != nil || s.at.Segment < 1 || s.at.Offset < 0 {
		s.at = position{Segment: 1}
	}
	s.last = s.at.Segment
	for _, n := range segments {
		if n < s.at.Segment {
			_ = os.Remove(s.name(n)) // sent, and left there by a crash
			continue
		}
		s.last = n
		var from int64
		if n == s.at.Segment {
			from = s.at.Offset
		}
		bytes, lines, err := count(s.name(n), from)
		if err != nil {
			return err
		}
		s.bytes += bytes
		s.waiting += lines
	}
	return nil
}

func count(path string, from int64) (size int64, lines int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 256<<10)
	r := io.NewSectionReader(f, from, 1<<62)
	for {
		n, err := r.Read(buf)
		size += int64(n)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			return size, lines, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

func (s *spool) open() error {
	l, err := openLines(s.name(s.last))
	if err != nil {
		return err
	}
	s.l = l
	s.bytes -= min(l.torn, s.bytes)
	if s.at.Segment == s.last && s.at.Offset > l.size {
		s.at.Offset, s.bytes, s.waiting = l.size, 0, 0
	}
	if s.durable {
		return syncFolder(s.dir)
	}
	return nil
}

func (s *spool) append(line []byte) error {
	l, ticket, err := s.write(line)
	if err == nil && s.durable {
		err = l.sync(ticket)
	}
	if err != nil {
		if !errors.Is(err, errBufferFull) {
			s.abandon(l)
		}
		return fmt.Errorf("buffer of decisions in %s: %w", s.dir, err)
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

func (s *spool) write(line []byte) (*lineFile, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+int64(len(line)) > s.maxBytes {
		return s.l, 0, errBufferFull
	}
	if s.l != nil && s.l.size >= segmentBytes {
		l := s.l
		s.l = nil
		s.last++
		if err := errors.Join(l.flush(), l.close()); err != nil {
			return nil, 0, err
		}
	}
	if s.l == nil {
		if err := s.open(); err != nil {
			return nil, 0, err
		}
	}
	ticket, err := s.l.append(line)
	if err == nil {
		s.bytes += int64(len(line))
		s.waiting++
	}
	return s.l, ticket, err
}

// abandon lets the next line open the segment anew, and counts again.
func (s *spool) abandon(l *lineFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil || s.l != l {
		return
	}
	_ = l.close()
	s.l, s.bytes, s.waiting = nil, 0, 0
	for n := s.at.Segment; n <= s.last; n++ {
		var from int64
		if n == s.at.Segment {
			from = s.at.Offset
		}
		if size, lines, err := count(s.name(n), from); err == nil {
			s.bytes += size
			s.waiting += lines
		}
	}
}

// next returns the lines that come first, at most so many and so large together, and
// at least one when one waits; and where they end.
func (s *spool) next(maxLines int, maxBytes int64) ([][]byte, position, error) {
	s.mu.Lock()
	at, last := s.at, s.last
	s.mu.Unlock()
	for {
		lines, end, err := readLines(s.name(at.Segment), at.Offset, maxLines, maxBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, at, err
		}
		if len(lines) > 0 || at.Segment >= last {
			return lines, position{at.Segment, max(at.Offset, end)}, nil
		}
		at = position{Segment: at.Segment + 1}
	}
}

func readLines(path string, from int64, maxLines int, maxBytes int64) (lines [][]byte, end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, from, err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, 1<<62), 64<<10)
	end = from
	for len(lines) < maxLines {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, end, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, from, err
		}
		if len(lines) > 0 && end-from+int64(len(line)) > maxBytes {
			return lines, end, nil
		}
		lines = append(lines, line[:len(line)-1])
		end += int64(len(line))
	}
	return lines, end, nil
}

// sent moves the position behind n lines that the server has, and removes segments of
// which nothing is left.
func (s *spool) sent(to position, n int) error {
	raw, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := replaceFile(s.cursor(), raw); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for seg := s.at.Segment; seg < to.Segment; seg++ {
		if info, err := os.Stat(s.name(seg)); err == nil {
			var from int64
			if seg == s.at.Segment {
				from = s.at.Offset
			}
			s.bytes -= info.Size() - from
		}
		_ = os.Remove(s.name(seg))
	}
	from := int64(0)
	if to.Segment == s.at.Segment {
		from = s.at.Offset
	}
	s.bytes = max(0, s.bytes-(to.Offset-from))
	s.waiting = max(0, s.waiting-n)
	s.at = to
	return nil
}

func (s *spool) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// has collects the ids of what waits and, as far as it is still there, of what was
// sent.
func (s *spool) has(time.Time) (map[string]bool, error) {
	s.mu.Lock()
	first, last := s.at.Segment, s.last
	s.mu.Unlock()
	ids := map[string]bool{}
	for n := first; n <= last; n++ {
		if err := collectIDs(s.name(n), ids); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (s *spool) flush() error {
	s.mu.Lock()
	l := s.l
	s.mu.Unlock()
	return flushUnlessClosed(l)
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.l == nil {
		return nil
	}
	l := s.l
	s.l = nil
	return errors.Join(l.flush(), l.close())
}
