package sandbox

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// MountSpec is what an operator wants to have in every sandbox: one of Folder, File and
// Archive, absolute, at Target.
type MountSpec struct {
	Target string // absolute and clean, inside the boundary
	Folder string
	File   string
	// Archive is a tar, tar.gz or zip with this SHA-256 (hex). It is unpacked once, and
	// read-only in every sandbox.
	Archive string
	SHA256  string
	Mode    string // "ro" (also when empty) or "rw"
}

// Bounds of an archive, unpacked.
const maxArchiveBytes = 4 << 30

// archivesFolder holds what was unpacked, by digest.
const archivesFolder = "archives"

// resolveMounts makes what the operator wants ready to be mounted. Archives are
// unpacked below dir.
func resolveMounts(dir string, specs []MountSpec) ([]Mount, error) {
	var mounts []Mount
	for _, s := range specs {
		m, err := s.resolve(dir)
		if err != nil {
			return nil, fmt.Errorf("[[sandbox.mount]] %s: %w", s.Target, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, replaceable(mounts)
}

func (s *MountSpec) resolve(dir string) (Mount, error) {
	m := Mount{Target: s.Target, Writable: s.Mode == "rw"}
	if !path.IsAbs(s.Target) || path.Clean(s.Target) != s.Target || s.Target == "/" {
		return m, errors.New("the target is not an absolute path in its shortest form")
	}
	if s.Target == HandDir || strings.HasPrefix(s.Target, HandDir+"/") {
		return m, fmt.Errorf("%s is the Hand's own: choose another target", HandDir)
	}
	if s.Mode != "" && s.Mode != "ro" && s.Mode != "rw" {
		return m, fmt.Errorf(`the mode is %q: write "ro" or "rw"`, s.Mode)
	}
	given := 0
	for _, what := range []string{s.Folder, s.File, s.Archive} {
		if what != "" {
			given++
			m.Source = what
		}
	}
	if given != 1 {
		return m, errors.New("it needs one of folder, file and archive")
	}
	if !filepath.IsAbs(m.Source) {
		return m, fmt.Errorf("%s is not absolute", m.Source)
	}
	var err error
	if s.Archive != "" {
		if m.Writable {
			return m, errors.New(`an archive is shared by all sandboxes and cannot be "rw": unpack it into a folder, or write "ro"`)
		}
		if m.Source, err = unpackArchive(dir, s.Archive, s.SHA256); err == nil {
			m.Source, err = filepath.EvalSymlinks(m.Source)
		}
		return m, err
	}
	if m.Source, err = filepath.EvalSymlinks(m.Source); err != nil {
		return m, err
	}
	info, err := os.Stat(m.Source)
	switch {
	case err != nil:
		return m, err
	case s.Folder != "" && !info.IsDir():
		return m, fmt.Errorf("%s is no folder: write it as file", s.Folder)
	case s.File != "" && !info.Mode().IsRegular():
		return m, fmt.Errorf("%s is no regular file", s.File)
	}
	return m, nil
}

// unpackArchive returns the folder with what is in an archive. It is unpacked when it
// is not there yet: whole, or not at all.
func unpackArchive(dir, file, sum string) (string, error) {
	sum = strings.ToLower(sum)
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", errors.New("an archive needs its sha256, 64 hexadecimal digits: `sha256sum FILE` prints it")
	}
	at := filepath.Join(dir, archivesFolder, sum)
	if info, err := os.Lstat(at); err == nil && info.IsDir() {
		return at, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(filepath.Dir(at), ".unpacking-")
	if err != nil {
		return "", err
	}
	defer func() { _ = RemoveTree(temp) }()
	if err := unpackVerified(f, sum, temp); err != nil {
		return "", fmt.Errorf("archive %s: %w", file, err)
	}
	// Whoever the Hand runs as reads it.
	if err := os.Chmod(temp, 0o755); err != nil { //nolint:gosec // it lies in a folder of 0700, and is mounted
		return "", err
	}
	if err := os.Rename(temp, at); err != nil {
		return "", err
	}
	return at, syncDir(filepath.Dir(at))
}

// unpackVerified unpacks f after its bytes were held against the digest. It is read
// twice through the same handle; a file that changes between gives another digest the
// second time, and is refused.
func unpackVerified(f *os.File, sum, into string) error {
	if err := verify(f, sum); err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	head := make([]byte, 4)
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	whole := io.NewSectionReader(f, 0, 1<<62)
	bounds := TreeBounds{Bytes: maxArchiveBytes}
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		err = unpackZip(f, root, bounds)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		var z *gzip.Reader
		if z, err = gzip.NewReader(bufio.NewReader(whole)); err == nil {
			// What is unpacked is bounded, and what an archive may have between its files, too.
			err = UnpackTree(io.LimitReader(z, maxArchiveBytes+maxEntries*2048), root, bounds)
		}
	default:
		err = UnpackTree(whole, root, bounds)
	}
	if err != nil {
		return err
	}
	if err := verify(f, sum); err != nil {
		return err
	}
	return makeReadable(root)
}

func verify(f *os.File, sum string) error {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("its sha256 is %s, and %s was expected", got, sum)
	}
	return nil
}

// makeReadable lets everybody read what was unpacked, and nobody but its owner change
// it.
func makeReadable(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()&0o755 | 0o444
		if d.IsDir() {
			mode |= 0o111
		}
		return root.Chmod(name, mode)
	})
}

// unpackZip hands a zip on as the tar that it could have been.
func unpackZip(f *os.File, root *os.Root, b TreeBounds) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		err := zipToTar(out, z)
		_ = w.CloseWithError(errors.Join(err, out.Close()))
	}()
	err = UnpackTree(r, root, b)
	_ = r.CloseWithError(err)
	return err
}

func zipToTar(out *tar.Writer, z *zip.Reader) error {
	for _, f := range z.File {
		info := f.FileInfo()
		if f.UncompressedSize64 > maxArchiveBytes {
			return fmt.Errorf("%q is larger than %d bytes", f.Name, int64(maxArchiveBytes))
		}
		h := &tar.Header{Name: f.Name, Mode: int64(info.Mode().Perm() | 0o400), ModTime: f.Modified, Size: int64(f.UncompressedSize64), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		switch info.Mode().Type() {
		case fs.ModeDir:
			h.Typeflag, h.Size = tar.TypeDir, 0
		case fs.ModeSymlink, 0:
		default:
			return fmt.Errorf("%q is neither a folder, a regular file nor a symbolic link", f.Name)
		}
		if err := zipEntry(out, f, h, info.Mode().Type() == fs.ModeSymlink); err != nil {
			return err
		}
	}
	return nil
}

const maxLink = 4096

func zipEntry(out *tar.Writer, f *zip.File, h *tar.Header, link bool) error {
	if h.Typeflag == tar.TypeDir {
		return out.WriteHeader(h)
	}
	body, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if link {
		to, err := io.ReadAll(io.LimitReader(body, maxLink))
		if err != nil {
			return err
		}
		h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, string(to)
		return out.WriteHeader(h)
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	// The writer refuses more than the size, and fewer bytes than that, too.
	_, err = io.Copy(out, body) //nolint:gosec // bounded by the header's size
	return err
}
