package hand

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// workspace opens the workspace: what is named in it cannot lead out, also not by way
// of symbolic links that a command made. The caller closes it.
func (h *hand) workspace() (*os.Root, error) {
	root, err := os.OpenRoot(h.places.real(sandbox.WorkspaceDir))
	if err != nil {
		return nil, fmt.Errorf("the workspace cannot be opened: %w", sandbox.Bare(err))
	}
	return root, nil
}

// local is a name within the workspace, "." for itself.
func local(name string) (string, error) {
	name = path.Clean(strings.TrimPrefix(name, sandbox.WorkspaceDir+"/"))
	if name == sandbox.WorkspaceDir {
		name = "."
	}
	if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%.200q is not in the workspace: name it relative to that, without steps up", name)
	}
	return name, nil
}

// file opens the workspace for a request that names something in it. The caller closes
// the root.
func (h *hand) file(s *sandbox.Stream) (*os.Root, string, sandbox.FileParams, error) {
	var q sandbox.FileParams
	if err := s.Params(&q); err != nil {
		return nil, "", q, err
	}
	name, err := local(q.Path)
	if err != nil {
		return nil, "", q, err
	}
	root, err := h.workspace()
	return root, name, q, err
}

// list answers what is in a folder and below it, or the one file that is named.
func (h *hand) list(ctx context.Context, s *sandbox.Stream) error {
	root, name, _, err := h.file(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	infos, err := sandbox.ListTree(ctx, root, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, sandbox.Bare(err))
	}
	b, err := json.Marshal(infos)
	if err != nil {
		return err
	}
	if _, err := s.Write(b); err != nil {
		return err
	}
	return s.End(nil)
}

// get sends a file's bytes.
func (h *hand) get(s *sandbox.Stream) error {
	root, name, q, err := h.file(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, info, err := openRegular(root, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, sandbox.Bare(err))
	}
	defer func() { _ = f.Close() }()
	if q.Limit > 0 && info.Size() > q.Limit {
		return fmt.Errorf("%s has %d bytes, at most %d are wanted", name, info.Size(), q.Limit)
	}
	// It may grow meanwhile.
	n, err := io.Copy(s, io.LimitReader(f, info.Size()))
	if err != nil {
		return fmt.Errorf("%s: %w", name, sandbox.Bare(err))
	}
	return s.End(sandbox.FileInfo{Path: name, Bytes: n, Mode: info.Mode(), ModTime: info.ModTime()})
}

// openRegular opens a regular file and waits for nothing: a pipe would.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("it is no regular file (%s)", info.Mode())
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no regular file (%s)", info.Mode())
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// put writes a file under another name, and gives it its own when all of it is there.
func (h *hand) put(s *sandbox.Stream) error {
	root, name, q, err := h.file(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if name == "." {
		return errors.New("name a file of the workspace")
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("%s: its folder cannot be made: %w", name, sandbox.Bare(err))
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", name)
	}
	mode := q.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}
	most := int64(h.limits.WorkspaceMiB) << 20
	if q.Limit > 0 {
		most = min(most, q.Limit)
	}
	if err := writeWhole(root, name, mode, s, most); err != nil {
		return fmt.Errorf("%s: %w", name, sandbox.Bare(err))
	}
	return s.End(nil)
}

// writeWhole makes the file name of what r has to give, at most most bytes, or
// leaves what was there.
func writeWhole(root *os.Root, name string, mode fs.FileMode, r io.Reader, most int64) (err error) {
	temp := path.Join(path.Dir(name), ".awaken-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = root.Remove(temp)
		}
	}()
	n, err := io.Copy(f, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it is larger than the %d bytes that it may have", most)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	return err
}
