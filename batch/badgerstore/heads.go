package badgerstore

// heads remembers the run and batch heads that were written last, which the next
// commit of the run checks itself against. Only the writer uses it, and only what
// is durable gets in.
type heads struct {
	recs map[string][]byte
}

// maxHeads bounds it, at about 2 MiB. A full one is emptied: what is missing is
// read again.
const maxHeads = 4096

func (h *heads) get(key []byte) []byte { return h.recs[string(key)] }

func (h *heads) put(entries []entry) {
	for _, e := range entries {
		if k := e.key[0]; k != kindRun && k != kindBatch {
			continue
		}
		if e.value == nil {
			delete(h.recs, string(e.key))
			continue
		}
		if h.recs == nil || len(h.recs) >= maxHeads {
			h.recs = make(map[string][]byte)
		}
		h.recs[string(e.key)] = e.value
	}
}

// drop forgets everything: after a failed write nobody knows what is stored.
func (h *heads) drop() { h.recs = nil }
