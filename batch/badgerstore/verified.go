package badgerstore

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// verifiedFile remembers which tables were found whole, so that a start does not
// read all finished runs again. A table never changes; size and modification
// time tell another table under the same name.
const verifiedFile = "VERIFIED"

// verifyAgain is how long a finding is trusted: disks rot.
const verifyAgain = 24 * time.Hour

type verifiedTable struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	At       time.Time `json:"at"`
}

// readVerified returns nothing where there is nothing to trust.
func readVerified(dir string) map[string]verifiedTable {
	var known map[string]verifiedTable
	raw, err := os.ReadFile(filepath.Join(dir, verifiedFile))
	if err != nil || json.Unmarshal(raw, &known) != nil {
		return nil
	}
	return known
}

// writeVerified need not succeed: then the tables are verified again.
func writeVerified(dir string, known map[string]verifiedTable) {
	raw, err := json.Marshal(known)
	if err != nil {
		return
	}
	path := filepath.Join(dir, verifiedFile)
	if os.WriteFile(path+".new", raw, 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}

// verifyEvery is how often the tables that were written meanwhile are verified, so
// that a start after a kill finds little that is new.
const verifyEvery = 10 * time.Minute

// verifyTables does so until the store closes.
func (s *Store) verifyTables(ctx context.Context) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			verifyNew(ctx, s.dir, s.log.log)
		}
	}
}

// verifyNew verifies the tables that are new to the note, beside a store in use. What
// is damaged it tells, and leaves to the next start, which refuses the store.
func verifyNew(ctx context.Context, dir string, log *slog.Logger) {
	manifest, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return // it is just being written
	}
	known, now := readVerified(dir), time.Now()
	whole := make(map[string]verifiedTable, len(manifest.Tables))
	for id, m := range manifest.Tables {
		if ctx.Err() != nil {
			return
		}
		path := table.NewFilename(id, dir)
		name := filepath.Base(path)
		fi, err := os.Stat(path)
		if err != nil {
			continue // merged into another one
		}
		if whole[name] = known[name]; whole[name].trusts(fi, now) {
			continue
		}
		delete(whole, name)
		switch err := checkTable(path, id, m); {
		case err == nil:
			whole[name] = verifiedTable{Size: fi.Size(), Modified: fi.ModTime(), At: now}
		case errors.Is(err, fs.ErrNotExist):
		default:
			log.Error("a table is damaged: back up what can be read, the next start refuses the store", "path", path, "err", err)
		}
	}
	writeVerified(dir, whole)
}

func (v verifiedTable) trusts(fi os.FileInfo, now time.Time) bool {
	age := now.Sub(v.At)
	return v.Size == fi.Size() && v.Modified.Equal(fi.ModTime()) && age >= 0 && age < verifyAgain
}
