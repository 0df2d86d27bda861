package badgerstore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
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

func (v verifiedTable) trusts(fi os.FileInfo, now time.Time) bool {
	age := now.Sub(v.At)
	return v.Size == fi.Size() && v.Modified.Equal(fi.ModTime()) && age >= 0 && age < verifyAgain
}
