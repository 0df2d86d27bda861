package badgerstore

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
)

// removeUnborn removes the log files that a killed process had created and not yet
// given their size. Badger writes nothing into a file before that, and yet refuses to
// open a store that has one. Logs are numbered as they are created, so only the last
// of its kind can be such a file; any other that is empty is left for Badger to refuse.
//
// It is for a store that was not closed in order: one that was has its sizes checked.
func removeUnborn(dir string) error {
	sizes, err := dataFiles(dir)
	if err != nil {
		return err
	}
	removed := false
	for _, kind := range []string{".vlog", ".mem"} {
		var names []string
		for name := range sizes {
			if filepath.Ext(name) == kind {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		// Numbers have the same width but for stores of a hundred thousand logs.
		last := slices.MaxFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		if sizes[last] > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, last)); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return syncFolder(dir)
}
