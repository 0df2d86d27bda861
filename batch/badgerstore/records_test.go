package badgerstore

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// decoders decode a record of each kind and encode again what they got.
var decoders = map[byte]func(rec []byte) ([]byte, error){
	kindRun: func(rec []byte) ([]byte, error) {
		r, t, err := decodeRun(rec)
		if err != nil {
			return nil, err
		}
		return encodeRun(t, r)
	},
	kindBatch: func(rec []byte) ([]byte, error) {
		h, err := decodeBatchHead(rec)
		if err != nil {
			return nil, err
		}
		return encodeBatchHead(h)
	},
	kindPayload: func(rec []byte) ([]byte, error) {
		b, err := decodePayload("r", 1, rec)
		if err != nil {
			return nil, err
		}
		return inOnePiece(encodePayload(b))
	},
	kindCall: func(rec []byte) ([]byte, error) {
		var c batch.CallState
		if err := decodeCall(&c, rec); err != nil {
			return nil, err
		}
		return inOnePiece(encodeCall(&c))
	},
	kindDecision: func(rec []byte) ([]byte, error) {
		d, err := decodeDecision(rec)
		if err != nil {
			return nil, err
		}
		return inOnePiece(encodeDecision(d))
	},
	kindEvents: func(rec []byte) ([]byte, error) {
		e, err := decodeEvents(rec)
		if err != nil {
			return nil, err
		}
		return inOnePiece(encodeEvents(e))
	},
	kindState: func(rec []byte) ([]byte, error) {
		v, err := decodeValue(kindState, rec)
		if err != nil {
			return nil, err
		}
		return inOnePiece(encodeValue(kindState, v))
	},
	kindTicket: func(rec []byte) ([]byte, error) {
		t, err := decodeJSON[*batch.Ticket](kindTicket, rec)
		if err != nil || t == nil {
			return nil, errors.New("no ticket")
		}
		return inOnePiece(encodeJSON(kindTicket, t))
	},
	kindFile: func(rec []byte) ([]byte, error) {
		d, err := decodeFile(rec)
		return encodeFile(d), err
	},
}

// inOnePiece puts back what a large record leaves to a file.
func inOnePiece(v encoded, err error) ([]byte, error) {
	if err != nil || v.big == nil {
		return v.rec, err
	}
	d, size, ok, err := elsewhere(v.rec)
	if err != nil || !ok || d != v.big.digest || size != v.big.size {
		return nil, fmt.Errorf("record %x does not name its file: %v", v.rec, err)
	}
	return join(v.rec, size, func(p []byte) error {
		if n := copy(p[copy(p, v.big.parts[0]):], v.big.parts[1]); n != len(v.big.parts[1]) {
			return errShort
		}
		return nil
	})
}

var recordTime = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

