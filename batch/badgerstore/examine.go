package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/batch"
)

// examination is one look at all records of an open store.
type examination struct {
	s      *Store
	r      *Report
	repair bool

	v       *view
	damaged map[batch.RunID]string // what is wrong with a run, first finding
	alive   map[batch.RunID]bool
	fixes   []fix
	strays  []stray
	aside   string              // the file that has what was put aside
	named   map[digest]struct{} // files that records name
}

// fix is a repair that loses nothing, and its place among the problems.
type fix struct {
	problem int
	entries []entry
}

// stray is a record that belongs to no run.
type stray struct {
	problem int
	key     []byte
	rec     []byte
}

const (
	meansRun   = "the run cannot be read or continued as a whole: restore the store from a backup, or let repair put the run aside"
	meansIndex = "a listing leaves something out, or stops; repair writes the index again"
	meansStray = "it belongs to no run and nothing shows it; repair puts it aside"
	meansFile  = "it takes room and nothing refers to it; repair removes it"
)

// run looks at everything as of one moment, and repairs afterwards.
func (x *examination) run(ctx context.Context) error {
	x.damaged, x.alive, x.named = map[batch.RunID]string{}, map[batch.RunID]bool{}, map[digest]struct{}{}
	x.r.Runs, x.r.Records, x.r.Files = 0, 0, 0
	err := x.s.viewOnce("doctor", func(v *view) error {
		x.v = v
		for _, look := range []func(context.Context) error{x.records, x.runs, x.indexes, x.files} {
			if err := look(ctx); err != nil {
				return err
			}
		}
		if x.repair {
			return x.quarantine(ctx)
		}
		return nil
	})
	if err != nil || !x.repair {
		return err
	}
	return x.apply(ctx)
}

// hurt says that a record damages its run.
func (x *examination) hurt(run batch.RunID, where, format string, a ...any) {
	what := fmt.Sprintf(format, a...)
	if _, again := x.damaged[run]; !again {
		x.damaged[run] = where + ": " + what
	}
	x.r.add(Problem{Where: where, Run: run, What: what, Means: meansRun})
}

func (x *examination) stray(k, rec []byte, what string) {
	i := x.r.add(Problem{Where: quote(k), What: what, Means: meansStray})
	x.strays = append(x.strays, stray{i, bytes.Clone(k), bytes.Clone(rec)})
}

func (x *examination) index(run batch.RunID, k []byte, what string, entries ...entry) {
	i := x.r.add(Problem{Where: quote(k), Run: run, What: what, Means: meansIndex})
	x.fixes = append(x.fixes, fix{i, entries})
}

func quote(k []byte) string { return fmt.Sprintf("%q", k) }

// lives reports whether there is a head of a run.
func (x *examination) lives(run batch.RunID) (bool, error) {
	lives, known := x.alive[run]
	if known {
		return lives, nil
	}
	lives, err := x.v.has(runKey(run))
	if len(x.alive) > 1<<16 {
		clear(x.alive)
	}
	x.alive[run] = lives
	return lives, err
}

// records looks at each record by itself.
func (x *examination) records(ctx context.Context) error {
	return x.v.scanRaw(ctx, nil, func(k, rec []byte) (bool, error) {
		x.r.Records++
		switch k[0] {
		case kindSchema, kindUser, kindFile, kindDying, kindOpenBatch, kindRunTicket, kindOpenTicket:
			return true, nil // see indexes
		case kindRun, kindBatch, kindPayload, kindCall, kindDecision, kindEvents, kindState, kindTicket:
		default:
			x.stray(k, rec, "its kind is unknown")
			return true, nil
		}
		run, err := x.owner(k, rec)
		if err != nil {
			x.stray(k, rec, err.Error())
			return true, nil
		}
		if k[0] != kindRun {
			lives, err := x.lives(run)
			if err != nil {
				return false, err
			}
			if !lives {
				x.stray(k, rec, "there is no run "+string(run))
				return true, nil
			}
		}
		if err := x.checkFileIndex(run, k, rec); err != nil {
			return false, err
		}
		whole, err := x.v.whole(k, rec)
		if err == nil {
			err = decodes(k, whole)
		}
		if err != nil {
			x.hurt(run, quote(k), "%s", trimRemedy(err))
		}
		return true, nil
	})
}

// owner is the run of a record. A ticket that does not decode is found by its index.
func (x *examination) owner(k, rec []byte) (batch.RunID, error) {
	if k[0] != kindTicket {
		name, _, err := cutName(k)
		if err == nil {
			err = batch.RunID(name).Validate()
		}
		return batch.RunID(name), err
	}
	if whole, err := x.v.whole(k, rec); err == nil {
		if run, err := runOf(k, whole); err == nil {
			return run, nil
		}
	}
	id, err := ticketOf(k)
	if err != nil {
		return "", err
	}
	var run batch.RunID
	err = x.v.scan(context.Background(), []byte{kindRunTicket}, nil, false, func(k, _ []byte) (bool, error) {
		if of, err := ticketOf(k); err == nil && of == id {
			name, _, _ := cutName(k)
			run = batch.RunID(name)
		}
		return run == "", nil
	})
	if err == nil && run == "" {
		err = errors.New("it does not decode, and no index says which run it belongs to")
	}
	return run, err
}

func decodes(k, rec []byte) error {
	if k[0] == kindBatch {
		_, err := decodeBatchHead(rec)
		return err
	}
	_, err := recode(k, rec)
	return err
}

// checkFileIndex holds the indexes of files against a record.
func (x *examination) checkFileIndex(run batch.RunID, k, rec []byte) error {
	d, _, ok, err := elsewhere(rec)
	if err != nil || !ok {
		return nil // what does not decode is reported with the record
	}
	x.named[d] = struct{}{}
	for _, e := range []entry{{userKey(d, k), encodeIndex(kindUser)}, {fileKey(run, k), encodeFile(d)}} {
		have, err := x.v.raw(e.key)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, e.value) {
			x.index(run, e.key, "the index of files does not have it", e)
		}
	}
	return nil
}

// files looks for files that nothing refers to. That those which records name are
// whole was seen with the records. The index does not count: it may be what is
// wrong.
func (x *examination) files(ctx context.Context) error {
	return x.s.files.each(ctx, func(name string, d digest, ok bool) error {
		x.r.Files++
		path := filepath.Join(x.s.files.dir, name)
		if !ok {
			x.r.add(Problem{Where: path, What: "it is no file of the store", Means: "it is not used: move it away"})
			return nil
		}
		if _, named := x.named[d]; named {
			return nil
		}
		p := Problem{Where: path, What: "no record refers to it", Means: meansFile}
		if x.repair {
			if err := os.Remove(path); err != nil {
				return err
			}
			p.Done = Repaired
		}
		x.r.add(p)
		return nil
	})
}
