package badgerstore

import (
	"fmt"
	"syscall"

	"github.com/awaken-agents/awaken-host/batch"
)

// checkSpace refuses a new batch while what is left is still enough to finish the
// open ones.
func (s *Store) checkSpace() error {
	if s.minFree < 0 {
		return nil
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &st); err != nil {
		return fmt.Errorf("free space of %s is not known (%w): %w", s.dir, err, batch.ErrDiskFull)
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	if free < uint64(s.minFree) {
		return fmt.Errorf("%d MiB are free where %s is, %d are needed to accept a new batch: free some space: %w",
			free>>20, s.dir, s.minFree>>20, batch.ErrDiskFull)
	}
	return nil
}
