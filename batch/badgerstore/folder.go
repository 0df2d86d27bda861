package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// makeFolder creates dir, durably, and takes it away from other users.
func makeFolder(dir string) error {
	fi, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		parent := filepath.Dir(dir)
		if _, err := os.Stat(parent); errors.Is(err, os.ErrNotExist) {
			if err := makeFolder(parent); err != nil {
				return err
			}
		}
		return errors.Join(os.Mkdir(dir, 0o700), syncFolder(parent))
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("it is not a folder: remove it, or choose another data_dir")
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// folder syncs the store's folder when files were created in it: Badger syncs
// what is in a new log, but not its name.
type folder struct {
	f        *os.File
	sync     func(*os.File) error
	synced   time.Time // modification time of the folder that is on disk
	syncedAt time.Time
}

func openFolder(dir string) (*folder, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	fo := &folder{f: f, sync: (*os.File).Sync}
	if err := fo.syncIfChanged(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fo, nil
}

// clockGrain is above the resolution of a file system's modification times: a
// change right after a sync may not show in them.
const clockGrain = 20 * time.Millisecond

// syncIfChanged is called by the one writer only.
func (fo *folder) syncIfChanged() error {
	fi, err := fo.f.Stat()
	if err != nil {
		return err
	}
	if fi.ModTime().Equal(fo.synced) && fo.syncedAt.Sub(fo.synced) > clockGrain {
		return nil
	}
	at := time.Now()
	if err := fo.sync(fo.f); err != nil {
		return err
	}
	fo.synced, fo.syncedAt = fi.ModTime(), at
	return nil
}

func (fo *folder) close() error { return fo.f.Close() }
