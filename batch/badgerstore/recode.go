package badgerstore

import (
	"fmt"

	"github.com/awaken-agents/awaken-host/batch"
)

// recode writes a record of any kind again in the format of today; it also serves
// to see whether the record decodes. It is in one piece.
func recode(k, rec []byte) (encoded, error) {
	switch k[0] {
	case kindPayload:
		run, step, err := cutStep(k)
		if err != nil {
			return encoded{}, err
		}
		b, err := decodePayload(run, step, rec)
		if err != nil {
			return encoded{}, err
		}
		return encodePayload(b)
	case kindCall:
		var c batch.CallState
		if err := decodeCall(&c, rec); err != nil {
			return encoded{}, err
		}
		return encodeCall(&c)
	case kindDecision:
		d, err := decodeDecision(rec)
		if err != nil {
			return encoded{}, err
		}
		return encodeDecision(d)
	case kindEvents:
		e, err := decodeEvents(rec)
		if err != nil {
			return encoded{}, err
		}
		return encodeEvents(e)
	case kindState:
		v, err := decodeValue(kindState, rec)
		if err != nil {
			return encoded{}, err
		}
		return encodeValue(kindState, v)
	case kindTicket:
		t, err := decodeJSON[*batch.Ticket](kindTicket, rec)
		if err != nil {
			return encoded{}, err
		}
		return encodeJSON(kindTicket, t)
	case kindRun:
		r, t, err := decodeRun(rec)
		if err != nil {
			return encoded{}, err
		}
		again, err := encodeRun(t, r)
		return encoded{rec: again}, err
	}
	return encoded{}, fmt.Errorf("records of kind %q are never large", k[0])
}

// runOf returns the run that a record belongs to.
func runOf(k, rec []byte) (batch.RunID, error) {
	if k[0] == kindTicket {
		t, err := decodeJSON[*batch.Ticket](kindTicket, rec)
		if err != nil || t == nil {
			return "", fmt.Errorf("it is of no run: %w", err)
		}
		return t.Run, nil
	}
	name, _, err := cutName(k)
	return batch.RunID(name), err
}
