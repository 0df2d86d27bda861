package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// plainTargets refuses a mount whose target leads through a symbolic link of the
// workspace or of an earlier mount. Earlier calls can have left one there, and bwrap
// follows it while it still sees the whole machine. Nothing of the Environment runs
// when this looks.
func plainTargets(spec *sandbox.Spec) error {
	inside := []sandbox.Mount{
		{Source: spec.State, Target: sandbox.StateDir},
		{Source: spec.Workspace, Target: sandbox.WorkspaceDir},
	}
	for _, m := range spec.Mounts {
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
