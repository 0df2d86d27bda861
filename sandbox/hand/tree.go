package hand

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// maxTreeEntries bounds the files and folders of a tree that crosses the channel.
const maxTreeEntries = 200_000

// tree opens a folder that may be seeded or harvested. The caller closes it.
func (h *hand) tree(s *sandbox.Stream) (*os.Root, sandbox.FileParams, error) {
	var q sandbox.FileParams
	if err := s.Params(&q); err != nil {
		return nil, q, err
	}
	target := path.Clean(q.Path)
	k, known := h.places.of(target)
	// The ledger travels with an Environment whose folders are carried.
	if !known || k.name != target || target == sandbox.TempDir {
		return nil, q, fmt.Errorf("%.200q is neither %s nor a mount of this sandbox", q.Path, sandbox.WorkspaceDir)
	}
	root, err := os.OpenRoot(k.real)
	if err != nil {
		return nil, q, fmt.Errorf("%s cannot be opened: %w", target, bare(err))
	}
	return root, q, nil
}

// seed unpacks a tar.
func (h *hand) seed(ctx context.Context, s *sandbox.Stream) error {
	root, q, err := h.tree(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	most := int64(h.limits.WorkspaceMiB) << 20
	if q.Limit > 0 {
		most = min(most, q.Limit)
	}
	if err := unpack(ctx, root, s, most); err != nil {
		return fmt.Errorf("%s: %w", q.Path, err)
	}
	// The padding behind the end of the tar.
	if _, err := io.Copy(io.Discard, s); err != nil {
		return err
	}
	return s.End(nil)
}

// unpack makes what the tar describes in root: folders, regular files, and symbolic
// links that stay inside. Anything else is an error, and so is more than most bytes.
func unpack(ctx context.Context, root *os.Root, r io.Reader, most int64) error {
	t := tar.NewReader(r)
	left := most
	type stamp struct {
		name string
		mode fs.FileMode
		at   time.Time
	}
	var folders []stamp
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n >= maxTreeEntries {
			return fmt.Errorf("the archive has more than %d entries", maxTreeEntries)
		}
		name := path.Clean(strings.TrimPrefix(head.Name, "./"))
		if head.Name == "" || !filepath.IsLocal(name) || strings.ContainsRune(name, 0) || strings.Contains(head.Name, "../") {
			return fmt.Errorf("the archive has an entry %.200q, which is not inside of it", head.Name)
		}
		mode := fs.FileMode(head.Mode) & fs.ModePerm //nolint:gosec // the permission bits only
		if err := unpackEntry(root, t, head, name, mode, &left); err != nil {
			return fmt.Errorf("entry %.200q of the archive: %w", name, bare(err))
		}
		switch head.Typeflag {
		case tar.TypeDir:
			folders = append(folders, stamp{name, mode, head.ModTime})
		case tar.TypeReg:
			_ = root.Chtimes(name, head.ModTime, head.ModTime)
		}
	}
	// Last, because what is made in a folder changes its time, and a folder that may
	// not be written could not be filled.
	for i := len(folders) - 1; i >= 0; i-- {
		f := folders[i]
		if f.name == "." {
			continue
		}
		if err := root.Chmod(f.name, f.mode); err != nil {
			return fmt.Errorf("entry %.200q of the archive: %w", f.name, bare(err))
		}
		_ = root.Chtimes(f.name, f.at, f.at)
	}
	return nil
}

