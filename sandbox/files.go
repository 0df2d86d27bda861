package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Files reads and writes the workspace of a session. Without a running sandbox it is
// the folder on this machine; in a running one whose workspace is inside, it is asked
// for over the channel. Its methods are safe for concurrent use.
type Files struct {
	m *Manager
	e *Environment
}

// ErrNoEnvironment reports a session that has no workspace: nothing of it ran in a
// sandbox, or its folder was removed.
var ErrNoEnvironment = errors.New("there is no workspace")

// Files returns the workspace of a session. The error is of class ErrNoEnvironment.
func (m *Manager) Files(session string) (*Files, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.sessions[session]
	if e == nil {
		return nil, fmt.Errorf("run %s: %w: none of its calls ran in a sandbox, or its folder was removed", RunOf(session), ErrNoEnvironment)
	}
	return &Files{m: m, e: e}, nil
}

// inside returns the Hand to ask, nil where the folder on this machine is asked, and
// holds the Environment as it is until release.
func (f *Files) inside(ctx context.Context) (h *hand, release func(), err error) {
	f.e.filing.Add(1)
	release = func() { f.e.filing.Add(-1) }
	h, err = f.m.quiet(ctx, f.e)
	if err != nil {
		release()
		return nil, nil, err
	}
	if h != nil && (!h.carries || !h.alive()) {
		h = nil
	}
	return h, release, nil
}

// cleanName checks the name of a file as people write it.
func cleanName(name string) (string, error) {
	clean := strings.TrimPrefix(strings.TrimPrefix(name, WorkspaceDir), "/")
	if clean == "" {
		clean = "."
	}
	clean = path.Clean(clean)
	if !fs.ValidPath(clean) || strings.ContainsRune(clean, 0) {
		return "", fmt.Errorf("%q is no name in the workspace: write it relative to %s, without \"..\"", name, WorkspaceDir)
	}
	return clean, nil
}

// maxListing bounds the answer to a listing.
const maxListing = 64 << 20

// readListing takes a Hand's answer to a listing of a folder, and nothing that is not
// below it.
func readListing(s *Stream, folder string) ([]FileInfo, error) {
	list, err := decodeList[FileInfo](io.LimitReader(struct{ io.Reader }{s}, maxListing), MaxWorkspaceEntries, "files")
	if err == nil {
		err = s.Result(nil)
	} else {
		s.Cancel(err)
	}
	if err != nil {
		return nil, fmt.Errorf("the sandbox's list of files in %s: %w", shortName(folder), err)
	}
	for i := range list {
		at := list[i].Path
		if !fs.ValidPath(at) || folder != "." && at != folder && !strings.HasPrefix(at, folder+"/") || list[i].Bytes < 0 {
			return nil, fmt.Errorf("the sandbox's list of files in %s names %s, which is not there", shortName(folder), shortName(at))
		}
	}
	return list, nil
}

// List describes what is in a folder of the workspace, and below it; "" is the
// workspace itself. Links are not followed.
func (f *Files) List(ctx context.Context, folder string) ([]FileInfo, error) {
	name, err := cleanName(folder)
	if err != nil {
		return nil, err
	}
	h, release, err := f.inside(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if h != nil {
		var list []FileInfo
		s, err := h.ch.Open(ctx, MethodList, FileParams{Path: name})
		if err == nil {
			_ = s.CloseWrite() // reading says more
			list, err = readListing(s, name)
		}
		return list, err
	}
	root, err := f.root()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return ListTree(ctx, root, name)
}

func (f *Files) root() (*os.Root, error) {
	root, err := os.OpenRoot(f.e.workspace())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("environment %s: %w", f.e.id, ErrNoEnvironment)
	}
	return root, err
}

// ListTree describes what is below a folder of root, and the folder's file where it is
// one; at most as many as a workspace may have.
func ListTree(ctx context.Context, root *os.Root, name string) ([]FileInfo, error) {
	list := []FileInfo{}
	err := fs.WalkDir(root.FS(), name, func(at string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist) && at != name:
			return nil
		case err != nil:
			return ShortError(err)
		case at == name && d.IsDir():
			return nil
		case len(list) == MaxWorkspaceEntries:
			return fmt.Errorf("there are more than %d files in %s: list a folder below it", MaxWorkspaceEntries, shortName(name))
		}
		if err := TooDeep(at); err != nil {
			return err
		}
		info, err := root.Lstat(at)
		if err != nil {
			return ignoreGone(err)
		}
		fi := FileInfo{Path: at, Bytes: info.Size(), Mode: info.Mode(), ModTime: info.ModTime()}
		if !info.Mode().IsRegular() {
			fi.Bytes = 0
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if fi.Link, err = root.Readlink(at); err != nil {
				return ignoreGone(err)
			}
		}
		list = append(list, fi)
		return nil
	})
	return list, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Get writes a regular file of the workspace to w. A link is followed within the
