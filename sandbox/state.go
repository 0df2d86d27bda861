package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The state folder is the Hand's own, and the Hand bounds its ledger. A Hand that does
// not do as it should could fill the disk of this machine by it, so the host looks, too.
const (
	// maxStateBytes is more than a ledger ever takes: while it is written anew there are
	// two, and the largest record at the end of each.
	maxStateBytes = 256 << 20
	maxStateFiles = 1000
	stateEvery    = 2 * time.Second
)

// checkState is an error for a state folder that holds more than a Hand has any use for.
func checkState(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(maxStateFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(entries) > maxStateFiles {
		return stateError(dir, fmt.Sprintf("more than %d files", maxStateFiles))
	}
	var bytes int64
	for _, e := range entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return ShortError(err)
		}
		if info.IsDir() {
			return stateError(dir, "the folder "+shortName(e.Name())+", and the Hand makes none")
		}
		if bytes += OnDisk(info); bytes > maxStateBytes {
			return stateError(dir, fmt.Sprintf("more than %d MiB", maxStateBytes>>20))
		}
	}
	return nil
}

func stateError(dir, what string) error {
	return fmt.Errorf("%s, the Hand's own folder, holds %s: look for what the sandbox ran, and release the environment", dir, what)
}

// OnDisk is what a file takes of the disk, in bytes: a sparse one less than its size
// says.
func OnDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

// guardState ends a Hand whose state folder grows beyond its bounds. The folder stays,
// and the Environment does not start with it again.
func (m *Manager) guardState(e *Environment, h *hand) {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.stopped:
			return
		case <-h.inst.Done():
			return
		case <-tick.C:
		}
		if err := checkState(e.ledger()); err != nil {
			m.o.Logger.Error("a sandbox was ended because of its state folder", "environment", e.id, "tier", h.tier, "error", err)
			_ = h.stop(context.Background()) // logged there
			return
		}
	}
}
