package badgerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/awaken-agents/awaken-host/batch"
)

// Report is what Doctor found.
type Report struct {
	Dir      string    `json:"dir"`
	Runs     int       `json:"runs"`
	Records  int       `json:"records"`
	Files    int       `json:"files"` // with large values
	Problems []Problem `json:"problems"`
	// Quarantine are the files that have what was put aside.
	Quarantine []string `json:"quarantine,omitempty"`
}

// Problem is one thing that is not as it should be.
type Problem struct {
	Where string      `json:"where"`         // path of a file, or key of a record, quoted
	Run   batch.RunID `json:"run,omitempty"` // that it belongs to, if to one
	What  string      `json:"what"`          // is wrong
	Means string      `json:"means"`         // for the one who uses the store, and what to do
	Done  Remedy      `json:"done,omitempty"`
}

// Remedy is what Doctor did about a problem.
type Remedy string

// The remedies. The empty one means that the problem is still there.
const (
	Repaired    Remedy = "repaired"    // nothing was lost
	Quarantined Remedy = "quarantined" // what is damaged, and what belongs to it, was put aside
)

// Healthy reports whether there is no problem left.
func (r *Report) Healthy() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Done == "" })
}

// add returns the problem's place. One that is still there is not told twice.
func (r *Report) add(p Problem) int {
	i := slices.IndexFunc(r.Problems, func(q Problem) bool { return q.Where == p.Where && q.What == p.What && q.Done == "" })
	if i < 0 {
		i = len(r.Problems)
		r.Problems = append(r.Problems, p)
	}
	return i
}

// Doctor checks everything in the store in the folder dir, which nobody may have
// open: that Badger's files are whole, that every record decodes, that the records
// of a run are complete and agree with each other and with the indexes, and that
// every large value is in its file. The error is about what kept it from looking
// (ErrLocked among them); what it found is in the report.
//
// Without repair it changes nothing that the next Open would not: like any start it
// recovers the log after a kill, and finishes deletions.
//
// With repair it writes indexes again from the records, and removes files that
// nothing refers to. A run that is damaged is put aside whole, as it is, in the
// folder quarantine; a run of that name stays, without batches and cancelled, so
// that nothing that it did is done again. Records that belong to no run are put
// aside, too. Damaged files of Badger are left alone: without what they had, older
// records would come to light and calls would run again.
func Doctor(dir string, repair bool) (*Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	switch sizes, err := dataFiles(dir); {
	case err != nil:
		return nil, fmt.Errorf("store %s: %w", dir, err)
	case len(sizes) == 0:
		return nil, fmt.Errorf("store %s: there is no store in it: %w", dir, fs.ErrNotExist)
	}
	owner, err := lockOwner(dir)
	if err != nil {
		return nil, err
	}
	r := &Report{Dir: dir}
	if err := r.checkFiles(dir, repair); err != nil {
		return nil, errors.Join(err, owner.release())
	}
	if !r.Healthy() {
		return r, owner.release()
	}
	s, err := open(dir, Options{MinFreeMiB: -1, keepFiles: true}.withDefaults(), owner)
	if errors.Is(err, batch.ErrCorrupt) {
		r.add(Problem{Where: dir, What: err.Error(), Means: "the store cannot be opened: restore it from a backup"})
		return r, owner.release()
	}
	if err != nil {
		return nil, errors.Join(err, owner.release())
	}
	err = r.examine(context.Background(), s, repair)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return r, nil
}

// examine looks again after a repair, which may bring more to light: an index that
// is left of a run that was put aside, a file that nothing refers to any more.
func (r *Report) examine(ctx context.Context, s *Store, repair bool) error {
	for range 4 {
		before := len(r.Problems)
		if err := (&examination{s: s, r: r, repair: repair}).run(ctx); err != nil {
			return err
		}
		if !repair || len(r.Problems) == before {
			return nil
		}
	}
	return nil
}

const beyondRepair = "the store cannot be opened, because Badger would forget or misread records: restore it from a backup"

// checkFiles looks at all of Badger's files, where Open stops at the first that is
// damaged.
func (r *Report) checkFiles(dir string, repair bool) error {
	sizes, err := dataFiles(dir)
	if err != nil {
		return err
	}
	bad := func(name, format string, a ...any) {
		r.add(Problem{Where: filepath.Join(dir, name), What: "it " + fmt.Sprintf(format, a...), Means: beyondRepair})
	}
	mark := filepath.Join(dir, cleanFile)
	broken, err := r.checkMark(dir, mark, sizes, bad)
	if err != nil {
		return err
	}
	if len(sizes) > 0 {
		manifest, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
		switch {
		case errors.Is(err, fs.ErrPermission):
			return err
		case err != nil:
			bad(badger.ManifestFilename, "is missing or damaged (%v)", err)
		}
		for id, m := range manifest.Tables {
			path := table.NewFilename(id, dir)
			if err := checkTable(path, id, m); err != nil {
				bad(filepath.Base(path), "is missing or damaged (%v)", err)
			}
		}
	}
	if !broken {
		return nil
	}
	p := Problem{Where: mark, What: "it is damaged", Means: "it does not say which files the store had when it was closed; every start refuses the store"}
	if repair && r.Healthy() {
		// All tables are whole, and a store without the mark is one after a kill.
		if err := errors.Join(os.Remove(mark), syncFolder(dir)); err != nil {
			return err
		}
		p.Done = Repaired
	}
	r.add(p)
	return nil
}

// checkMark reports files that are not as they were at a clean end, or that the mark
// itself is broken.
func (r *Report) checkMark(dir, path string, sizes map[string]int64, bad func(string, string, ...any)) (broken bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var mark cleanMark
	if json.Unmarshal(raw, &mark) != nil || mark.Version != 1 {
		return true, nil
	}
	for name, want := range mark.Files {
		switch have, ok := sizes[name]; {
		case strings.HasSuffix(name, ".sst") || name == badger.ManifestFilename:
			// They are looked at closely, but a MANIFEST may also be cut where it makes sense.
			if ok && have != want {
				bad(name, "has %d bytes, it had %d when the store was closed", have, want)
			}
		case !ok:
			bad(name, "is missing")
		case have != want:
			bad(name, "has %d bytes, it had %d when the store was closed", have, want)
		}
	}
	return false, nil
}
