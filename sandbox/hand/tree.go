package hand

import (
	"fmt"
	"io"
	"os"
	"path"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// tree opens a folder that may be seeded or harvested. The caller closes it.
func (h *hand) tree(s *sandbox.Stream) (*os.Root, sandbox.FileParams, error) {
	var q sandbox.FileParams
	if err := s.Params(&q); err != nil {
		return nil, q, err
	}
	target := path.Clean(q.Path)
	k, known := h.places.of(target)
	// The ledger travels with an Environment whose folders are carried.
	if !known || k.name != target || target == sandbox.TempDir || target == sandbox.CodeDir {
		return nil, q, fmt.Errorf("%.200q is neither %s nor a mount of this sandbox", q.Path, sandbox.WorkspaceDir)
	}
	root, err := os.OpenRoot(k.real)
	if err != nil {
		return nil, q, fmt.Errorf("%s cannot be opened: %w", target, sandbox.Bare(err))
	}
	return root, q, nil
}

// seed unpacks a tar. The workspace's limit holds for each folder.
func (h *hand) seed(s *sandbox.Stream) error {
	root, q, err := h.tree(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	most := int64(h.limits.WorkspaceMiB) << 20
	if q.Limit > 0 {
		most = min(most, q.Limit)
	}
	if err := sandbox.UnpackTree(s, root, sandbox.TreeBounds{Bytes: most, Entries: sandbox.MaxWorkspaceEntries}); err != nil {
		return fmt.Errorf("%s: %w", q.Path, err)
	}
	return s.End(nil)
}

// harvest packs a folder. What no archive of ours holds is left out, and named in the
// log.
func (h *hand) harvest(s *sandbox.Stream) error {
	root, q, err := h.tree(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	w := io.Writer(s)
	if q.Limit > 0 {
		w = &bounded{w: s, left: q.Limit}
	}
	left, err := sandbox.PackTree(w, root)
	if err != nil {
		return fmt.Errorf("%s: %w", q.Path, err)
	}
	if len(left) > 0 {
		h.o.Logger.Warn("some of a folder cannot be packed: it is neither a folder, a regular file nor a symbolic link",
			"folder", q.Path, "count", len(left), "first", left[:min(len(left), 20)])
	}
	return s.End(nil)
}

// bounded fails once more than so many bytes are written.
type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("it is larger than what is wanted of it")
	}
	return b.w.Write(p)
}
