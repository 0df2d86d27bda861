package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// quarantineFolder has what Doctor puts aside, a stream a time.
const quarantineFolder = "quarantine"

// doctorName is who cancels a run that is put aside.
const doctorName = "doctor"

// quarantine writes damaged runs and stray records to a file, durably, before
// anything is taken out of the store.
func (x *examination) quarantine(ctx context.Context) (err error) {
	if len(x.damaged) == 0 && len(x.strays) == 0 {
		return nil
	}
	folder := filepath.Join(x.s.dir, quarantineFolder)
	if err := makeFolder(folder); err != nil {
		return err
	}
	now := time.Now()
	f, err := os.OpenFile(filepath.Join(folder, now.UTC().Format("20060102T150405.000000000Z")), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := newStreamWriter(f, quarantineStream, now)
	for _, st := range x.strays {
		out.record(st.key, st.rec)
	}
	for _, id := range slices.Sorted(maps.Keys(x.damaged)) {
		if err = x.writeRun(ctx, out, id); err != nil {
			break
		}
	}
	if err := errors.Join(err, out.close(), f.Sync(), f.Close(), syncFolder(folder)); err != nil {
		return err
	}
	x.aside = f.Name()
	x.r.Quarantine = append(x.r.Quarantine, f.Name())
	return nil
}

// writeRun writes what there is of a run.
func (x *examination) writeRun(ctx context.Context, out *streamWriter, id batch.RunID) error {
	written := map[digest]bool{}
	put := func(k, rec []byte) error {
		out.record(k, rec)
		d, size, ok, err := elsewhere(rec)
		if err != nil || !ok || written[d] {
			return nil
		}
		written[d] = true
		path := x.s.files.path(d)
		p := make([]byte, size)
		if x.s.files.read(d, p) == nil {
			out.file(d, p)
			return out.err
		}
		// A damaged one is put beside the stream.
		err = os.Link(path, filepath.Join(x.s.dir, quarantineFolder, filepath.Base(path)))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return err
	}
	for _, kind := range append([]byte{kindRunTicket, kindFile}, ownKinds...) {
		err := x.v.scanRaw(ctx, key(kind, string(id)), func(k, rec []byte) (bool, error) {
			if kind == kindRunTicket {
				if ticket, err := ticketOf(k); err == nil {
					if rec, err := x.v.raw(ticketKey(ticket)); err == nil && rec != nil {
						if err := put(ticketKey(ticket), rec); err != nil {
							return false, err
						}
					}
				}
			}
			return true, put(k, rec)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// apply takes what was put aside out of the store, and repairs.
func (x *examination) apply(ctx context.Context) error {
	var todo certain
	flush := func() error {
		err := x.s.writer.submit(ctx, todo, x.s.writeGroup)
		todo = nil
		return err
	}
	put := func(entries ...entry) error {
		if x.s.limits.admit(x.s.limits.measure(append(slices.Clone(todo), entries...))) != nil || len(todo) > 1000 {
			if err := flush(); err != nil {
				return err
			}
		}
		todo = append(todo, entries...)
		return nil
	}
	for _, f := range x.fixes {
		if _, hurt := x.damaged[x.r.Problems[f.problem].Run]; hurt {
			continue
		}
		if err := put(f.entries...); err != nil {
			return err
		}
		x.r.Problems[f.problem].Done = Repaired
	}
	for _, st := range x.strays {
		if err := put(entry{key: st.key}); err != nil {
			return err
		}
		x.r.Problems[st.problem].Done = Quarantined
	}
	if err := flush(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(x.damaged)) {
		if err := x.seal(ctx, id); err != nil {
			return err
		}
	}
	for i := range x.r.Problems {
		if p := &x.r.Problems[i]; p.Done == "" && p.Run != "" {
			if _, hurt := x.damaged[p.Run]; hurt {
				p.Done = Quarantined
			}
		}
	}
	return nil
}

// seal replaces a damaged run by one of the same name that is cancelled: it must not
// be possible to begin it again. A kill in between leaves a run that is damaged
// still.
func (x *examination) seal(ctx context.Context, id batch.RunID) error {
	sealed := &batch.Run{ID: id, Version: 1}
	_ = x.s.viewOnce("", func(v *view) error { // what does not decode is not kept
		if r, _, err := v.run(id); err == nil {
			sealed = r
		}
		return nil
	})
	now := time.Now().UTC()
	sealed.Version++
	sealed.OpenStep, sealed.LastSeq, sealed.UpdatedAt = 0, 1, now
	if sealed.Cancelled == nil {
		sealed.Cancelled = &batch.Cancellation{By: doctorName, At: now, Reason: "damaged and put aside: " + x.damaged[id]}
	}
	events, err := encodeEvents([]batch.Event{{
		Seq: 1, Time: now, Kind: batch.EventRunCancelled, Index: -1, By: doctorName, Note: fmt.Sprintf("put aside in %s: %s", x.aside, x.damaged[id]),
	}})
	if err != nil {
		return err
	}
	head, err := encodeRun(tally{version: sealed.Version, fence: sealed.Fence, lastSeq: 1}, sealed)
	if err != nil {
		return err
	}
	// The head last, and never without one: the name must not be free.
	b, err := x.rest(ctx, id)
	for err == nil && b.more {
		err = x.s.writer.submit(ctx, certain(b.entries), x.s.writeGroup)
		if err == nil {
			x.s.files.removeUnused(b.files)
			b, err = x.rest(ctx, id)
		}
	}
	if err != nil {
		return err
	}
	last := append(certain(b.entries), entry{runKey(id), head}, entry{eventsKey(id, 1), events.rec})
	if err := x.s.writer.submit(ctx, last, x.s.writeGroup); err != nil {
		return err
	}
	x.s.files.removeUnused(b.files)
	return nil
}

// rest is what a run has besides its head, as far as one transaction takes it.
func (x *examination) rest(ctx context.Context, id batch.RunID) (b belongings, err error) {
	most := x.s.limits
	most.entries -= 2
	most.bytes -= largeBytes
	err = x.s.view("run "+string(id), func(v *view) error {
		b, err = v.belongings(ctx, id, most)
		return err
	})
	b.entries = slices.DeleteFunc(b.entries, func(e entry) bool { return e.key[0] == kindRun })
	return b, err
}