// samples has a record of each kind with every field set that the format has.
func samples(t testing.TB, format int) map[byte][]byte {
	t.Helper()
	var (
		parent    batch.OperationID
		depth     int
		cancelled *batch.Cancellation
		by        string
		found     *batch.Output
		client    bool
		detail    string
		fallback  string
	)
	if format >= 2 {
		parent, depth, by, client, detail = "r/1/0", 2, "ann", true, "d\xff"
		cancelled = &batch.Cancellation{By: "ann", At: recordTime, Reason: "enough"}
		found = &batch.Output{CallID: "c1", Content: []batch.ContentBlock{batch.TextBlock("found")}}
	}
	if format >= 3 {
		fallback = "no docker\xff"
	}
	grant := &batch.Grant{Hosts: []string{"api.example.com:443"}, Paths: map[string]string{"/w": "ro", "/v": "rw"}, Commands: []string{}, MemoryMiB: 8, Timeout: time.Second}
	out := map[byte][]byte{}
	put := func(kind byte, rec []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = rec
	}
	putEncoded := func(kind byte, v encoded, err error) {
		t.Helper()
		if v.big != nil {
			t.Fatalf("the sample of kind %q is large", kind)
		}
		put(kind, v.rec, err)
	}
	rec, err := encodeRun(tally{version: 7, fence: batch.Fence{Owner: "host-1", Epoch: 3}, lastSeq: 300, decisions: 4, stateKeys: 2}, &batch.Run{
		ID: "run-1", Principal: "ann", Agent: "agent", Labels: map[string]string{"b": "2", "a": "\xff"}, CreatedAt: recordTime,
		UpdatedAt: recordTime.In(time.FixedZone("", 3600)), LastStep: 5, OpenStep: 5, Counts: map[batch.ToolID]int{"t": 9},
		Parent: parent, Depth: depth, Cancelled: cancelled,
	})
	put(kindRun, rec, err)
	h := newBatchHead(11)
	h.phase, h.finalizedAt = batch.BatchFinalized, recordTime
	h.setMoved(0)
	h.setMoved(10)
	if format >= 2 {
		h.setLarge(10, true)
	}
	rec, err = encodeBatchHead(h)
	put(kindBatch, rec, err)
	big, err := encodePayload(&batch.Batch{
		Run: "r", Step: 1, Digest: "sha256:1", Dialect: "own", Message: []byte("{ }\xff"), CatalogFingerprint: "f", RequestedAt: recordTime,
		Calls: []batch.CallState{
			{Call: batch.Call{ID: "c1", Tool: "t\xff", Arguments: []byte("{  }")}, Pin: batch.Pin{
				ToolDigest: "d", Plugin: "p", Target: batch.TargetSandbox, Capability: batch.Idempotent, Policy: "idempotent", MaxAttempts: 3, PolicyRevision: "r", Client: client}},
			{Call: batch.Call{ID: "c2"}, Pin: batch.Pin{Delegate: client}},
		},
	})
	putEncoded(kindPayload, big, err)
	big, err = encodeCall(&batch.CallState{
		Phase: batch.PhaseCompleted, Attempt: 2, Ticket: "t1", Grant: grant, Answer: batch.AnswerTool, Reason: "r\xff", StartedAt: recordTime, EndedAt: recordTime,
		Output: &batch.Output{CallID: "c1", IsError: true, Tier: "namespace", Fallback: fallback, Content: []batch.ContentBlock{
			batch.TextBlock("text"), batch.JSONBlock([]byte("{ }")), {Type: batch.BlockImage, Data: []byte{1}, MimeType: "image/png"}, {Type: batch.BlockResource, URI: "u"},
		}, State: []batch.Command{{Op: batch.OpSet, Key: "k", Value: []byte("1")}, {Op: batch.OpDelete, Key: "k"}}},
	})
	putEncoded(kindCall, big, err)
	big, err = encodeDecision(&batch.DecisionRecord{
		Operation: "r/1/0", Seq: 2, Time: recordTime, Principal: "ann", Agent: "a", Tool: "t", ToolDigest: "d", ArgumentDigest: "e", PolicyRevision: "v",
		Outcome: batch.OutcomeAllow, Reasons: []batch.Reason{{Code: "c", Message: "m", Detail: detail}}, Grant: grant,
		Approval: &batch.Approval{Kind: batch.TicketPermission, Ticket: "t1", By: []string{"bob"}, At: recordTime, Requested: recordTime},
		Elapsed:  1234, Input: json.RawMessage(`{ "a" : 1 }`),
	})
	putEncoded(kindDecision, big, err)
	big, err = encodeEvents([]batch.Event{
		{Seq: 300, Time: recordTime, Kind: batch.EventCallAwaiting, Step: 5, Index: -1, Attempt: 1, Ticket: "t1", Note: "n", By: by, Output: found}, {Seq: 301},
	})
	putEncoded(kindEvents, big, err)
	big, err = encodeValue(kindState, json.RawMessage(`[ 1 ]`))
	putEncoded(kindState, big, err)
	big, err = encodeJSON(kindTicket, &batch.Ticket{ID: "t1", Kind: batch.TicketPermission, Status: batch.TicketOpen, Run: "r", CreatedAt: recordTime})
	putEncoded(kindTicket, big, err)
	if format >= 2 {
		put(kindFile, encodeFile(digest{1, 2, 255}), nil)
	}
	return out
}

// golden are the samples by format. A change here means that stored records of
// the format no longer mean what they meant: give the new format a new version
// and keep reading this one.
var golden = map[int]map[byte]string{1: golden1, 2: golden2, 3: golden3}

