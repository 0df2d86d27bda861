package badgerstore

import (
	"encoding/binary"
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
)

// The key schema. A key is one kind byte, then fields. Names end with a zero
// byte, which is below every character of a name: so run "a" is no prefix of run
// "a.b", and key order is byte order of names. Numbers are big-endian, so key
// order is numeric order.
//
//	M "schema"                          the schema version
//	r run 0                             head of a run
//	b run 0 step8                       head of a batch: phase, which calls moved
//	p run 0 step8                       what never changes of a batch: message, calls, arguments, pins
//	c run 0 step8 index4                phase and output of a call; absent while it is requested
//	d run 0 step8 index4 seq4           a gate decision
//	e run 0 lastseq8                    the events of one commit, under the last one's number
//	s run 0 key                         a published state value
//	t ticket 0                          a ticket
//	o run 0 step8                       index: batches that are not finalized
//	u run 0 ticket 0                    index: tickets of a run
//	w ticket 0                          index: open tickets
//	x sha256 key                        index: the records that leave a part to a file, by file
//	y run 0 key                         the file of each such record
//	z run 0                             index: deleted runs of which something is left
//
// Kept free for what comes later:
//
//	l run 0 step8 attempt4 chunk4       partials of a model step, dropped when the step is committed
//
// A batch is split in three so that a transition of one call writes a few hundred
// bytes: arguments and message (p) are written once, and of a batch with a
// thousand calls only the head (b, a bit per call) and one c record change.
//
// Events of a commit share a record; it is found by seeking the first key that
// is not below the wanted number.
const (
	kindSchema      = 'M'
	kindRun         = 'r'
	kindBatch       = 'b'
	kindPayload     = 'p'
	kindCall        = 'c'
	kindDecision    = 'd'
	kindEvents      = 'e'
	kindState       = 's'
	kindTicket      = 't'
	kindOpenBatch   = 'o'
	kindRunTicket   = 'u'
	kindOpenTicket  = 'w'
	kindUser        = 'x'
	kindFile        = 'y'
	kindDying       = 'z'
	numberBytes     = 8
	shortBytes      = 4
	nameEnd         = 0
	schemaVersion   = 2
	maxShort        = 1<<31 - 1
	keyOverheadEach = 24 // room for kind, name end and numbers
)

var schemaKey = []byte("Mschema")

// key builds a key of a kind that starts with a name.
func key(kind byte, name string) []byte {
	k := make([]byte, 0, len(name)+keyOverheadEach)
	k = append(k, kind)
	k = append(k, name...)
	return append(k, nameEnd)
}

func runKey(run batch.RunID) []byte { return key(kindRun, string(run)) }

func stepKey(kind byte, run batch.RunID, step int) []byte {
	return binary.BigEndian.AppendUint64(key(kind, string(run)), uint64(step))
}

func callKey(run batch.RunID, step, index int) []byte {
	return binary.BigEndian.AppendUint32(stepKey(kindCall, run, step), uint32(index))
}

func decisionKey(run batch.RunID, step, index, seq int) []byte {
	k := binary.BigEndian.AppendUint32(stepKey(kindDecision, run, step), uint32(index))
	return binary.BigEndian.AppendUint32(k, uint32(seq))
}

func eventsKey(run batch.RunID, lastSeq uint64) []byte {
	return binary.BigEndian.AppendUint64(key(kindEvents, string(run)), lastSeq)
}

func stateKey(run batch.RunID, name string) []byte {
	return append(key(kindState, string(run)), name...)
}

func ticketKey(id batch.TicketID) []byte { return key(kindTicket, string(id)) }

func dyingKey(run batch.RunID) []byte { return key(kindDying, string(run)) }

// userKey says that the record of a key has a part in a file; without a key it is
// what all users of the file begin with.
func userKey(d digest, key []byte) []byte {
	k := make([]byte, 0, 1+len(d)+len(key))
	return append(append(append(k, kindUser), d[:]...), key...)
}

// fileKey belongs to the run.
func fileKey(run batch.RunID, recordKey []byte) []byte {
	return append(key(kindFile, string(run)), recordKey...)
}

func openTicketKey(id batch.TicketID) []byte { return key(kindOpenTicket, string(id)) }

func runTicketKey(run batch.RunID, id batch.TicketID) []byte {
	return append(append(key(kindRunTicket, string(run)), id...), nameEnd)
}

// cutName splits a key after its kind into its first name and the rest.
func cutName(k []byte) (name string, rest []byte, err error) {
	for i := 1; i < len(k); i++ {
		if k[i] == nameEnd {
			return string(k[1:i]), k[i+1:], nil
		}
	}
	return "", nil, fmt.Errorf("key %q has no name", k)
}

// ticketOf returns the ticket that a ticket key or a key of the ticket indexes names.
func ticketOf(k []byte) (batch.TicketID, error) {
	name, rest, err := cutName(k)
	if err != nil || k[0] != kindRunTicket {
		return batch.TicketID(name), err
	}
	if len(rest) < 2 || rest[len(rest)-1] != nameEnd {
		return "", fmt.Errorf("key %q has no ticket", k)
	}
	return batch.TicketID(rest[:len(rest)-1]), nil
}

// cutStep returns run and step of an open batch key.
func cutStep(k []byte) (batch.RunID, int, error) {
	name, rest, err := cutName(k)
	if err != nil {
		return "", 0, err
	}
	if len(rest) != numberBytes {
		return "", 0, fmt.Errorf("key %q has no step", k)
	}
	return batch.RunID(name), int(binary.BigEndian.Uint64(rest)), nil
}

// cutIndex returns the index at the end of a call key.
func cutIndex(k []byte) (int, error) {
	_, rest, err := cutName(k)
	if err != nil {
		return 0, err
	}
	if len(rest) != numberBytes+shortBytes {
		return 0, fmt.Errorf("key %q has no index", k)
	}
	return int(binary.BigEndian.Uint32(rest[numberBytes:])), nil
}
