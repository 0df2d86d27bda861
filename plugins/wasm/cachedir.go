package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// privateDir creates dir if needed and refuses one that somebody else could have
// written to: the cache holds machine code that the host will execute.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("compilation cache %s: %w", dir, err)
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			// Another host process renames its temporary files into place meanwhile.
			if errors.Is(err, fs.ErrNotExist) && path != dir {
				return nil
			}
			return fmt.Errorf("compilation cache %s: %w", dir, err)
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("compilation cache %s: %w", dir, err)
		}
		return checkPrivate(path, info, path == dir)
	})
}

func checkPrivate(path string, info fs.FileInfo, top bool) error {
	const why = "the cache holds code that the host executes"
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("compilation cache %s is a symbolic link: name the folder itself (%s)", path, why)
	case !info.IsDir() && !info.Mode().IsRegular(), top && !info.IsDir():
		return fmt.Errorf("compilation cache %s is a %s: remove it (%s)", path, info.Mode().Type(), why)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("compilation cache %s: its owner cannot be read on this system", path)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("compilation cache %s belongs to user %d and this process is user %d: use a folder of your own (%s)", path, st.Uid, os.Geteuid(), why)
	}
	forbidden := fs.FileMode(0o022)
	if top {
		forbidden = 0o077
	}
	if perm := info.Mode().Perm(); perm&forbidden != 0 {
		return fmt.Errorf("compilation cache %s has mode %04o: remove it, or run chmod -R go-rwx on it if only you can have written to it (%s)", path, perm, why)
	}
	return nil
}
