package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// RemoveTree removes a folder and everything in it; one that is not there is no error.
// A tool may have written it, so it needs no more than a few descriptors however deep
// it is, no name that is longer than the kernel takes, and no permission that its owner
// took from a folder. Links are removed and not followed. Nothing may write to it
// meanwhile, or something may be left, which is an error.
func RemoveTree(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return os.Remove(dir)
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder that is being removed
			return err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(clearTree(root), root.Close()); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return os.Remove(dir)
}

// clearTree empties the folder of root. What lies two folders down is moved up before
// its folder is removed, so that nothing ever is three folders down.
func clearTree(root *os.Root) error {
	moved := 0
	unused := rand.Text() // as a name
	return eachEntry(root, ".", func(name string, isFolder bool) error {
		if !isFolder {
			return root.Remove(name)
		}
		if err := root.Chmod(name, 0o700); err != nil {
			return err
		}
		err := eachEntry(root, name, func(below string, isFolder bool) error {
			below = path.Join(name, below)
			if !isFolder {
				return root.Remove(below)
			}
			// To be moved it must be writable itself: it says where its parent is.
			if err := root.Chmod(below, 0o700); err != nil {
				return err
			}
			moved++
			return root.Rename(below, fmt.Sprintf("%s-%d", unused, moved))
		})
		if err != nil {
			return err
		}
		return root.Remove(name)
	})
}

// entriesAtOnce bounds the names that are held in memory.
const entriesAtOnce = 1024

// eachEntry calls f, which takes it away, for every entry of a folder until there is
// none.
func eachEntry(root *os.Root, folder string, f func(name string, isFolder bool) error) error {
	for {
		entries, err := someEntries(root, folder)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := f(e.Name(), e.IsDir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

func someEntries(root *os.Root, folder string) ([]fs.DirEntry, error) {
	d, err := root.Open(folder)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(entriesAtOnce)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, errors.Join(err, d.Close())
}
