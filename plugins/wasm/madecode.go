package wasm

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/awaken-agents/awaken-host/plugins"
)

// madeFolder names, within a folder that Precompile fills, what is whole.
const madeFolder = "made"

func madeFile(dir string, abi plugins.ABI, moduleSHA256 string) string {
	return filepath.Join(dir, madeFolder, string(abi)+"-"+moduleSHA256)
}

// Precompiled reports whether Precompile filled dir with the module of p.
func Precompiled(dir string, p *plugins.Plugin) bool {
	info, err := os.Lstat(madeFile(dir, p.Manifest.Module.ABI, p.Manifest.Module.SHA256))
	return err == nil && info.Mode().IsRegular()
}

// Precompile puts the machine code of the module of p into dir, for a Runtime with
// Options.CodeDir that is of the very same program as the caller. The folder above dir
// is created with mode 0700, and refused where somebody else could have written to it
// or to what is in it; dir itself may be read by whoever it is mounted for.
//
// Several processes may do it at once.
func Precompile(dir string, p *plugins.Plugin) error {
	if Precompiled(dir, p) {
		return nil
	}
	if err := privateDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, madeFolder), 0o755); err != nil {
		return fmt.Errorf("machine code of plugin %s: %w", p.Manifest.ID, err)
	}
	m, code, err := admit(p, dir)
	if err != nil {
		return err
	}
	g := &program{module: m}
	if err := g.compileWith(code, p.Manifest.Module.ABI, dir); err != nil {
		return refused(p.Manifest, err)
	}
	g.close(context.Background())
	if err := readable(dir); err != nil {
		return fmt.Errorf("machine code of plugin %s: %w", p.Manifest.ID, err)
	}
	// Last, since whoever sees it reads the rest.
	f, err := os.OpenFile(madeFile(dir, p.Manifest.Module.ABI, p.Manifest.Module.SHA256), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("machine code of plugin %s: %w", p.Manifest.ID, err)
	}
	return f.Close()
}

// readable lets the user of a Hand read what is in dir, and nobody but its owner write
// it. What others are writing meanwhile is theirs to make so.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		unfinished := strings.HasSuffix(path, ".tmp") || strings.HasPrefix(filepath.Base(path), "new-")
		switch {
		case unfinished:
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755) //nolint:gosec // the folder above keeps others out
		}
		return os.Chmod(path, 0o644) //nolint:gosec // as above
	})
}

// checkMade refuses a folder of machine code that something inside a boundary could
// have written to: it is on a read-only mount, or as private as a cache.
func checkMade(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case readOnly(dir):
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return checkPrivate(path, info, false)
	})
}
