package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Tiers that cannot mount folders of this machine get what belongs in them over the
// channel: Carrier. The workspace comes back before the boundary is stopped. What
// calls did after the last harvest is lost with a boundary that was not stopped, but
// died.

// seed carries the workspace and the mounts into a boundary that has just started.
func (h *hand) seed(ctx context.Context, spec *Spec) error {
	if err := h.seedFolder(ctx, spec.Workspace, WorkspaceDir); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if info, err := os.Stat(m.Source); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is a file, and tier %s has folders carried into it only: declare the [[sandbox.mount]] as a folder or an archive", m.Source, h.tier)
		}
		if err := h.seedFolder(ctx, m.Source, m.Target); err != nil {
			return err
		}
	}
	return nil
}

func (h *hand) seedFolder(ctx context.Context, dir, target string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("carrying %s into the sandbox: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	s, err := h.ch.Open(ctx, MethodSeed, FileParams{Path: target})
	if err == nil {
		var left []string
		left, err = PackTree(s, root)
		if len(left) > 0 {
			h.log.Warn("not carried into a sandbox: neither folders, files nor links", "target", target, "names", left[:min(len(left), 10)], "count", len(left))
		}
		if rerr := s.Result(nil); rerr != nil {
			err = rerr // why the Hand did not take it, when writing failed, too
		}
	}
	if err != nil {
		return fmt.Errorf("carrying %s into the sandbox at %s: %w", dir, target, err)
	}
	return nil
}

// harvest replaces the workspace on this machine by the one inside. When it fails, the
// one on this machine is as it was.
func (h *hand) harvest(ctx context.Context, workspace string, mostBytes int64) error {
	fresh := workspace + freshSuffix
	if err := RemoveTree(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := h.harvestInto(ctx, fresh, mostBytes); err != nil {
		return errors.Join(fmt.Errorf("carrying the workspace out of the sandbox: %w", err), RemoveTree(fresh))
	}
	return swapFolder(workspace)
}

func (h *hand) harvestInto(ctx context.Context, dir string, mostBytes int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	s, err := h.ch.Open(ctx, MethodHarvest, FileParams{Path: WorkspaceDir})
	if err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	var left []string // the first of them
	count := 0
	leaveOut := func(name string) {
		if count++; count <= 10 {
			left = append(left, shortName(name))
		}
	}
	err = UnpackTree(struct{ io.Reader }{s}, root, TreeBounds{Bytes: mostBytes, Entries: MaxWorkspaceEntries, LeaveOut: leaveOut})
	if err != nil {
		s.Cancel(err)
		return err
	}
	if err := s.Result(nil); err != nil {
		return err
	}
	if count > 0 {
		h.log.Warn("links of a workspace lead out of it and were not carried", "names", left, "count", count)
	}
	return nil
}

// Suffixes of a workspace that is being replaced.
const (
	freshSuffix = ".new"
	staleSuffix = ".old"
)

// swapFolder puts the fresh one in the place of folder. A crash leaves what
// restoreWorkspace puts right.
func swapFolder(folder string) error {
	if err := RemoveTree(folder + staleSuffix); err != nil {
		return err
	}
	if err := os.Rename(folder, folder+staleSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(folder+freshSuffix, folder); err != nil {
		return err
	}
	return RemoveTree(folder + staleSuffix)
}

// restoreWorkspace completes or undoes a swap that a crash cut short. While the
// workspace is there, a fresh one was not whole yet.
func restoreWorkspace(folder string) error {
	_, err := os.Lstat(folder)
	switch {
	case err == nil:
		return errors.Join(RemoveTree(folder+freshSuffix), RemoveTree(folder+staleSuffix))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for _, from := range []string{folder + freshSuffix, folder + staleSuffix} {
		err := os.Rename(from, folder)
		if err == nil {
			return restoreWorkspace(folder)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil // it was never made
}