var golden1 = map[byte]string{
	kindDecision: "016405722f312f30040f010000000ee139b4bf0000037affff03616e6e0161017401640165017605616c6c6f77020163016d0102136170692e657861" +
		"6d706c652e636f6d3a34343303022f76027277022f7702726f011080a8d6b907010a7065726d697373696f6e0274310203626f620f010000000ee139" +
		"b4bf0000037affff0f010000000ee139b4bf0000037affffa4130c7b20226122203a2031207d",
	kindEvents: "016503ac020f010000000ee139b4bf0000037affff0d63616c6c5f6177616974696e670a0102027431016ead020f01000000000000000000000000ff" +
		"ff000000000000",
	kindState: "01735b2031205d",
	kindTicket: "01747b226964223a227431222c226b696e64223a227065726d697373696f6e222c22737461747573223a226f70656e222c2272756e223a2272222c22" +
		"73746570223a302c22696e646578223a302c2263616c6c5f6964223a22222c22746f6f6c223a22222c22746f6f6c5f646967657374223a22222c2261" +
		"7267756d656e745f646967657374223a22222c22706f6c6963795f7265766973696f6e223a22222c22637265617465645f6174223a22323032362d30" +
		"332d30345430353a30363a30372e30303030303038395a227d",
	kindRun: "01720703ac02040206686f73742d310572756e2d3103616e6e056167656e7403016101ff016201320f010000000ee139b4bf0000037affff0f010000" +
		"000ee139b4bf0000037a003c0a0a02017412",
	kindBatch: "01620966696e616c697a65640f010000000ee139b4bf0000037affff16030104",
	kindPayload: "0170036f776e087368613235363a3101660f010000000ee139b4bf0000037affff057b207dff030263310274ff057b20207d016401700773616e6462" +
		"6f780a6964656d706f74656e740a6964656d706f74656e74060172026332000000000000000000",
	kindCall: "016309636f6d706c65746564040274310102136170692e6578616d706c652e636f6d3a34343303022f76027277022f7702726f011080a8d6b9070474" +
		"6f6f6c0272ff0f010000000ee139b4bf0000037affff0f010000000ee139b4bf0000037affff0102633101096e616d65737061636505047465787404" +
		"7465787400000000046a736f6e00000000047b207d05696d61676500020109696d6167652f706e670000087265736f75726365000000017500030373" +
		"6574016b02310664656c657465016b00",
}

var golden2 = map[byte]string{
	kindRun: "0272000703ac02040206686f73742d310572756e2d3103616e6e056167656e7403016101ff016201320f010000000ee139b4bf0000037affff0f0100" +
		"00000ee139b4bf0000037a003c0a0a0201741205722f312f30040103616e6e0f010000000ee139b4bf0000037affff06656e6f756768",
	kindBatch: "0262000966696e616c697a65640f010000000ee139b4bf0000037affff16030104030004",
	kindPayload: "027000036f776e087368613235363a3101660f010000000ee139b4bf0000037affff057b207dff030263310274ff057b20207d016401700773616e64" +
		"626f780a6964656d706f74656e740a6964656d706f74656e7406017201000263320000000000000000000001",
	kindCall: "02630009636f6d706c65746564040274310102136170692e6578616d706c652e636f6d3a34343303022f76027277022f7702726f011080a8d6b90704" +
		"746f6f6c0272ff0f010000000ee139b4bf0000037affff0f010000000ee139b4bf0000037affff0102633101096e616d657370616365050474657874" +
		"047465787400000000046a736f6e00000000047b207d05696d61676500020109696d6167652f706e670000087265736f757263650000000175000303" +
		"736574016b02310664656c657465016b00",
	kindDecision: "02640005722f312f30040f010000000ee139b4bf0000037affff03616e6e0161017401640165017605616c6c6f77020163016d0264ff010213617069" +
		"2e6578616d706c652e636f6d3a34343303022f76027277022f7702726f011080a8d6b907010a7065726d697373696f6e0274310203626f620f010000" +
		"000ee139b4bf0000037affff0f010000000ee139b4bf0000037affffa4130c7b20226122203a2031207d",
	kindEvents: "02650003ac020f010000000ee139b4bf0000037affff0d63616c6c5f6177616974696e670a0102027431016e03616e6e010263310000020474657874" +
		"05666f756e640000000000ad020f01000000000000000000000000ffff0000000000000000",
	kindState: "027300065b2031205d",
	kindTicket: "027400cc017b226964223a227431222c226b696e64223a227065726d697373696f6e222c22737461747573223a226f70656e222c2272756e223a2272" +
		"222c2273746570223a302c22696e646578223a302c2263616c6c5f6964223a22222c22746f6f6c223a22222c22746f6f6c5f646967657374223a2222" +
		"2c22617267756d656e745f646967657374223a22222c22706f6c6963795f7265766973696f6e223a22222c22637265617465645f6174223a22323032" +
		"362d30332d30345430353a30363a30372e30303030303038395a227d",
	kindFile: "0279000102ff0000000000000000000000000000000000000000000000000000000000",
}

