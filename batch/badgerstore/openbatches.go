package badgerstore

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/awaken-agents/awaken-host/batch"
)

// openBatches is the index of open batches in memory, by key. Badger would walk over
// all batches that were finalized since its tables were merged last. Safe for
// concurrent use.
type openBatches struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// load reads the index when the store opens.
func (o *openBatches) load(ctx context.Context, v *view) error {
	o.keys = map[string]struct{}{}
	return v.scan(ctx, []byte{kindOpenBatch}, nil, false, func(k, _ []byte) (bool, error) {
		o.keys[string(k)] = struct{}{}
		return true, nil
	})
}

// put follows what was written and is durable.
func (o *openBatches) put(entries []entry) {
	for _, e := range entries {
		if e.key[0] != kindOpenBatch {
			continue
		}
		o.mu.Lock()
		if e.value == nil {
			delete(o.keys, string(e.key))
		} else {
			o.keys[string(e.key)] = struct{}{}
		}
		o.mu.Unlock()
	}
}

// list is in byte order of run, then by step.
func (o *openBatches) list() (out []batch.BatchID, err error) {
	o.mu.Lock()
	keys := make([]string, 0, len(o.keys))
	for k := range o.keys {
		keys = append(keys, k)
	}
	o.mu.Unlock()
	slices.SortFunc(keys, strings.Compare)
	for _, k := range keys {
		run, step, err := cutStep([]byte(k))
		if err != nil {
			return nil, damaged([]byte(k), err)
		}
		out = append(out, batch.NewBatchID(run, step))
	}
	return out, nil
}
