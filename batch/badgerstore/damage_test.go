package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/awaken-agents/awaken-host/batch"
)

// damageFixture is a closed store with tables and value logs.
func damageFixture(t *testing.T) (dir string, want string) {
	t.Helper()
	dir = t.TempDir()
	for range 3 { // each life leaves a table
		s, err := Open(dir, Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		for run := range 20 {
			j := &journey{r: &batch.Run{ID: benchRun(run)}}
			if r, err := s.Run(context.Background(), benchRun(run)); err == nil {
				j.r = r
			}
			c := j.request()
			c.Batch.Message = bytes.Repeat([]byte("m"), run*4000)
			c.State = []batch.StateWrite{{Key: "k", Value: []byte(`1`)}, {Key: "l", Value: []byte(`2`)}}
			c.Tickets = []*batch.Ticket{{ID: batch.TicketID(fmt.Sprint("t", run)), Run: c.Run.ID, Status: batch.TicketOpen}}
			if err := s.Commit(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			for range benchCalls / 2 {
				if err := s.Commit(context.Background(), j.move()); err != nil {
					t.Fatal(err)
				}
			}
		}
		want, err = dump(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, want
}

// dump reads everything through the public methods.
func dump(s *Store) (string, error) {
	var out strings.Builder
	ctx := context.Background()
	for run := range 20 {
		id := benchRun(run)
		r, err := s.Run(ctx, id)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%+v\n", *r)
		for step := 1; step <= r.LastStep; step++ {
			b, err := s.Batch(ctx, id, step)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "%s %d %d %q %d\n", b.ID(), len(b.Message), b.Next(), b.Calls[0].Call.Arguments, len(b.Calls))
		}
		events, err := s.Events(ctx, id, 0, 0)
		if err != nil {
			return "", err
		}
		decisions, err := s.Decisions(ctx, id)
		if err != nil {
			return "", err
		}
		state, err := s.State(ctx, id)
		if err != nil {
			return "", err
		}
		ticket, err := s.Ticket(ctx, batch.TicketID(fmt.Sprint("t", run)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%v %d %v %v\n", events, len(decisions), state, ticket)
	}
	return out.String(), nil
}

func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func flip(at float64) func([]byte) []byte {
	return func(p []byte) []byte {
		if len(p) > 0 {
			p[int(at*float64(len(p)-1))] ^= 0x55
		}
		return p
	}
}

// TestDamagedFiles damages one file at a time. Whatever the damage, the store
// says so or holds everything it held; it neither panics nor forgets.
func TestDamagedFiles(t *testing.T) {
	fixture, want := damageFixture(t)
	damages := map[string]func([]byte) []byte{
		"missing":    nil,
		"empty":      func(p []byte) []byte { return nil },
		"half":       func(p []byte) []byte { return p[:len(p)/2] },
		"short":      func(p []byte) []byte { return p[:max(0, len(p)-1)] },
		"ten bytes":  func(p []byte) []byte { return p[:min(10, len(p))] },
		"longer":     func(p []byte) []byte { return append(p, make([]byte, 100)...) },
		"zero tail":  func(p []byte) []byte { clear(p[len(p)*3/4:]); return p },
		"zeroes":     func(p []byte) []byte { clear(p); return p },
		"first byte": flip(0), "flip at 30%": flip(0.3), "flip at 60%": flip(0.6), "flip at 97%": flip(0.97), "last byte": flip(1),
	}
	names, err := filepath.Glob(filepath.Join(fixture, "*"))
	if err != nil {
		t.Fatal(err)
	}
	large, err := filepath.Glob(filepath.Join(fixture, filesFolder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, path := range append(names, large...) {
		name, err := filepath.Rel(fixture, path)
		if err != nil {
			t.Fatal(err)
		}
		kind := filepath.Ext(name)
		switch {
		case name == filesFolder:
			continue
		case kind != "":
		case filepath.Dir(name) != ".":
			kind = filesFolder
		default:
			kind = name
		}
		if kinds[kind]++; kinds[kind] > 2 || name == "OWNER" || name == verifiedFile {
			continue
		}
		for _, what := range slices.Sorted(maps.Keys(damages)) {
			t.Run(name+" "+what, func(t *testing.T) {
				dir := copyFolder(t, fixture)
				path := filepath.Join(dir, name)
				if damages[what] == nil {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else {
					p, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, damages[what](p), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				checkDamaged(t, dir, want)
			})
		}
	}
	for _, kind := range []string{".sst", ".vlog", "MANIFEST", "KEYREGISTRY", "CLEAN", filesFolder} {
		if kinds[kind] == 0 {
			t.Errorf("the fixture has no %s", kind)
		}
	}
}

func checkDamaged(t *testing.T, dir, want string) {
	t.Helper()
	for range 2 { // the second time, too
		s, err := Open(dir, Options{})
		if err != nil {
			if !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "backup") {
				t.Fatalf("refused with %q, which does not say what is damaged and what to do", err)
			}
			continue
		}
		got, err := dump(s)
		switch {
		case err != nil && !errors.Is(err, batch.ErrCorrupt):
			t.Errorf("reading failed with %q, which does not say that something is damaged", err)
		case err == nil && got != want:
			t.Error("the store opened and had forgotten something")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedTableAfterKill has no mark of a clean end to go by.
func TestDamagedTableAfterKill(t *testing.T) {
	fixture, want := damageFixture(t)
	tables, err := filepath.Glob(filepath.Join(fixture, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for at := range 20 {
		t.Run(fmt.Sprint("at ", at*5, "%"), func(t *testing.T) {
			dir := copyFolder(t, fixture)
			if err := os.Remove(filepath.Join(dir, cleanFile)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, filepath.Base(tables[0]))
			p, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, flip(float64(at)/19)(p), 0o600); err != nil {
				t.Fatal(err)
			}
			checkDamaged(t, dir, want)
		})
	}
}

// TestDamagedRecords damages single records behind the store's back.
func TestDamagedRecords(t *testing.T) {
	id := benchRun(0)
	for _, tt := range []struct {
		name string
		key  []byte
		read string // the method that must notice
	}{
		{"run", runKey(id), "Run"},
		{"batch head", stepKey(kindBatch, id, 1), "Batch"},
		{"payload", stepKey(kindPayload, id, 1), "Batch"},
		{"call", callKey(id, 1, 0), "Batch"},
		{"decision", decisionKey(id, 1, 0, 1), "Decisions"},
		{"events", eventsKey(id, 2), "Events"},
		{"state", stateKey(id, "k"), "State"},
		{"ticket", ticketKey("t"), "Tickets"},
	} {
		for what, damage := range map[string]func(rec []byte) []byte{
			"missing":        nil,
			"empty":          func([]byte) []byte { return []byte{} },
			"unknown format": func(p []byte) []byte { p[0] = 9; return p },
			"another kind":   func(p []byte) []byte { p[1] = 'Z'; return p },
			"cut short":      func(p []byte) []byte { return p[:2] },
		} {
			if tt.name == "state" && what == "cut short" || tt.name == "run" && what == "missing" || tt.name == "batch head" && what == "missing" {
				continue // an empty value, an unknown run, an unknown batch
			}
			t.Run(tt.name+" "+what, func(t *testing.T) {
				s := openStore(t, Options{NoSync: true})
				ctx := context.Background()
				j := newJourney(0)
				c := j.request()
				c.State = []batch.StateWrite{{Key: "k", Value: []byte(`1`)}}
				c.Tickets = []*batch.Ticket{{ID: "t", Run: id, Status: batch.TicketOpen}}
				if err := errors.Join(s.Commit(ctx, c), s.Commit(ctx, j.move())); err != nil {
					t.Fatal(err)
				}
				err := s.view("", func(v *view) error {
					rec, err := v.get(tt.key)
					if err != nil || rec == nil {
						return fmt.Errorf("record %q: %v, %w", tt.key, rec, err)
					}
					e := entry{key: tt.key}
					if damage != nil {
						e.value = damage(rec)
					}
					return s.writer.submit(ctx, certain{e}, s.writeGroup)
				})
				if err != nil {
					t.Fatal(err)
				}
				err = map[string]func() error{
					"Run":       func() error { _, err := s.Run(ctx, id); return err },
					"Batch":     func() error { _, err := s.Batch(ctx, id, 1); return err },
					"Decisions": func() error { _, err := s.Decisions(ctx, id); return err },
					"Events":    func() error { _, err := s.Events(ctx, id, 0, 0); return err },
					"State":     func() error { _, err := s.State(ctx, id); return err },
					"Tickets": func() error {
						_, err := s.Tickets(ctx, batch.TicketFilter{Run: id})
						return err
					},
				}[tt.read]()
				if !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), "backup") {
					t.Fatalf("%s said %v", tt.read, err)
				}
				if what == "unknown format" && !strings.Contains(err.Error(), "format is 9") {
					t.Fatalf("%q does not say which format", err)
				}
			})
		}
	}
}

func TestUnknownSchema(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.writer.submit(context.Background(), certain{{schemaKey, []byte("\x01M{\"version\": 99}")}}, s.writeGroup)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), "version 99") {
		t.Fatalf("opened with %v", err)
	}
	if _, err := Open(dir, Options{}); errors.Is(err, ErrLocked) {
		t.Fatalf("a refused open keeps the lock: %v", err)
	}
}

func TestForeignBadger(t *testing.T) {
	dir := t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("someone"), []byte("else's")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, batch.ErrCorrupt) || !strings.Contains(err.Error(), "schema") {
		t.Fatalf("opened with %v", err)
	}
}
