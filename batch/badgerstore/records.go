package badgerstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Every record starts with an envelope of two bytes: the format version and the
// kind of its key. A format is never changed in place; a new one gets a new
// version, and the old one stays readable.
//
// Format 2 added the parent, depth and cancellation of a run, who is behind an
// event and the output it found, who executes a call, the detail of a decision's
// reason, and a third byte to the envelope: the shape. Format 3 added why an output
// is of a weaker sandbox tier.
const (
	formatVersion = 3
	oldestFormat  = 1
)

const remedy = "restore data_dir from a backup"

// encodeIndex is the record of an index key, which says all by itself.
func encodeIndex(kind byte) []byte { return []byte{formatVersion, kind} }

// encodeJSON and decodeJSON serve records that are written rarely.
func encodeJSON(kind byte, v any) (encoded, error) {
	p, err := json.Marshal(v)
	if err != nil {
		return encoded{}, err
	}
	return encodeValue(kind, p)
}

func decodeJSON[T any](kind byte, rec []byte) (v T, err error) {
	p, err := decodeValue(kind, rec)
	if err != nil {
		return v, err
	}
	err = json.Unmarshal(p, &v)
	return v, err
}

// encodeValue keeps a value as it is.
func encodeValue(kind byte, value []byte) (encoded, error) {
	e := newRecord(kind, min(len(value), heavyBytes)+8)
	e.bytes(value)
	return e.seal()
}

func decodeValue(kind byte, rec []byte) ([]byte, error) {
	d := openRecord(kind, rec)
	if d.format == 1 { // which had nothing but the value
		return append([]byte{}, d.p...), d.err
	}
	p := d.bytes()
	return p, d.done()
}

// tally is the part of a run's record that every commit reads; it comes first.
// The counts tell a complete listing from one that a damaged table cut short.
type tally struct {
	version   uint64
	fence     batch.Fence
	lastSeq   uint64
	decisions uint64
	stateKeys uint64
}

func (t *tally) encode(e *encoder) {
	for _, n := range [...]uint64{t.version, t.fence.Epoch, t.lastSeq, t.decisions, t.stateKeys} {
		e.uint(n)
	}
	putString(e, t.fence.Owner)
}

func (t *tally) decode(d *decoder) {
	for _, n := range [...]*uint64{&t.version, &t.fence.Epoch, &t.lastSeq, &t.decisions, &t.stateKeys} {
		*n = d.uint()
	}
	t.fence.Owner = getString[string](d)
}

// decodeTally decodes no more of the run than that.
func decodeTally(rec []byte) (t tally, err error) {
	d := openRecord(kindRun, rec)
	t.decode(d)
	return t, d.err
}

// encodeRun takes version, fence and event number from t.
func encodeRun(t tally, r *batch.Run) ([]byte, error) {
	e := newRecord(kindRun, 256)
	t.encode(e)
	putString(e, r.ID)
	putString(e, r.Principal)
	putString(e, r.Agent)
	putMap(e, r.Labels, func(v string) { putString(e, v) })
	e.time(r.CreatedAt)
	e.time(r.UpdatedAt)
	e.int(r.LastStep)
	e.int(r.OpenStep)
	putMap(e, r.Counts, e.int)
	putString(e, r.Parent)
	e.int(r.Depth)
	e.bool(r.Cancelled != nil)
	if c := r.Cancelled; c != nil {
		putString(e, c.By)
		e.time(c.At)
		putString(e, c.Reason)
	}
	return e.record()
}

func decodeRun(rec []byte) (*batch.Run, tally, error) {
	var t tally
	d := openRecord(kindRun, rec)
	t.decode(d)
	r := &batch.Run{
		Version: t.version, Fence: t.fence, LastSeq: t.lastSeq,
		ID: getString[batch.RunID](d), Principal: getString[string](d), Agent: getString[string](d),
		Labels:    getMap[string](d, func() string { return getString[string](d) }),
		CreatedAt: d.time(), UpdatedAt: d.time(),
		LastStep: d.int(), OpenStep: d.int(),
		Counts: getMap[batch.ToolID](d, d.int),
	}
	if d.format < 2 {
		return r, t, d.done()
	}
	r.Parent, r.Depth = getString[batch.OperationID](d), d.int()
	if d.bool() {
		r.Cancelled = &batch.Cancellation{By: getString[string](d), At: d.time(), Reason: getString[string](d)}
	}
	return r, t, d.done()
}

