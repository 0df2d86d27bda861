package badgerstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
)

// entry is one record to write; a nil value deletes the key.
type entry struct {
	key, value []byte
}

// stateEntry is an entry with its file, if it has one.
type stateEntry struct {
	entry
	big *content
}

// change is a commit, encoded as far as that needs no look at the store. It is
// built on the caller's goroutine, so that the single writer only checks and
// writes.
type change struct {
	run      batch.RunID
	expect   uint64
	fence    batch.Fence
	lastSeq  uint64
	events   int
	head     *batch.Run   // read while the caller waits, never kept
	batch    *batch.Batch // as well
	newBatch bool
	changed  []int
	tickets  []*batch.Ticket

	records   []entry  // written as they are
	decisions [][]byte // keys among records that must be new
	state     []stateEntry
	files     []*content // must be stored first
	left      []digest   // set by plan: files that may have lost their last user
}

func prepare(c *batch.Commit) (*change, error) {
	if c == nil || c.Run == nil {
		return nil, fmt.Errorf("commit without a run: %w", batch.ErrInvalid)
	}
	if err := c.Run.ID.Validate(); err != nil {
		return nil, err
	}
	ch := &change{
		run: c.Run.ID, expect: c.Expect, fence: c.Run.Fence, lastSeq: c.Run.LastSeq, events: len(c.Events),
		head: c.Run, batch: c.Batch, newBatch: c.NewBatch, changed: c.Changed, tickets: c.Tickets,
		records: make([]entry, 0, 2+len(c.Changed)+len(c.Decisions)+3*len(c.Tickets)),
	}
	for _, encode := range []func(*batch.Commit) error{ch.encodeBatch, ch.encodeEvents, ch.encodeDecisions, ch.encodeTickets, ch.encodeState} {
		if err := encode(c); err != nil {
			return nil, fmt.Errorf("run %s: %w", c.Run.ID, err)
		}
	}
	return ch, nil
}

func (ch *change) add(key, value []byte) { ch.records = append(ch.records, entry{key, value}) }

// addEncoded also says where the record's file is.
func (ch *change) addEncoded(key []byte, v encoded) {
	ch.add(key, v.rec)
	ch.addFile(key, v.big)
}

func (ch *change) addFile(key []byte, c *content) {
	if c == nil {
		return
	}
	ch.files = append(ch.files, c)
	ch.add(userKey(c.digest, key), encodeIndex(kindUser))
	ch.add(fileKey(ch.run, key), encodeFile(c.digest))
}

func invalid(format string, a ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, a...), batch.ErrInvalid)
}

func (ch *change) encodeBatch(c *batch.Commit) error {
	b := c.Batch
	if b == nil {
		if c.NewBatch || len(c.Changed) > 0 {
			return invalid("calls changed without a batch")
		}
		return nil
	}
	if b.Run != c.Run.ID {
		return invalid("batch %s belongs to another run", b.ID())
	}
	// A batch that would not load again must not be written.
	if err := validateChanged(c); err != nil {
		return err
	}
	changed := c.Changed
	if c.NewBatch {
		rec, err := encodePayload(b)
		if err != nil {
			return invalid("batch %s cannot be encoded: %v", b.ID(), err)
		}
		ch.addEncoded(stepKey(kindPayload, b.Run, b.Step), rec)
		changed = nil
		for i := range b.Calls {
			if b.Calls[i].Phase != batch.PhaseRequested {
				changed = append(changed, i)
			}
		}
		ch.changed = changed
	}
	for _, i := range changed {
		rec, err := encodeCall(&b.Calls[i])
		if err != nil {
			return invalid("operation %s cannot be encoded: %v", b.Calls[i].Call.Operation(), err)
		}
		ch.addEncoded(callKey(b.Run, b.Step, i), rec)
	}
	return nil
}

// validateChanged validates the batch as it shall stand. Outputs that were
// validated when they were committed are left out: a batch of a thousand calls
// would pay for all of them with every transition.
func validateChanged(c *batch.Commit) error {
	b := c.Batch
	if c.NewBatch {
		return b.Validate()
	}
	for _, i := range c.Changed {
		if i < 0 || i >= len(b.Calls) {
			return invalid("batch %s has no call %d", b.ID(), i)
		}
	}
	light := *b
	light.Calls = slices.Clone(b.Calls)
	bare := make([]batch.Output, len(b.Calls))
	for i := range light.Calls {
		if out := light.Calls[i].Output; out != nil {
			bare[i].CallID = out.CallID
			light.Calls[i].Output = &bare[i]
		}
	}
	for _, i := range c.Changed {
		light.Calls[i].Output = b.Calls[i].Output
	}
	return light.Validate()
}