var golden3 = map[byte]string{
	kindRun: "0372000703ac02040206686f73742d310572756e2d3103616e6e056167656e7403016101ff016201320f010000000ee139b4bf0000037affff0f0100" +
		"00000ee139b4bf0000037a003c0a0a0201741205722f312f30040103616e6e0f010000000ee139b4bf0000037affff06656e6f756768",
	kindBatch: "0362000966696e616c697a65640f010000000ee139b4bf0000037affff16030104030004",
	kindPayload: "037000036f776e087368613235363a3101660f010000000ee139b4bf0000037affff057b207dff030263310274ff057b20207d016401700773616e64" +
		"626f780a6964656d706f74656e740a6964656d706f74656e7406017201000263320000000000000000000001",
	kindCall: "03630009636f6d706c65746564040274310102136170692e6578616d706c652e636f6d3a34343303022f76027277022f7702726f011080a8d6b90704" +
		"746f6f6c0272ff0f010000000ee139b4bf0000037affff0f010000000ee139b4bf0000037affff0102633101096e616d6573706163650a6e6f20646f" +
		"636b6572ff050474657874047465787400000000046a736f6e00000000047b207d05696d61676500020109696d6167652f706e670000087265736f75" +
		"7263650000000175000303736574016b02310664656c657465016b00",
	kindDecision: "03640005722f312f30040f010000000ee139b4bf0000037affff03616e6e0161017401640165017605616c6c6f77020163016d0264ff010213617069" +
		"2e6578616d706c652e636f6d3a34343303022f76027277022f7702726f011080a8d6b907010a7065726d697373696f6e0274310203626f620f010000" +
		"000ee139b4bf0000037affff0f010000000ee139b4bf0000037affffa4130c7b20226122203a2031207d",
	kindEvents: "03650003ac020f010000000ee139b4bf0000037affff0d63616c6c5f6177616974696e670a0102027431016e03616e6e010263310000000204746578" +
		"7405666f756e640000000000ad020f01000000000000000000000000ffff0000000000000000",
	kindState: "037300065b2031205d",
	kindTicket: "037400cc017b226964223a227431222c226b696e64223a227065726d697373696f6e222c22737461747573223a226f70656e222c2272756e223a2272" +
		"222c2273746570223a302c22696e646578223a302c2263616c6c5f6964223a22222c22746f6f6c223a22222c22746f6f6c5f646967657374223a2222" +
		"2c22617267756d656e745f646967657374223a22222c22706f6c6963795f7265766973696f6e223a22222c22637265617465645f6174223a22323032" +
		"362d30332d30345430353a30363a30372e30303030303038395a227d",
	kindFile: "0379000102ff0000000000000000000000000000000000000000000000000000000000",
}

