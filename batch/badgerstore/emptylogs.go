package badgerstore

import (
	"os"
	"path/filepath"
)

// removeEmptyLogs removes logs of no size. A killed process leaves one when it has
// created the file and not yet given it its size, before which Badger writes nothing
// into it; or when it deletes the file, which Badger empties first. Badger refuses to
// open a store that has one.
//
// It is for a store that was not closed in order: one that was has its sizes checked,
// and a log that is empty there is damage.
func removeEmptyLogs(dir string) error {
	sizes, err := dataFiles(dir)
	if err != nil {
		return err
	}
	removed := false
	for name, size := range sizes {
		if kind := filepath.Ext(name); size > 0 || kind != ".vlog" && kind != ".mem" {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return syncFolder(dir)
}
