package badgerstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// Every record starts with an envelope of two bytes: the format version and the
// kind of its key. A format is never changed in place; a new one gets a new
// version, and the old one stays readable.
const formatVersion = 1

const remedy = "restore data_dir from a backup"

func seal(kind byte, body []byte) []byte {
	return append([]byte{formatVersion, kind}, body...)
}

// unseal checks the envelope and returns the body.
func unseal(kind byte, rec []byte) ([]byte, error) {
	switch {
	case len(rec) < 2:
		return nil, fmt.Errorf("it has %d bytes", len(rec))
	case rec[0] != formatVersion:
		return nil, fmt.Errorf("its format is %d and this program reads %d: use the version of the program that wrote it", rec[0], formatVersion)
	case rec[1] != kind:
		return nil, fmt.Errorf("it is of kind %q instead of %q", rec[1], kind)
	}
	return rec[2:], nil
}

// tally is the part of a run's record that every commit reads: it comes before
// the JSON so that a commit decodes no JSON. The counts tell a complete listing
// from one that a damaged table cut short.
type tally struct {
	version   uint64
	fence     batch.Fence
	lastSeq   uint64
	decisions uint64
	stateKeys uint64
}

func encodeRun(t tally, runJSON []byte) []byte {
	rec := make([]byte, 0, 2+6*binary.MaxVarintLen64+len(t.fence.Owner)+len(runJSON))
	rec = append(rec, formatVersion, kindRun)
	for _, n := range []uint64{t.version, t.fence.Epoch, t.lastSeq, t.decisions, t.stateKeys, uint64(len(t.fence.Owner))} {
		rec = binary.AppendUvarint(rec, n)
	}
	rec = append(rec, t.fence.Owner...)
	return append(rec, runJSON...)
}

func decodeTally(rec []byte) (t tally, runJSON []byte, err error) {
	body, err := unseal(kindRun, rec)
	if err != nil {
		return t, nil, err
	}
	var owner uint64
	for _, n := range []*uint64{&t.version, &t.fence.Epoch, &t.lastSeq, &t.decisions, &t.stateKeys, &owner} {
		v, w := binary.Uvarint(body)
		if w <= 0 {
			return tally{}, nil, errors.New("its head is cut short")
		}
		*n, body = v, body[w:]
	}
	if owner > uint64(len(body)) {
		return tally{}, nil, errors.New("its owner is cut short")
	}
	t.fence.Owner = string(body[:owner])
	return t, body[owner:], nil
}

// decodeRun returns the run; what the tally says wins over the JSON, where text
// that is not UTF-8 does not survive.
func decodeRun(rec []byte) (*batch.Run, tally, error) {
	t, runJSON, err := decodeTally(rec)
	if err != nil {
		return nil, t, err
	}
	var r batch.Run
	if err := json.Unmarshal(runJSON, &r); err != nil {
		return nil, t, err
	}
	if r.LastSeq != t.lastSeq {
		return nil, t, fmt.Errorf("last_seq is %d in one place and %d in another", r.LastSeq, t.lastSeq)
	}
	r.Version, r.Fence = t.version, t.fence
	return &r, t, nil
}

// batchHead is what changes of a batch. A set bit in moved says that the call
// has a record of its own; without it a lost record would read as a call that
// was never started, and the call would run again.
type batchHead struct {
	phase       batch.BatchPhase
	finalizedAt time.Time
	calls       int
	moved       []byte
}

func newBatchHead(calls int) batchHead {
	return batchHead{calls: calls, moved: make([]byte, (calls+7)/8)}
}

func (h *batchHead) hasMoved(i int) bool { return h.moved[i/8]&(1<<(i%8)) != 0 }

func (h *batchHead) setMoved(i int) { h.moved[i/8] |= 1 << (i % 8) }

func encodeBatchHead(h batchHead) ([]byte, error) {
	at, err := h.finalizedAt.MarshalBinary()
	if err != nil {
		return nil, err
	}
	rec := append([]byte{formatVersion, kindBatch}, byte(len(h.phase)))
	rec = append(rec, h.phase...)
	rec = append(rec, byte(len(at)))
	rec = append(rec, at...)
	rec = binary.AppendUvarint(rec, uint64(h.calls))
	return append(rec, h.moved...), nil
}

