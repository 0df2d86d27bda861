package sandbox

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TreeBounds bound what UnpackTree writes.
type TreeBounds struct {
	Bytes   int64 // of all files together; 0: not bounded
	Entries int   // files, folders and links; 0: 100,000
	// LeaveOut is told of links that lead out, which are then left out. Nil: they are an
	// error.
	LeaveOut func(name string)
}

const maxEntries = 100_000

// Bounds of a workspace, besides its limit in bytes: its files and folders together, and
// how many folders may be in one another.
const (
	MaxWorkspaceEntries = 200_000
	MaxDepth            = 100
)

// Bounds of what UnpackTree keeps in memory: a name, and those of all folders together.
const (
	maxPath        = 4096
	maxFolderNames = 64 << 20
)

// TooDeep is an error for the slash separated name of what is deeper in a workspace, or
// an archive, than MaxDepth folders.
func TooDeep(name string) error {
	if strings.Count(name, "/") < MaxDepth {
		return nil
	}
	return fmt.Errorf("%s is in more than %d folders", shortName(name), MaxDepth)
}

// shortName is a name for an error: the middle of a long one is left out.
func shortName(name string) string {
	const ends = 60
	if len(name) > 3*ends {
		name = name[:ends] + "…" + name[len(name)-ends:]
	}
	return strconv.Quote(strings.ToValidUTF8(name, ""))
}

// Bare is err without the names that it is of, where whoever reads it knows others.
func Bare(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// ShortError is err with the name that it is of shortened where that is long.
func ShortError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s %s: %w", p.Op, shortName(p.Path), p.Err)
	}
	return err
}

// PackTree writes the folders, regular files and symbolic links below root as a tar,
// with their modes and times, and no owner. What else is there (sockets, devices,
// pipes) is left out and its names returned. A file that changes meanwhile is packed
// with the length it had: cut, or filled up with zeros. Links are not followed.
func PackTree(w io.Writer, root *os.Root) (left []string, err error) {
	out := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != ".":
			return nil // it went meanwhile
		case err != nil:
			return ShortError(err)
		case name == ".":
			return nil
		}
		if err := carriable(name); err != nil {
			return err
		}
		packed, err := packEntry(out, root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !packed {
			left = append(left, name)
		}
		return ShortError(err)
	})
	return left, errors.Join(err, out.Close())
}

// carriable is an error for a name that PackTree does not pack, because UnpackTree would
// not take it.
func carriable(name string) error {
	if err := TooDeep(name); err != nil || len(name) <= maxPath {
		return err
	}
	return fmt.Errorf("%s has a name of more than %d bytes", shortName(name), maxPath)
}

