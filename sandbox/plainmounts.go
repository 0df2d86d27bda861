package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// PlainMounts refuses mounts that symbolic links lead elsewhere: who mounts follows them,
// often as root, while it sees the whole machine. A source is where it was when it was
// declared; what was put in its way since then may be anybody's. A target leads through
// no link of the workspace or of an earlier mount, where earlier calls can have left one.
// Nothing of the Environment may run when this looks.
func (s *Spec) PlainMounts() error {
	inside := []Mount{
		{Source: s.State, Target: StateDir},
		{Source: s.Workspace, Target: WorkspaceDir},
	}
	for _, m := range s.Mounts {
		real, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return fmt.Errorf("mount source %s: %w", m.Source, err)
		}
		if real != filepath.Clean(m.Source) {
			return fmt.Errorf("mount source %s: a symbolic link leads from there to %s; declare where it really is", m.Source, real)
		}
		// The last mount that has the target in it is the one that is seen there.
		for n := len(inside) - 1; n >= 0; n-- {
			below, ok := strings.CutPrefix(m.Target, strings.TrimSuffix(inside[n].Target, "/")+"/")
			if !ok {
				continue
			}
			if err := plainPath(inside[n].Source, below); err != nil {
				return fmt.Errorf("mount target %s: %w", m.Target, err)
			}
			break
		}
		inside = append(inside, m)
	}
	return nil
}

// replaceable names a mount that a sandbox could put something else in the place of, a
// link to a folder of the machine for one: its source lies in that of a writable mount.
// No look before the start would help, since another sandbox may run meanwhile.
func replaceable(mounts []Mount) error {
	for _, m := range mounts {
		for _, outer := range mounts {
			if outer.Writable && strings.HasPrefix(m.Source, strings.TrimSuffix(outer.Source, "/")+"/") {
				return fmt.Errorf(`[[sandbox.mount]] %s: %s lies in %s, which sandboxes may write to and so could replace it: keep it elsewhere, or mount %s with mode = "ro"`,
					m.Target, m.Source, outer.Source, outer.Target)
			}
		}
	}
	return nil
}

// plainPath walks from folder to what is below it. What is not there is no link.
func plainPath(folder, below string) error {
	at := folder
	for part := range strings.SplitSeq(below, "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link, remove it", at)
		}
	}
	return nil
}