func (ch *change) encodeEvents(c *batch.Commit) error {
	if len(c.Events) == 0 {
		return nil
	}
	for i := 1; i < len(c.Events); i++ {
		if c.Events[i].Seq != c.Events[0].Seq+uint64(i) {
			return invalid("event %d follows %d", c.Events[i].Seq, c.Events[i-1].Seq)
		}
	}
	if last := c.Events[len(c.Events)-1].Seq; last != c.Run.LastSeq {
		return invalid("last_seq is %d, the last event is %d", c.Run.LastSeq, last)
	}
	rec, err := encodeEvents(c.Events)
	if err != nil {
		return invalid("events cannot be encoded: %v", err)
	}
	ch.addEncoded(eventsKey(ch.run, c.Run.LastSeq), rec)
	return nil
}

func (ch *change) encodeDecisions(c *batch.Commit) error {
	for n, d := range c.Decisions {
		step, index, err := splitOperation(ch.run, d.Operation)
		if err != nil || d.Seq < 1 || d.Seq > maxShort {
			return invalid("decision %d on operation %q is not one of this run", d.Seq, string(d.Operation))
		}
		for _, other := range c.Decisions[:n] {
			if other.Operation == d.Operation && other.Seq == d.Seq {
				return fmt.Errorf("decision %d on operation %s is there twice: %w", d.Seq, d.Operation, batch.ErrConflict)
			}
		}
		rec, err := encodeDecision(d)
		if err != nil {
			return invalid("decision %d on operation %s cannot be encoded: %v", d.Seq, d.Operation, err)
		}
		k := decisionKey(ch.run, step, index, d.Seq)
		ch.decisions = append(ch.decisions, k)
		ch.addEncoded(k, rec)
	}
	return nil
}

// splitOperation returns step and index of an operation of run.
func splitOperation(run batch.RunID, op batch.OperationID) (step, index int, err error) {
	i := strings.LastIndexByte(string(op), '/')
	if i < 0 {
		return 0, 0, batch.ErrBadID
	}
	of, step, err := batch.ParseBatchID(batch.BatchID(op[:i]))
	if err != nil {
		return 0, 0, err
	}
	index, err = strconv.Atoi(string(op[i+1:]))
	if err != nil || of != run || index < 0 || index > maxShort || batch.NewOperationID(run, step, index) != op {
		return 0, 0, batch.ErrBadID
	}
	return step, index, nil
}

func (ch *change) encodeTickets(c *batch.Commit) error {
	for i, t := range c.Tickets {
		if err := t.ID.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Tickets[i+1:], func(later *batch.Ticket) bool { return later.ID == t.ID }) {
			continue // put again
		}
		if t.Run != c.Run.ID {
			return invalid("ticket %s belongs to run %s", t.ID, t.Run)
		}
		rec, err := encodeJSON(kindTicket, t)
		if err != nil {
			return invalid("ticket %s cannot be encoded: %v", t.ID, err)
		}
		ch.addEncoded(ticketKey(t.ID), rec)
		ch.add(runTicketKey(t.Run, t.ID), encodeIndex(kindRunTicket))
		var index []byte
		if t.Status == batch.TicketOpen {
			index = encodeIndex(kindOpenTicket)
		}
		ch.add(openTicketKey(t.ID), index)
	}
	return nil
}

// encodeState keeps the last write of each key: a transaction holds one value a
// key.
func (ch *change) encodeState(c *batch.Commit) error {
	at := make(map[string]int, len(c.State))
	for _, w := range c.State {
		if w.Key == "" || len(w.Key) > maxStateKeyBytes {
			return invalid("state key is %d bytes, 1 to %d are allowed", len(w.Key), maxStateKeyBytes)
		}
		e := stateEntry{entry: entry{key: stateKey(ch.run, w.Key)}}
		if w.Value != nil {
			v, err := encodeValue(kindState, w.Value)
			if err != nil {
				return invalid("state key %q cannot be encoded: %v", w.Key, err)
			}
			e.value, e.big = v.rec, v.big
		}
		if i, again := at[w.Key]; again {
			ch.state[i] = e
			continue
		}
		at[w.Key] = len(ch.state)
		ch.state = append(ch.state, e)
	}
	for _, e := range ch.state {
		ch.addFile(e.key, e.big)
	}
	return nil
}

// maxStateKeyBytes keeps keys far below what Badger accepts.
const maxStateKeyBytes = 4096
