package sandbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/awaken-agents/awaken-host/batch"
)

// Ledger is what a Hand knows of the operations that it was given: a file of records
// that are only ever added, in the state folder of an Environment. A record is
// authenticated with the Environment's key, so that commands, which may be able to
// write the folder, cannot forge one.
//
// The Hand writes it. The host opens the same folder to read it, when the Hand is
// gone. One process writes at a time: the first Begin or Finish takes the file.
//
// Its methods are safe for concurrent use.
type Ledger struct {
	dir string
	key []byte

	mu      sync.Mutex
	file    *os.File // nil: there is none yet
	writes  bool     // this process has it for writing
	end     int64    // of what was read and is good
	next    uint64   // number of the record that comes next
	index   map[batch.OperationID]entry
	order   []batch.OperationID // by their first record
	damaged error
}

// entry is where the newest record of an operation stands.
type entry struct {
	at, n   int64
	attempt int
	done    bool
}

// LedgerFile is the name of the ledger within StateDir.
const LedgerFile = "ledger"

// Bounds of a ledger. It is written anew, without the oldest operations that are
// done, when it is larger than maxLedgerBytes.
const (
	maxLedgerBytes  = 64 << 20
	maxRecordBytes  = 48 << 20 // an output of the largest size, as JSON
	ledgerHead      = 8
	ledgerTag       = sha256.Size
	maxLedgerRecord = 1 << 14 // operations
)

// ErrLedgerDamaged is the class of a ledger with records that do not verify. What is
// not found in such a ledger may have been in it.
var ErrLedgerDamaged = errors.New("the operation ledger is damaged")

// ErrLedgerTaken is the class of a ledger that another process writes.
var ErrLedgerTaken = errors.New("another process writes the operation ledger")

// OpenLedger reads the ledger of a state folder, which exists. A ledger that is not
// there is an empty one. It is an error only when the folder cannot be read; see
// Lookup for a damaged ledger. key has 32 bytes and is copied. The caller closes it.
func OpenLedger(dir string, key []byte) (*Ledger, error) {
	if len(key) != sha256.Size {
		return nil, fmt.Errorf("the key of the operation ledger in %s has %d bytes, and must have %d", dir, len(key), sha256.Size)
	}
	info, err := os.Stat(dir) //nolint:gosec // the state folder is for the caller to name
	if err == nil && !info.IsDir() {
		err = errors.New("it is no folder")
	}
	if err != nil {
		return nil, fmt.Errorf("operation ledger in %s: %w", dir, err)
	}
	l := &Ledger{dir: dir, key: append([]byte(nil), key...)}
	l.forget()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Ledger) forget() {
	l.index, l.order, l.end, l.next, l.damaged = map[batch.OperationID]entry{}, nil, 0, 0, nil
}

func (l *Ledger) path() string { return filepath.Join(l.dir, LedgerFile) }

// Begin records that an attempt of an operation is about to run. The record outlives
// this process, and the machine after Sync.
func (l *Ledger) Begin(op batch.OperationID, attempt int) error {
	return l.add(LedgerRecord{Operation: op, Attempt: attempt})
}

// Finish records how an attempt ended: rec.Output, or rec.Failed and rec.Message.
func (l *Ledger) Finish(rec LedgerRecord) error {
	rec.Done = true
	return l.add(rec)
}

// Sync puts on disk what was recorded.
func (l *Ledger) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writes {
		return nil
	}
	if err := syncData(l.file); err != nil {
		// What the disk has now is not known, so what follows cannot be either.
		l.writes = false
		return fmt.Errorf("operation ledger: %w", err)
	}
	return nil
}

// Lookup returns the newest record of an operation, one with attempt 0 where there
// is none. The error is of class ErrLedgerDamaged when there is none in what can be
// read and not everything can be read: the operation may have begun.
func (l *Ledger) Lookup(op batch.OperationID) (LedgerRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return LedgerRecord{Operation: op}, err
	}
	e, known := l.index[op]
	if !known {
		return LedgerRecord{Operation: op}, l.damaged
	}
	payload := make([]byte, e.n)
	if _, err := l.file.ReadAt(payload, e.at); err != nil {
		return LedgerRecord{Operation: op}, l.damage("the record of operation %s cannot be read: %v", op, err)
	}
	if rec, out, _, ok := l.open(payload); ok && rec.Operation == op {
		if out == nil {
			return rec, nil
		}
		output, err := DecodeOutput(out)
		if err == nil {
			rec.Output = output
			return rec, nil
		}
	}
	return LedgerRecord{Operation: op}, l.damage("the record of operation %s was changed", op)
}

// Damage is of class ErrLedgerDamaged when there are records that do not verify, and
// nil otherwise.
func (l *Ledger) Damage() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damaged
}

// Close ends the use of the ledger.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.writes = nil, false
	return err
}

func (l *Ledger) damage(format string, a ...any) error {
	l.damaged = fmt.Errorf("%s: %w: %s", l.path(), ErrLedgerDamaged, fmt.Sprintf(format, a...))
	return l.damaged
}

// refresh reads what was added since it was last read; nobody else adds to what this
// process writes.
func (l *Ledger) refresh() error {
	if l.writes {
		return nil
	}
	if l.file != nil && !l.current() {
		_ = l.file.Close()
		l.file = nil
		l.forget()
	}
	if l.file == nil {
		f, err := openPlain(l.path(), os.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("operation ledger: %w", err)
		}
		l.file = f
	}
	return l.scan()
}

// current reports whether the open file is the one that is there by name: a ledger
// that was written anew is another file.
func (l *Ledger) current() bool {
	mine, err1 := l.file.Stat()
	named, err2 := os.Lstat(l.path()) //nolint:gosec // the state folder is for the caller to name
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}