func unpackEntry(root *os.Root, t *tar.Reader, head *tar.Header, name string, mode fs.FileMode, left *int64) error {
	if name != "." {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
	}
	switch head.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		if head.Size > *left {
			return errors.New("the archive holds more than the folder may")
		}
		*left -= head.Size
		return writeWhole(root, name, mode, t, head.Size)
	case tar.TypeSymlink:
		if head.Linkname == "" || strings.HasPrefix(head.Linkname, "/") || !filepath.IsLocal(path.Join(path.Dir(name), head.Linkname)) {
			return fmt.Errorf("it is a link to %.200q, which is not inside of the archive", head.Linkname)
		}
		if info, err := root.Lstat(name); err == nil && !info.IsDir() {
			if err := root.Remove(name); err != nil {
				return err
			}
		}
		return root.Symlink(head.Linkname, name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("its type is %q: folders, regular files and symbolic links are unpacked", head.Typeflag)
}

// skipped is the result of a harvest: what was left out, because no archive of ours
// holds it.
type skipped struct {
	Skipped []string `json:"skipped,omitempty"` // the first ones, with the reason
	Count   int      `json:"count"`
}

const maxSkippedNamed = 20

func (s *skipped) add(name, reason string) {
	if s.Count++; len(s.Skipped) < maxSkippedNamed {
		s.Skipped = append(s.Skipped, fmt.Sprintf("%.200q: %s", name, reason))
	}
}

// harvest packs a folder.
func (h *hand) harvest(ctx context.Context, s *sandbox.Stream) error {
	root, q, err := h.tree(s)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	t := tar.NewWriter(s)
	var out skipped
	if err := pack(ctx, root, t, q.Limit, &out); err != nil {
		return fmt.Errorf("%s: %w", q.Path, err)
	}
	if err := t.Close(); err != nil {
		return err
	}
	if out.Count > 0 {
		h.o.Logger.Warn("some of a folder cannot be packed", "folder", q.Path, "count", out.Count, "first", out.Skipped)
	}
	return s.End(out)
}

// pack writes what is in root. limit bounds the bytes of all files, 0: not.
func pack(ctx context.Context, root *os.Root, t *tar.Writer, limit int64, out *skipped) error {
	entries, total := 0, int64(0)
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if name == "." {
			return err
		}
		if err != nil {
			out.add(name, bare(err).Error())
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := root.Lstat(name)
		if err != nil {
			return nil // gone since
		}
		if entries++; entries > maxTreeEntries {
			return fmt.Errorf("it has more than %d files and folders", maxTreeEntries)
		}
		if total += info.Size(); limit > 0 && info.Mode().IsRegular() && total > limit {
			return fmt.Errorf("it has more than the %d bytes that are wanted", limit)
		}
		return packEntry(root, t, name, info, out)
	})
}

func packEntry(root *os.Root, t *tar.Writer, name string, info fs.FileInfo, out *skipped) error {
	head := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch mode := info.Mode(); {
	case mode.IsDir():
		head.Typeflag, head.Name = tar.TypeDir, name+"/"
		return t.WriteHeader(head)
	case mode&fs.ModeSymlink != 0:
		link, err := root.Readlink(name)
		if err != nil {
			return nil // gone since
		}
		if strings.HasPrefix(link, "/") || !filepath.IsLocal(path.Join(path.Dir(name), link)) {
			out.add(name, fmt.Sprintf("it is a link to %.200q, which is outside", link))
			return nil
		}
		head.Typeflag, head.Linkname = tar.TypeSymlink, link
		return t.WriteHeader(head)
	case !mode.IsRegular():
		out.add(name, "it is neither a folder, a regular file nor a symbolic link ("+mode.Type().String()+")")
		return nil
	}
	f, info, err := openRegular(root, name)
	if err != nil {
		out.add(name, bare(err).Error())
		return nil
	}
	defer func() { _ = f.Close() }()
	head.Typeflag, head.Size = tar.TypeReg, info.Size()
	if err := t.WriteHeader(head); err != nil {
		return err
	}
	// A file that shrinks meanwhile is filled up: its size is written already.
	n, err := io.CopyN(t, f, head.Size)
	if errors.Is(err, io.EOF) {
		out.add(name, "it was cut short while it was read")
		_, err = io.CopyN(t, zeros{}, head.Size-n)
	}
	return err
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
