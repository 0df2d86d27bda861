package badgerstore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"
)

// The format of a backup, and of what Doctor puts aside: a magic text, then chunks
//
//	kind1 length4 crc4 payload
//
// with numbers big-endian and the CRC-32C of kind and payload. The first chunk is the
// head, the last one the end, which has the SHA-256 of all that comes before it.
const (
	streamMagic   = "AWAKENB1"
	streamVersion = 1

	chunkHead   = 'H' // JSON
	chunkRecord = 'R' // length of the key as a varint, key, record
	chunkFile   = 'F' // digest, content
	chunkEnd    = 'E' // JSON

	// maxChunk is above the largest file, and the largest record of format 1.
	maxChunk = maxFileBytes + 1<<20
)

// ErrBadBackup is wrapped by Restore when what it reads is no backup, damaged, or
// cut short.
var ErrBadBackup = errors.New("it is no whole backup")

type streamHead struct {
	Version int       `json:"version"`
	Schema  int       `json:"schema"`
	Kind    string    `json:"kind"`
	Created time.Time `json:"created"`
}

// The kinds of streams.
const (
	backupStream     = "backup"
	quarantineStream = "quarantine"
)

type streamEnd struct {
	Records int    `json:"records"`
	Files   int    `json:"files"`
	SHA256  []byte `json:"sha256"`
}

// streamWriter writes a stream. The first error stays.
type streamWriter struct {
	w   *bufio.Writer
	sum hash.Hash
	end streamEnd
	err error
}

func newStreamWriter(w io.Writer, kind string, at time.Time) *streamWriter {
	s := &streamWriter{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	s.write([]byte(streamMagic))
	s.json(chunkHead, streamHead{Version: streamVersion, Schema: schemaVersion, Kind: kind, Created: at.UTC()})
	return s
}

func (s *streamWriter) write(p []byte) {
	if s.err == nil {
		s.sum.Write(p)
		_, s.err = s.w.Write(p)
	}
}

func (s *streamWriter) chunk(kind byte, parts ...[]byte) {
	n := 0
	crc := crc32.Update(0, castagnoli, []byte{kind})
	for _, p := range parts {
		n += len(p)
		crc = crc32.Update(crc, castagnoli, p)
	}
	if n > maxChunk {
		s.err = errors.Join(s.err, fmt.Errorf("a chunk of %d bytes is too large", n))
		return
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(n))
	s.write(binary.BigEndian.AppendUint32(head, crc))
	for _, p := range parts {
		s.write(p)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *streamWriter) json(kind byte, v any) {
	p, err := json.Marshal(v)
	s.err = errors.Join(s.err, err)
	s.chunk(kind, p)
}

func (s *streamWriter) record(key, rec []byte) {
	s.end.Records++
	s.chunk(chunkRecord, binary.AppendUvarint(nil, uint64(len(key))), key, rec)
}

func (s *streamWriter) file(d digest, content []byte) {
	s.end.Files++
	s.chunk(chunkFile, d[:], content)
}

// close ends the stream; without it the stream is cut short.
func (s *streamWriter) close() error {
	s.end.SHA256 = s.sum.Sum(nil)
	s.json(chunkEnd, s.end)
	if s.err != nil {
		return s.err
	}
	return s.w.Flush()
}

// streamReader gets what a stream has, in its order. Slices are its to keep.
type streamReader struct {
	head   func(streamHead) error
	record func(key, rec []byte) error
	file   func(d digest, content []byte) error
}

// read reads a whole stream. The error wraps ErrBadBackup when it is none, or not
// whole; what comes from the reader or from the functions stays as it is.
func (s streamReader) read(r io.Reader) error {
	in := &summed{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	magic := make([]byte, len(streamMagic))
	if err := in.full(magic); err != nil {
		return err
	}
	if string(magic) != streamMagic {
		return fmt.Errorf("%w: it does not begin with %s", ErrBadBackup, streamMagic)
	}
	var have streamEnd
	for n := 0; ; n++ {
		before := in.sum.Sum(nil)
		kind, p, err := in.chunk()
		if err != nil {
			return err
		}
		if (n == 0) != (kind == chunkHead) {
			return fmt.Errorf("%w: its head is not at the beginning", ErrBadBackup)
		}
		switch kind {
		case chunkHead:
			err = s.readHead(p)
		case chunkRecord:
			have.Records++
			key, rec, cut := cutPart(p)
			if cut != nil || len(key) == 0 {
				return fmt.Errorf("%w: a record has no key", ErrBadBackup)
			}
			err = s.record(key, rec)
		case chunkFile:
			have.Files++
			var d digest
			if copy(d[:], p) < len(d) || sha256.Sum256(p[len(d):]) != d {
				return fmt.Errorf("%w: the content of file %x is damaged", ErrBadBackup, d)
			}
			err = s.file(d, p[len(d):])
		case chunkEnd:
			return in.end(p, have, before)
		default:
			err = fmt.Errorf("%w: it has a chunk of unknown kind %q", ErrBadBackup, kind)
		}
		if err != nil {
			return err
		}
	}
}

func (s streamReader) readHead(p []byte) error {
	var h streamHead
	if err := json.Unmarshal(p, &h); err != nil {
		return fmt.Errorf("%w: its head does not decode: %w", ErrBadBackup, err)
	}
	if h.Version != streamVersion || h.Schema < 1 || h.Schema > schemaVersion {
		return fmt.Errorf("%w: it is of version %d with schema %d, this program reads %d with 1 to %d: use the version of the program that wrote it",
			ErrBadBackup, h.Version, h.Schema, streamVersion, schemaVersion)
	}
	return s.head(h)
}

// summed reads and sums up what it has read.
type summed struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (s *summed) full(p []byte) error {
	_, err := io.ReadFull(s.r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut short", ErrBadBackup)
	}
	s.sum.Write(p)
	return err
}

// chunk reads the next one. It believes a length no further than there are bytes.
func (s *summed) chunk() (kind byte, payload []byte, err error) {
	var head [9]byte
	if err := s.full(head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	n, crc := binary.BigEndian.Uint32(head[1:]), binary.BigEndian.Uint32(head[5:])
	if n > maxChunk {
		return 0, nil, fmt.Errorf("%w: it has a chunk of %d bytes", ErrBadBackup, n)
	}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, s.r, int64(n)); errors.Is(err, io.EOF) {
		return 0, nil, fmt.Errorf("%w: it is cut short", ErrBadBackup)
	} else if err != nil {
		return 0, nil, err
	}
	s.sum.Write(buf.Bytes())
	if have := crc32.Update(crc32.Update(0, castagnoli, head[:1]), castagnoli, buf.Bytes()); have != crc {
		return 0, nil, fmt.Errorf("%w: a chunk of kind %q is damaged", ErrBadBackup, kind)
	}
	return kind, buf.Bytes(), nil
}

func (s *summed) end(p []byte, have streamEnd, sum []byte) error {
	var want streamEnd
	if err := json.Unmarshal(p, &want); err != nil {
		return fmt.Errorf("%w: its end does not decode: %w", ErrBadBackup, err)
	}
	if have.Records != want.Records || have.Files != want.Files || !bytes.Equal(sum, want.SHA256) {
		return fmt.Errorf("%w: it has %d records and %d files, and should have %d and %d, or its checksum is wrong",
			ErrBadBackup, have.Records, have.Files, want.Records, want.Files)
	}
	if _, err := s.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(err, fmt.Errorf("%w: there is more behind its end", ErrBadBackup))
	}
	return nil
}
