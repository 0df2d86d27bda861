package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// TestVerifyNew verifies beside a store in use what it has written.
func TestVerifyNew(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{NoSync: true})
	finishedRun(t, s, 1)
	if err := s.flush(ctx); err != nil {
		t.Fatal(err)
	}
	finishedRun(t, s, 2)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	verifyNew(ctx, s.dir, log)
	tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	if known := readVerified(s.dir); err != nil || len(tables) == 0 || len(known) != len(tables) || out.Len() > 0 {
		t.Fatalf("%d of %d tables are noted, %v, log %q", len(known), len(tables), err, out.String())
	}
	dir := copyFolder(t, s.dir)
	path := filepath.Join(dir, filepath.Base(tables[0]))
	p, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, flip(0.3)(p), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	verifyNew(ctx, dir, log)
	if known := readVerified(dir); len(known) != len(tables)-1 || !strings.Contains(out.String(), path) {
		t.Fatalf("%d of %d tables are noted, log %q", len(known), len(tables), out.String())
	}
}

// TestVerifiedTables says when a table is read again at the start.
func TestVerifiedTables(t *testing.T) {
	fixture, want := damageFixture(t)
	tables, err := filepath.Glob(filepath.Join(fixture, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	name := filepath.Base(tables[0])
	for what, tt := range map[string]struct {
		edit     func(*verifiedTable)
		verifies bool
	}{
		"verified before":   {func(v *verifiedTable) {}, false},
		"long ago":          {func(v *verifiedTable) { v.At = v.At.Add(-verifyAgain) }, true},
		"in the future":     {func(v *verifiedTable) { v.At = v.At.Add(time.Hour) }, true},
		"another size":      {func(v *verifiedTable) { v.Size++ }, true},
		"another time":      {func(v *verifiedTable) { v.Modified = v.Modified.Add(time.Second) }, true},
		"nothing is known":  {nil, true},
		"note does not fit": {func(v *verifiedTable) { *v = verifiedTable{} }, true},
	} {
		t.Run(what, func(t *testing.T) {
			dir := copyFolder(t, fixture)
			path := filepath.Join(dir, name)
			if _, err := checkFiles(dir); err != nil {
				t.Fatal(err)
			}
			known := readVerified(dir)
			if tt.edit == nil {
				if err := os.WriteFile(filepath.Join(dir, verifiedFile), []byte("garbage"), 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				v := known[name]
				tt.edit(&v)
				known[name] = v
				writeVerified(dir, known)
			}
			// Damage that leaves size and time as they are shows whether it is read.
			fi, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, flip(0.3)(p), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
				t.Fatal(err)
			}
			if _, err := checkFiles(dir); errors.Is(err, batch.ErrCorrupt) != tt.verifies {
				t.Fatalf("verified is %v, want %v: %v", err != nil, tt.verifies, err)
			}
		})
	}
	checkDamaged(t, fixture, want) // which is whole
}