// workspace.
func (f *Files) Get(ctx context.Context, file string, w io.Writer) (FileInfo, error) {
	name, err := cleanName(file)
	if err != nil {
		return FileInfo{}, err
	}
	h, release, err := f.inside(ctx)
	if err != nil {
		return FileInfo{}, err
	}
	defer release()
	if h != nil {
		var info FileInfo
		most := f.m.workspaceBytes()
		s, err := h.ch.Open(ctx, MethodGet, FileParams{Path: name, Limit: most})
		if err != nil {
			return info, err
		}
		_ = s.CloseWrite()
		n, err := io.Copy(w, io.LimitReader(s, most+1))
		if err == nil && n > most {
			err = tooLarge(name, most)
		}
		if err != nil {
			s.Cancel(err)
			return info, err
		}
		return info, s.Result(&info)
	}
	root, err := f.root()
	if err != nil {
		return FileInfo{}, err
	}
	defer func() { _ = root.Close() }()
	return getFile(root, name, f.m.workspaceBytes(), w)
}

func tooLarge(name string, most int64) error {
	return fmt.Errorf("%s is larger than the workspace may be, %d bytes ([sandbox.limits].workspace_mib)", shortName(name), most)
}

// getFile writes a regular file below root, of at most so many bytes, to w. Of a file
// with holes there is more than what the disk holds.
func getFile(root *os.Root, name string, most int64, w io.Writer) (info FileInfo, err error) {
	in, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	st, err := in.Stat()
	if err != nil {
		return info, err
	}
	if !st.Mode().IsRegular() {
		return info, &fs.PathError{Op: "get", Path: name, Err: errors.New("it is no regular file")}
	}
	if st.Size() > most {
		return info, tooLarge(name, most)
	}
	n, err := io.Copy(w, io.LimitReader(in, st.Size())) // it may grow meanwhile
	return FileInfo{Path: name, Bytes: n, Mode: st.Mode(), ModTime: st.ModTime()}, err
}

// Put writes r to a file of the workspace, whole or not at all. Folders above it are
// made; a file of this name is replaced. Mode 0 is 0644.
func (f *Files) Put(ctx context.Context, file string, mode fs.FileMode, r io.Reader) error {
	name, err := cleanName(file)
	if err != nil {
		return err
	}
	if f.m.released(f.e) {
		return fmt.Errorf("environment %s was released: its session has ended, and nothing will read %s", f.e.id, name)
	}
	h, release, err := f.inside(ctx)
	if err != nil {
		return err
	}
	defer release()
	if h != nil {
		s, err := h.ch.Open(ctx, MethodPut, FileParams{Path: name, Mode: mode, Limit: f.m.workspaceBytes()})
		if err != nil {
			return err
		}
		_, werr := io.Copy(s, struct{ io.Reader }{r})
		if werr != nil {
			s.Cancel(werr)
		}
		if err := s.Result(nil); err != nil {
			return err
		}
		return werr
	}
	root, err := f.root()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return PutFile(root, name, mode, f.m.workspaceBytes(), r)
}

// PutFile writes r, of at most limit bytes (0: not bounded), to a file below root,
// whole or not at all. What it makes belongs to who the root belongs to, as far as
// this process can say so.
func PutFile(root *os.Root, name string, mode fs.FileMode, limit int64, r io.Reader) (err error) {
	if name == "." {
		return errors.New("the workspace itself is no file: name one")
	}
	if mode &= 0o777; mode == 0 {
		mode = 0o644
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return &fs.PathError{Op: "put", Path: name, Err: errors.New("it is a folder")}
	}
	temp := path.Join(path.Dir(name), ".awaken-put-"+strings.ToLower(rand.Text()[:12]))
	out, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(temp))
		}
	}()
	if limit > 0 {
		r = io.LimitReader(r, limit+1)
	}
	n, err := io.Copy(out, r)
	if err == nil && limit > 0 && n > limit {
		err = fmt.Errorf("%s is larger than %d bytes, which is all that the workspace may hold ([sandbox.limits].workspace_mib)", name, limit)
	}
	if err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := followOwner(root, name, temp); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

// followOwner gives a new file, and the folders above it, to whom the root belongs.
func followOwner(root *os.Root, name, temp string) error {
	info, err := root.Lstat(".")
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	uid, gid, ok := ownerOf(info)
	if !ok {
		return nil
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if err := root.Lchown(dir, uid, gid); err != nil {
			return err
		}
	}
	return root.Lchown(temp, uid, gid)
}