func packEntry(out *tar.Writer, root *os.Root, name string) (packed bool, err error) {
	info, err := root.Lstat(name)
	if err != nil {
		return false, err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return true, out.WriteHeader(h)
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err != nil {
			return false, err
		}
		return true, out.WriteHeader(h)
	case 0:
	default:
		return false, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, err // it was another thing a moment ago
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := out.WriteHeader(h); err != nil {
		return false, err
	}
	n, err := io.CopyN(out, f, h.Size)
	if errors.Is(err, io.EOF) {
		_, err = io.CopyN(out, zeros{}, h.Size-n)
	}
	return true, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// UnpackTree unpacks a tar below root, where nothing of it can land outside: names are
// relative and without "..", links may only lead to what is below root, and no folder
// of the way is a link. It refuses anything but folders, regular files and symbolic
// links, and stops with an error at the bounds. What is there is replaced, except
// folders. What was written until an error stays.
func UnpackTree(r io.Reader, root *os.Root, b TreeBounds) error {
	if b.Entries <= 0 {
		b.Entries = maxEntries
	}
	in := tar.NewReader(r)
	var folders []unpackedFolder // their times and modes last
	left, names := b.Bytes, 0
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the archive cannot be read: %w", err)
		}
		if n == b.Entries {
			return fmt.Errorf("the archive has more than %d entries", b.Entries)
		}
		name, err := entryName(h.Name)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg && b.Bytes > 0 {
			if left -= h.Size; left < 0 {
				return fmt.Errorf("the archive holds more than %d bytes, at %s", b.Bytes, shortName(h.Name))
			}
		}
		if h.Typeflag == tar.TypeDir && name != "." {
			if names += len(name); names > maxFolderNames {
				return fmt.Errorf("the names of the archive's folders have more than %d bytes together, at %s", maxFolderNames, shortName(name))
			}
			folders = append(folders, unpackedFolder{name, fs.FileMode(h.Mode)&0o777 | 0o700, h.ModTime}) //nolint:gosec // masked
		}
		if h.Typeflag == tar.TypeSymlink && leadsOut(name, h.Linkname) && b.LeaveOut != nil {
			b.LeaveOut(name)
			continue
		}
		if err := unpackEntry(in, root, h, name); err != nil {
			return fmt.Errorf("the archive's entry %s: %w", shortName(name), Bare(err))
		}
	}
	// Whoever packed goes on with the trailer, and must not find nobody there.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	for _, f := range slices.Backward(folders) {
		if err := errors.Join(root.Chmod(f.name, f.mode), root.Chtimes(f.name, f.time, f.time)); err != nil {
			return ShortError(err)
		}
	}
	return nil
}

// unpackedFolder is what is kept of an entry: a header may be large.
type unpackedFolder struct {
	name string
	mode fs.FileMode
	time time.Time
}

// entryName checks a name of an archive.
func entryName(name string) (string, error) {
	clean := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if clean == "" || clean == "." {
		return ".", nil
	}
	if !fs.ValidPath(clean) || strings.ContainsAny(clean, "\x00\\") {
		return "", fmt.Errorf("the archive names %s, which is not a plain relative name", shortName(name))
	}
	if err := carriable(clean); err != nil {
		return "", fmt.Errorf("the archive's entry %w", err)
	}
	return clean, nil
}

func unpackEntry(in io.Reader, root *os.Root, h *tar.Header, name string) error {
	if name == "." {
		return nil
	}
	if dir := path.Dir(name); dir != "." {
		if err := makeFolder(root, dir); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return makeFolder(root, name)
	case tar.TypeReg:
		if err := removeFile(root, name); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in)
		mode := fs.FileMode(h.Mode) & 0o777 //nolint:gosec // masked
		return errors.Join(err, f.Chmod(mode), f.Close(), root.Chtimes(name, h.ModTime, h.ModTime))
	case tar.TypeSymlink:
		if leadsOut(name, h.Linkname) {
			return fmt.Errorf("it is a link to %.200q, which leads out", h.Linkname)
		}
		if err := removeFile(root, name); err != nil {
			return err
		}
		return root.Symlink(h.Linkname, name)
	}
	return errors.New("it is neither a folder, a regular file nor a symbolic link")
}

// leadsOut reports whether a link of this name may lead out of the root. Steps up are
// harmless at the beginning only, where they begin in a real folder: after a name,
// that may be of another link.
func leadsOut(name, to string) bool {
	depth := strings.Count(name, "/")
	steps := strings.Split(to, "/")
	for len(steps) > 0 && (steps[0] == ".." || steps[0] == ".") {
		if steps[0] == ".." {
			depth--
		}
		steps = steps[1:]
	}
	return depth < 0 || to == "" || path.IsAbs(to) || slices.Contains(steps, "..")
}

// makeFolder makes a folder and those above it. What is in the way must not be a link:
// what follows would land elsewhere.
func makeFolder(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return errors.New("something that is no folder is in its way")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if dir := path.Dir(name); dir != "." {
		if err := makeFolder(root, dir); err != nil {
			return err
		}
	}
	return root.Mkdir(name, 0o700)
}

func removeFile(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a folder is in its place")
	}
	return root.Remove(name)
}
