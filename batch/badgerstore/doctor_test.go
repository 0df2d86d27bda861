package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// patient is a closed store with three finished runs, of which run 1 and 3 share a
// large value, and an open one.
func patient(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for w := 1; w <= 3; w++ {
		r := finishedRun(t, s, w)
		c := &batch.Commit{Run: r, Expect: r.Version, State: []batch.StateWrite{{Key: "large", Value: bytes.Repeat([]byte("v"), largeBytes+w%2)}}}
		mustCommit(t, s, c)
	}
	j := newJourney(4)
	mustCommit(t, s, j.request())
	mustCommit(t, s, j.move())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// hurt changes a store behind its back.
func hurt(t *testing.T, dir string, edit func(s *Store) []entry) {
	t.Helper()
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = s.writer.submit(context.Background(), certain(edit(s)), s.writeGroup)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

func examine(t *testing.T, dir string, repair bool) *Report {
	t.Helper()
	r, err := Doctor(dir, repair)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		if p.Where == "" || p.What == "" || p.Means == "" {
			t.Fatalf("a problem that says too little: %+v", p)
		}
	}
	return r
}

func TestDoctorHealthy(t *testing.T) {
	dir := patient(t)
	for _, repair := range []bool{false, true} {
		r := examine(t, dir, repair)
		if len(r.Problems) > 0 || !r.Healthy() || r.Runs != 4 || r.Records < 100 || r.Files != 2 || len(r.Quarantine) > 0 {
			t.Fatalf("%+v", r)
		}
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Doctor(dir, false); !errors.Is(err, ErrLocked) {
		t.Fatalf("a store in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := Doctor(dir, true); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("no store: %v", err)
		}
	}
}

// TestDoctorIndexes damages what can be written again, and nothing is lost.
func TestDoctorIndexes(t *testing.T) {
	whole := patient(t)
	id := benchRun(1)
	large := stateKey(id, "large")
	content := newContent(bytes.Repeat([]byte("v"), largeBytes+1), nil).digest
	for name, edit := range map[string]func(s *Store) []entry{
		"open batch not listed":     func(*Store) []entry { return []entry{{key: stepKey(kindOpenBatch, benchRun(4), 1)}} },
		"finalized batch listed":    func(*Store) []entry { return []entry{{stepKey(kindOpenBatch, id, 1), encodeIndex(kindOpenBatch)}} },
		"batch of nobody listed":    func(*Store) []entry { return []entry{{stepKey(kindOpenBatch, "x", 1), encodeIndex(kindOpenBatch)}} },
		"open ticket not listed":    func(*Store) []entry { return []entry{{key: openTicketKey("t1.3")}} },
		"ticket of run not listed":  func(*Store) []entry { return []entry{{key: runTicketKey(id, "t1.3")}} },
		"ticket of nobody is open":  func(*Store) []entry { return []entry{{openTicketKey("x"), encodeIndex(kindOpenTicket)}} },
		"ticket of nobody's run":    func(*Store) []entry { return []entry{{runTicketKey("x", "x"), encodeIndex(kindRunTicket)}} },
		"user of file not listed":   func(*Store) []entry { return []entry{{key: userKey(content, large)}} },
		"file of record not listed": func(*Store) []entry { return []entry{{key: fileKey(id, large)}} },
		"file of record is wrong":   func(*Store) []entry { return []entry{{fileKey(id, large), encodeFile(digest{1})}} },
		"user that is none":         func(*Store) []entry { return []entry{{userKey(content, runKey(id)), encodeIndex(kindUser)}} },
		"record without a file": func(*Store) []entry {
			return []entry{{fileKey(id, runKey(id)), encodeFile(digest{1})}}
		},
		"all users of a file": func(*Store) []entry {
			return []entry{{key: userKey(content, large)}, {key: userKey(content, stateKey(benchRun(3), "large"))}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyFolder(t, whole)
			s, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			before := dumpKeys(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			hurt(t, dir, edit)
			// After a kill, so that a sweep would find what an index hides.
			if err := os.Remove(filepath.Join(dir, cleanFile)); err != nil {
				t.Fatal(err)
			}
			r := examine(t, dir, false)
			if r.Healthy() || r.Problems[0].Done != "" {
				t.Fatalf("not found: %+v", r)
			}
			r = examine(t, dir, true)
			if !r.Healthy() || len(r.Quarantine) > 0 {
				t.Fatalf("not repaired: %+v", r)
			}
			if r = examine(t, dir, false); len(r.Problems) > 0 {
				t.Fatalf("still there: %+v", r)
			}
			s, err = Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			after := dumpKeys(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for k, rec := range before {
				if after[k] != rec {
					t.Errorf("record %q is %q, was %q", k, after[k], rec)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d records, were %d", len(after), len(before))
			}
		})
	}
}

// TestDoctorRuns damages run 1 in every way. It is put aside, its name stays taken,
// and the others do not notice.
func TestDoctorRuns(t *testing.T) {
	whole := patient(t)
	id := benchRun(1)
	for name, tt := range map[string]struct {
		edit func(dir string) error // of files
		recs []entry                // of records
		also int                    // other runs that it damages
	}{
		"run does not decode":      {recs: []entry{{runKey(id), []byte{2, kindRun, 0, 9}}}},
		"run of another name":      {recs: []entry{{runKey(id), mustHex(t, golden2[kindRun])}}},
		"batch head missing":       {recs: []entry{{key: stepKey(kindBatch, id, 1)}}},
		"batch head broken":        {recs: []entry{{stepKey(kindBatch, id, 1), []byte{2, kindBatch, 0, 9}}}},
		"payload missing":          {recs: []entry{{key: stepKey(kindPayload, id, 1)}}},
		"call missing":             {recs: []entry{{key: callKey(id, 1, 3)}}},
		"call broken":              {recs: []entry{{callKey(id, 1, 3), []byte("nonsense")}}},
		"decision missing":         {recs: []entry{{key: decisionKey(id, 1, 2, 1)}}},
		"decision in another kind": {recs: []entry{{decisionKey(id, 1, 2, 1), encodeIndex(kindRun)}}},
		"events missing":           {recs: []entry{{key: eventsKey(id, 4)}}},
		"last events missing":      {recs: []entry{{key: eventsKey(id, 16)}}},
		"state missing":            {recs: []entry{{key: stateKey(id, "k3")}}},
		"state broken":             {recs: []entry{{stateKey(id, "k3"), []byte{7}}}},
		"ticket missing":           {recs: []entry{{key: ticketKey("t1.7")}}},
		"ticket broken":            {recs: []entry{{ticketKey("t1.7"), []byte("nonsense")}}},
		"file missing": {also: 1, edit: func(dir string) error {
			return os.Remove((&files{dir: filepath.Join(dir, filesFolder)}).path(newContent(bytes.Repeat([]byte("v"), largeBytes+1), nil).digest))
		}},
		"file damaged": {also: 1, edit: func(dir string) error {
			return os.WriteFile((&files{dir: filepath.Join(dir, filesFolder)}).path(newContent(bytes.Repeat([]byte("v"), largeBytes+1), nil).digest), []byte("damaged"), 0o600)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			dir := copyFolder(t, whole)
			hurt(t, dir, func(*Store) []entry { return tt.recs })
			if tt.edit != nil {
				if err := tt.edit(dir); err != nil {
					t.Fatal(err)
				}
			}
			r := examine(t, dir, false)
			if r.Healthy() || r.Problems[0].Run != id {
				t.Fatalf("not found: %+v", r)
			}
			r = examine(t, dir, true)
			if !r.Healthy() || len(r.Quarantine) != 1 {
				t.Fatalf("not put aside: %+v", r)
			}
			if r := examine(t, dir, false); len(r.Problems) > 0 {
				t.Fatalf("still there: %+v", r)
			}
			records := readQuarantine(t, r.Quarantine[0])
			if records < 40 {
				t.Fatalf("%d records were put aside", records)
			}

			s, err := Open(dir, Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			runs, err := s.Runs(ctx, "", 0)
			if err != nil || len(runs) != 4 {
				t.Fatal(len(runs), err)
			}
			cancelled := 0
			for _, run := range runs {
				if run.Cancelled != nil {
					cancelled++
					if run.Cancelled.By != doctorName || run.OpenStep != 0 || run.LastSeq != 1 {
						t.Fatalf("%+v", run)
					}
					continue
				}
				if _, err := s.Batch(ctx, run.ID, 1); err != nil {
					t.Fatal(err)
				}
			}
			if cancelled != 1+tt.also {
				t.Fatalf("%d runs were put aside", cancelled)
			}
			events, err := s.Events(ctx, id, 0, 0)
			if err != nil || len(events) != 1 || !strings.Contains(events[0].Note, r.Quarantine[0]) {
				t.Fatalf("%+v, %v", events, err)
			}
			if _, err := s.Batch(ctx, id, 1); !errors.Is(err, batch.ErrNotFound) {
				t.Fatal(err)
			}
			if err := s.Commit(ctx, newJourney(1).request()); !errors.Is(err, batch.ErrConflict) {
				t.Fatalf("the run was begun again: %v", err)
			}
		})
	}
}

func readQuarantine(t *testing.T, path string) (records int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = streamReader{
		head:   func(streamHead) error { return nil },
		record: func(_, _ []byte) error { records++; return nil },
		file:   func(digest, []byte) error { return nil },
	}.read(f)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// TestDoctorStrays has records that belong to no run, and files that belong to none.
func TestDoctorStrays(t *testing.T) {
	dir := patient(t)
	orphan := newContent([]byte("nobody's"), nil)
	hurt(t, dir, func(s *Store) []entry {
		if err := s.files.store(orphan); err != nil {
			t.Fatal(err)
		}
		return []entry{
			{[]byte("Q"), []byte("unknown")}, {stateKey("nobody", "k"), []byte{1, kindState, '1'}}, {key(kindCall, "nobody")[:2], []byte("x")},
			{ticketKey("x"), []byte("nonsense")}, {openTicketKey("x"), encodeIndex(kindOpenTicket)},
		}
	})
	foreign := filepath.Join(dir, filesFolder, "README")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := examine(t, dir, false); len(r.Problems) != 5 {
		t.Fatalf("%d problems: %+v", len(r.Problems), r)
	}
	r := examine(t, dir, true)
	if !r.Healthy() || readQuarantine(t, r.Quarantine[0]) != 4 {
		t.Fatalf("%+v", r)
	}
	if r := examine(t, dir, false); len(r.Problems) > 0 || r.Files != 2 {
		t.Fatalf("still there: %+v", r)
	}
}

// TestDoctorFiles finds every damaged file of Badger at once, and leaves them alone.
func TestDoctorFiles(t *testing.T) {
	fixture, want := damageFixture(t)
	tables, err := filepath.Glob(filepath.Join(fixture, "*.sst"))
	if err != nil || len(tables) < 2 {
		t.Fatal(tables, err)
	}
	for _, path := range tables[:2] {
		p, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, flip(0.3)(p), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, repair := range []bool{false, true} {
		r := examine(t, fixture, repair)
		if r.Healthy() || len(r.Problems) != 2 || r.Problems[0].Where == r.Problems[1].Where || !strings.Contains(r.Problems[0].Means, "backup") {
			t.Fatalf("%+v", r)
		}
	}
	for _, path := range tables[:2] {
		p, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, flip(0.3)(p), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The mark alone can be done without.
	if err := os.WriteFile(filepath.Join(fixture, cleanFile), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := examine(t, fixture, false); r.Healthy() || len(r.Problems) != 1 {
		t.Fatalf("%+v", r)
	}
	if r := examine(t, fixture, true); !r.Healthy() || r.Problems[0].Done != Repaired {
		t.Fatalf("%+v", r)
	}
	checkDamaged(t, fixture, want)
}

// TestDoctorLargeRun puts a run aside that does not fit into one transaction.
func TestDoctorLargeRun(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	r := finishedRun(t, s, 1)
	err = s.writer.submit(context.Background(), certain{{key: callKey(r.ID, 1, 0)}}, s.writeGroup)
	if err != nil {
		t.Fatal(err)
	}
	s.limits.entries = 12
	rep := &Report{Dir: dir}
	if err := rep.examine(context.Background(), s, true); err != nil || !rep.Healthy() {
		t.Fatalf("%+v, %v", rep, err)
	}
	if keys := keysOf(t, s, r.ID); len(keys) != 2 {
		t.Fatalf("%q are left", keys)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