// openPlain opens a regular file, not through a link: whoever can write the folder
// could have made one.
func openPlain(path string, flag int) (*os.File, error) {
	info, err := os.Lstat(path) //nolint:gosec // the state folder is for the caller to name
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if err != nil && (!errors.Is(err, os.ErrNotExist) || flag&os.O_CREATE == 0) {
		return nil, err
	}
	return os.OpenFile(path, flag, 0o600) //nolint:gosec // the state folder is for the caller to name
}

// scan reads on from l.end. What follows the last good record is unwritten space
// (zeros), or the beginning of a record that a kill cut off, or damage.
func (l *Ledger) scan() error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("operation ledger: %w", err)
	}
	size := info.Size()
	if size < l.end {
		_ = l.damage("it is shorter than what was read of it")
		return nil
	}
	var head [ledgerHead]byte
	for {
		n, err := l.file.ReadAt(head[:], l.end)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("operation ledger: %w", err)
		}
		if n < ledgerHead || head == [ledgerHead]byte{} {
			if n > 0 && head != [ledgerHead]byte{} {
				_ = l.damage("it ends in the middle of a record, at byte %d", l.end)
			}
			return nil
		}
		length := int64(binary.BigEndian.Uint64(head[:])) //nolint:gosec // a negative one is refused below
		if length <= ledgerTag || length > maxRecordBytes+ledgerTag+8 || length > size-l.end-ledgerHead {
			_ = l.damage("there is no record at byte %d", l.end)
			return nil
		}
		payload := make([]byte, length)
		if _, err := l.file.ReadAt(payload, l.end+ledgerHead); err != nil {
			return fmt.Errorf("operation ledger: %w", err)
		}
		rec, _, number, ok := l.open(payload)
		switch first := l.end == 0; {
		case !ok:
			_ = l.damage("the record at byte %d does not verify", l.end)
		case first != (rec.Operation == ""):
			_ = l.damage("its beginning is not where it should be")
		case !first && number != l.next:
			_ = l.damage("the record at byte %d is not the one that comes there", l.end)
		case first && rec.Failed != "":
			_ = l.damage("some of it could not be read when it was last written anew")
		}
		if ok && (l.end == 0 || number >= l.next) {
			l.next = number + 1
			l.note(rec, l.end+ledgerHead, length)
		}
		l.end += ledgerHead + length
	}
}

func (l *Ledger) note(rec LedgerRecord, at, n int64) {
	if rec.Operation == "" {
		return
	}
	if _, known := l.index[rec.Operation]; !known {
		l.order = append(l.order, rec.Operation)
	}
	l.index[rec.Operation] = entry{at: at, n: n, attempt: rec.Attempt, done: rec.Done}
}

// ledgerJSON is a LedgerRecord whose output stays as EncodeOutput wrote it.
type ledgerJSON struct {
	Operation batch.OperationID   `json:"operation"`
	Attempt   int                 `json:"attempt"`
	Done      bool                `json:"done,omitempty"`
	Failed    batch.ToolErrorKind `json:"failed,omitempty"`
	Message   string              `json:"message,omitempty"`
	HasOutput bool                `json:"has_output,omitempty"` // it follows, after a zero byte
}

// seal is a record as it is written: its length, its number, its JSON, its tag.
func (l *Ledger) seal(rec LedgerRecord, number uint64) ([]byte, error) {
	meta, err := json.Marshal(ledgerJSON{rec.Operation, rec.Attempt, rec.Done, rec.Failed, rec.Message, rec.Output != nil})
	if err != nil {
		return nil, err
	}
	if rec.Output != nil {
		out, err := EncodeOutput(rec.Output)
		if err != nil {
			return nil, err
		}
		meta = append(append(meta, 0), out...)
	}
	if len(meta) > maxRecordBytes {
		return nil, fmt.Errorf("the record has %d bytes, at most %d are kept", len(meta), maxRecordBytes)
	}
	b := make([]byte, 0, ledgerHead+8+len(meta)+ledgerTag)
	b = binary.BigEndian.AppendUint64(b, uint64(8+len(meta)+ledgerTag))
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, meta...)
	return l.tag(b, b[ledgerHead:]), nil
}

// tag appends to b the authentication of what is sealed.
func (l *Ledger) tag(b, sealed []byte) []byte {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte("awaken ledger 1\n"))
	mac.Write(sealed)
	return mac.Sum(b)
}

// open is the other way round, from the number on. The output stays JSON, nil where
// there is none.
func (l *Ledger) open(payload []byte) (rec LedgerRecord, out []byte, number uint64, ok bool) {
	if len(payload) < 8+ledgerTag {
		return rec, nil, 0, false
	}
	sealed, tag := payload[:len(payload)-ledgerTag], payload[len(payload)-ledgerTag:]
	if !hmac.Equal(l.tag(nil, sealed), tag) {
		return rec, nil, 0, false
	}
	meta, out, has := bytes.Cut(sealed[8:], []byte{0})
	var j ledgerJSON
	if json.Unmarshal(meta, &j) != nil || j.HasOutput != has {
		return rec, nil, 0, false
	}
	rec = LedgerRecord{Operation: j.Operation, Attempt: j.Attempt, Done: j.Done, Failed: j.Failed, Message: j.Message}
	return rec, out, binary.BigEndian.Uint64(sealed), true
}

// EncodeLedgerRecord writes rec as JSON for the channel, its output as EncodeOutput
// does.
func EncodeLedgerRecord(rec LedgerRecord) ([]byte, error) {
	out, err := EncodeOutput(rec.Output)
	if err != nil {
		return nil, err
	}
	rec.Output = nil
	b, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	return append(append(b[:len(b)-1], `,"output":`...), append(out, '}')...), nil
}