// putMap encodes in key order, so that equal runs have equal records.
func putMap[K ~string, V any](e *encoder, m map[K]V, value func(V)) {
	e.list(m == nil, len(m))
	if len(m) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		putString(e, k)
		value(m[k])
	}
}

func getMap[K ~string, V any](d *decoder, value func() V) map[K]V {
	n, ok := d.list()
	if !ok {
		return nil
	}
	m := make(map[K]V, min(n, 16))
	for range n {
		k := getString[K](d)
		if m[k] = value(); d.err != nil {
			return nil
		}
	}
	if len(m) != n {
		d.fail(fmt.Errorf("a key is there twice"))
	}
	return m
}

// batchHead is what changes of a batch. A set bit in moved says that the call
// has a record of its own; without it a lost record would read as a call that
// was never started, and the call would run again.
type batchHead struct {
	phase       batch.BatchPhase
	finalizedAt time.Time
	calls       int
	moved       []byte
	large       []byte // a bit a call whose record has a file; nil: none
}

func newBatchHead(calls int) batchHead {
	return batchHead{calls: calls, moved: make([]byte, (calls+7)/8)}
}

// encodeFile is the record that names a file.
func encodeFile(d digest) []byte {
	return append([]byte{formatVersion, kindFile, shapeLight}, d[:]...)
}

func decodeFile(rec []byte) (d digest, err error) {
	r := openRecord(kindFile, rec)
	copy(d[:], r.raw(uint64(len(d))))
	return d, r.done()
}

func (h *batchHead) hasMoved(i int) bool { return h.moved[i/8]&(1<<(i%8)) != 0 }

func (h *batchHead) setMoved(i int) { h.moved[i/8] |= 1 << (i % 8) }

func (h *batchHead) isLarge(i int) bool { return h.large != nil && h.large[i/8]&(1<<(i%8)) != 0 }

func (h *batchHead) setLarge(i int, large bool) {
	switch {
	case large && h.large == nil:
		h.large = make([]byte, len(h.moved))
		fallthrough
	case large:
		h.large[i/8] |= 1 << (i % 8)
	case h.large != nil:
		h.large[i/8] &^= 1 << (i % 8)
	}
}

func encodeBatchHead(h batchHead) ([]byte, error) {
	e := newRecord(kindBatch, 32+len(h.moved))
	putString(e, h.phase)
	e.time(h.finalizedAt)
	e.int(h.calls)
	e.bytes(h.moved)
	e.bytes(h.large)
	return e.record()
}

func decodeBatchHead(rec []byte) (batchHead, error) {
	d := openRecord(kindBatch, rec)
	h := batchHead{phase: getString[batch.BatchPhase](d), finalizedAt: d.time(), calls: d.int(), moved: d.bytes()}
	if h.calls < 1 || h.calls > batch.MaxCalls || len(h.moved) != (h.calls+7)/8 {
		d.fail(fmt.Errorf("it has %d bytes of marks for %d calls", len(h.moved), h.calls))
	}
	if d.format >= 2 {
		if h.large = d.bytes(); h.large != nil && len(h.large) != len(h.moved) {
			d.fail(fmt.Errorf("it has %d bytes of marks of large records for %d calls", len(h.large), h.calls))
		}
	}
	return h, d.done()
}

func encodeEvents(events []batch.Event) (encoded, error) {
	e := newRecord(kindEvents, 96*len(events))
	e.list(false, len(events))
	for _, ev := range events {
		e.uint(ev.Seq)
		e.time(ev.Time)
		putString(e, ev.Kind)
		e.int(ev.Step)
		e.int(ev.Index)
		e.int(ev.Attempt)
		putString(e, ev.Ticket)
		putString(e, ev.Note)
		putString(e, ev.By)
		e.bool(ev.Output != nil)
		if ev.Output != nil {
			putOutput(e, ev.Output)
		}
	}
	return e.seal()
}

func decodeEvents(rec []byte) ([]batch.Event, error) {
	d := openRecord(kindEvents, rec)
	n, _ := d.list()
	events := make([]batch.Event, 0, min(n, 64))
	for range n {
		ev := batch.Event{
			Seq: d.uint(), Time: d.time(), Kind: getString[batch.EventKind](d), Step: d.int(), Index: d.int(),
			Attempt: d.int(), Ticket: getString[batch.TicketID](d), Note: getString[string](d),
		}
		if d.format >= 2 {
			if ev.By = getString[string](d); d.bool() {
				ev.Output = getOutput(d)
			}
		}
		events = append(events, ev)
		if d.err != nil {
			break
		}
	}
	return events, d.done()
}