func mustHex(t testing.TB, text string) []byte {
	t.Helper()
	p, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRecordFormat(t *testing.T) {
	for kind, rec := range samples(t, formatVersion) {
		if got := hex.EncodeToString(rec); got != golden[formatVersion][kind] {
			t.Errorf("format %d of kind %q has changed:\n got %q: %q,\nwant %q", formatVersion, kind, kind, got, golden[formatVersion][kind])
		}
	}
}

// TestStoredFormats reads what each format left: it means what it meant, and is
// written again in the format of today.
func TestStoredFormats(t *testing.T) {
	for format, records := range golden {
		for kind, want := range samples(t, format) {
			stored := mustHex(t, records[kind])
			if len(stored) == 0 || stored[0] != byte(format) {
				t.Fatalf("there is no record of kind %q in format %d", kind, format)
			}
			got, err := decoders[kind](stored)
			if err != nil {
				t.Errorf("kind %q in format %d: %v", kind, format, err)
			} else if !bytes.Equal(got, want) {
				t.Errorf("kind %q in format %d comes back changed:\n got %x\nwant %x", kind, format, got, want)
			}
		}
	}
}

// TestRecordsCutShort cuts every sample at every byte and appends to it.
func TestRecordsCutShort(t *testing.T) {
	for kind, rec := range samples(t, formatVersion) {
		for n := range rec {
			if _, err := decoders[kind](rec[:n]); err == nil {
				t.Errorf("kind %q cut at %d of %d decodes", kind, n, len(rec))
			}
		}
		if _, err := decoders[kind](append(bytes.Clone(rec), 'x')); err == nil {
			t.Errorf("kind %q with a byte more decodes", kind)
		}
	}
}

// TestRecordAllocation decodes records that claim to be huge.
func TestRecordAllocation(t *testing.T) {
	huge := strings.Repeat("\xff", 9) + "\x01"
	for kind, decode := range decoders {
		for n := range 40 {
			rec := append([]byte{formatVersion, kind, shapeLight}, make([]byte, n)...)
			rec = append(rec, huge...)
			allocated := testing.AllocsPerRun(1, func() { _, _ = decode(rec) })
			if allocated > 1000 {
				t.Errorf("kind %q with a length of 2^63 at %d makes %v allocations", kind, n, allocated)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	id, step, err := cutStep(stepKey(kindOpenBatch, "a.b", 77))
	if err != nil || id != "a.b" || step != 77 {
		t.Error(id, step, err)
	}
	index, err := cutIndex(callKey("a", 3, 1023))
	if err != nil || index != 1023 {
		t.Error(index, err)
	}
	for _, k := range [][]byte{ticketKey("t.1"), openTicketKey("t.1"), runTicketKey("run", "t.1")} {
		if id, err := ticketOf(k); err != nil || id != "t.1" {
			t.Errorf("%q: %q, %v", k, id, err)
		}
	}
	// Order of keys is order of what they name.
	ordered := [][]byte{
		runKey("A"), runKey("a"), runKey("a-"), runKey("a.b"), runKey("a0"), runKey("ab"), runKey("b"),
	}
	for i := 1; i < len(ordered); i++ {
		if bytes.Compare(ordered[i-1], ordered[i]) >= 0 {
			t.Errorf("%q is not below %q", ordered[i-1], ordered[i])
		}
	}
	if bytes.Compare(callKey("a", 2, 9), callKey("a", 10, 1)) >= 0 || bytes.Compare(decisionKey("a", 1, 2, 300), decisionKey("a", 1, 10, 1)) >= 0 {
		t.Error("numbers are not ordered as numbers")
	}
	if bytes.HasPrefix(stepKey(kindCall, "a.b", 1), key(kindCall, "a")) {
		t.Error("run a is a prefix of run a.b")
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(stepKey(kindOpenBatch, "a", 1))
	f.Add(runTicketKey("a", "t"))
	f.Add([]byte{kindRunTicket, 0})
	f.Fuzz(func(t *testing.T, k []byte) {
		if len(k) == 0 {
			return
		}
		if id, step, err := cutStep(k); err == nil && !bytes.Equal(stepKey(k[0], id, step), k) {
			t.Errorf("step key %q comes back changed", k)
		}
		if id, err := ticketOf(k); err == nil && k[0] == kindTicket && len(id)+2 == len(k) && !bytes.Equal(ticketKey(id), k) {
			t.Errorf("ticket key %q comes back changed", k)
		}
		_, _ = cutIndex(k)
	})
}

// FuzzRecords decodes arbitrary bytes as a record of any kind: no panic, and what
// decodes comes back the same when it is encoded and decoded again.
func FuzzRecords(f *testing.F) {
	for format, records := range golden {
		for kind := range samples(f, format) {
			f.Add(mustHex(f, records[kind]))
		}
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		if len(rec) < 2 || decoders[rec[1]] == nil {
			return
		}
		decode := decoders[rec[1]]
		first, err := decode(rec)
		if err != nil {
			return
		}
		second, err := decode(first)
		if err != nil {
			t.Fatalf("%x decodes, what it is encoded to does not: %v", rec, err)
		}
		if !bytes.Equal(first, second) {
			t.Fatalf("%x changes: %x, then %x", rec, first, second)
		}
	})
}

// FuzzCallRoundTrip encodes calls with arbitrary bytes in every field.
func FuzzCallRoundTrip(f *testing.F) {
	f.Add("completed", 1, "t", "reason", "text", []byte("{ }"), []byte(nil), "k", true)
	f.Add("", -5, "\x00", "\xff\xfe", "", []byte{}, []byte("\xff"), "", false)
	f.Fuzz(func(t *testing.T, phase string, attempt int, ticket, reason, text string, raw, data []byte, key string, isError bool) {
		c := batch.CallState{
			Phase: batch.Phase(phase), Attempt: attempt, Ticket: batch.TicketID(ticket), Reason: reason, EndedAt: recordTime,
			Grant: &batch.Grant{Hosts: []string{text, key}, Paths: map[string]string{key: text}, Timeout: time.Duration(attempt)},
			Output: &batch.Output{CallID: batch.CallID(key), IsError: isError, Tier: ticket, Fallback: reason,
				Content: []batch.ContentBlock{{Type: "text", Text: text, Data: data, JSON: raw, URI: reason}},
				State:   []batch.Command{{Op: batch.Op(phase), Key: key, Value: raw}}},
		}
		rec, err := inOnePiece(encodeCall(&c))
		if err != nil {
			t.Fatal(err)
		}
		var got batch.CallState
		if err := decodeCall(&got, rec); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, c) {
			t.Fatalf("got %+v, want %+v", got, c)
		}
	})
}