func decodeBatchHead(rec []byte) (h batchHead, err error) {
	body, err := unseal(kindBatch, rec)
	if err != nil {
		return h, err
	}
	short := errors.New("it is cut short")
	next := func() ([]byte, bool) {
		if len(body) == 0 || int(body[0]) > len(body)-1 {
			return nil, false
		}
		p := body[1 : 1+int(body[0])]
		body = body[1+int(body[0]):]
		return p, true
	}
	phase, ok := next()
	if !ok {
		return h, short
	}
	at, ok := next()
	if !ok {
		return h, short
	}
	if err := h.finalizedAt.UnmarshalBinary(at); err != nil {
		return h, err
	}
	h.phase = batch.BatchPhase(phase)
	calls, w := binary.Uvarint(body)
	if w <= 0 || calls > batch.MaxCalls {
		return h, errors.New("its number of calls is out of range")
	}
	h.calls, h.moved = int(calls), append([]byte(nil), body[w:]...)
	if len(h.moved) != (h.calls+7)/8 {
		return h, short
	}
	return h, nil
}

// payloadHeader heads what never changes of a batch.
type payloadHeader struct {
	Dialect     string        `json:"dialect,omitempty"`
	Digest      string        `json:"digest,omitempty"`
	Catalog     string        `json:"catalog,omitempty"`
	RequestedAt time.Time     `json:"requested_at"`
	Message     *int          `json:"message"`
	Calls       []payloadCall `json:"calls"`
}

type payloadCall struct {
	ID        batch.CallID `json:"id"`
	Tool      exactString  `json:"tool"`
	Arguments *int         `json:"arguments"`
	Pin       batch.Pin    `json:"pin"`
}

func encodePayload(b *batch.Batch) ([]byte, error) {
	var parts blobs
	h := payloadHeader{
		Dialect: b.Dialect, Digest: b.Digest, Catalog: b.CatalogFingerprint, RequestedAt: b.RequestedAt,
		Message: parts.add(b.Message),
		Calls:   make([]payloadCall, len(b.Calls)),
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		h.Calls[i] = payloadCall{ID: c.Call.ID, Tool: exactString(c.Call.Tool), Arguments: parts.add(c.Call.Arguments), Pin: c.Pin}
	}
	return parts.seal(kindPayload, h)
}

// decodePayload returns the batch as it was requested, without its phase.
func decodePayload(run batch.RunID, step int, rec []byte) (*batch.Batch, error) {
	body, err := unseal(kindPayload, rec)
	if err != nil {
		return nil, err
	}
	var h payloadHeader
	parts, err := openBlobs(body, &h)
	if err != nil {
		return nil, err
	}
	b := &batch.Batch{
		Run: run, Step: step,
		Dialect: h.Dialect, Digest: h.Digest, CatalogFingerprint: h.Catalog, RequestedAt: h.RequestedAt,
		Message: parts.take(h.Message),
		Calls:   make([]batch.CallState, len(h.Calls)),
	}
	for i, c := range h.Calls {
		b.Calls[i] = batch.CallState{
			Call:  batch.Call{Run: run, Step: step, Index: i, ID: c.ID, Tool: batch.ToolID(c.Tool), Arguments: parts.take(c.Arguments)},
			Pin:   c.Pin,
			Phase: batch.PhaseRequested,
		}
	}
	return b, parts.done()
}

// decisionHeader is a decision without its input document, which follows.
type decisionHeader struct {
	batch.DecisionRecord
	InputBytes *int `json:"input_bytes"`
}

func encodeDecision(d *batch.DecisionRecord) ([]byte, error) {
	var parts blobs
	h := decisionHeader{DecisionRecord: *d, InputBytes: parts.add(d.Input)}
	h.Input = nil
	return parts.seal(kindDecision, h)
}

func decodeDecision(rec []byte) (*batch.DecisionRecord, error) {
	body, err := unseal(kindDecision, rec)
	if err != nil {
		return nil, err
	}
	var h decisionHeader
	parts, err := openBlobs(body, &h)
	if err != nil {
		return nil, err
	}
	h.Input = parts.take(h.InputBytes)
	return &h.DecisionRecord, parts.done()
}

func encodeJSON(kind byte, v any) ([]byte, error) {
	p, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return seal(kind, p), nil
}

func decodeJSON[T any](kind byte, rec []byte) (T, error) {
	var v T
	body, err := unseal(kind, rec)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	return v, err
}
