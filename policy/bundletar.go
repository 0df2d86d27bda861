package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is unpacked. Data of a bundle is one file, so that it may be larger
// than a file on disk.
const (
	maxBundleFileBytes = 32 << 20
	maxBundleNameBytes = 512
)

// packed is a file of an archive.
type packed struct {
	name string // relative, clean, slash separated
	raw  []byte
}

// unpack reads a gzipped tar archive into memory. It takes plain files and folders with
// names that stay inside and are there once, and an archive that ends where it says:
// nothing that another reader of the same bytes could see differently.
func unpack(ctx context.Context, raw []byte) ([]packed, error) {
	gz, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is not compressed with gzip: %w", err)
	}
	stream := &bounded{ctx: ctx, r: gz, left: maxTotalBytes + 1}
	tr := tar.NewReader(stream)
	var files []packed
	seen := map[string]string{}
	for entries := 0; ; entries++ {
		if entries > maxEntries {
			return nil, fmt.Errorf("it holds more than %d files and folders", maxEntries)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // a comment of whoever packed it
		}
		name, err := clean(h.Name)
		if err != nil {
			return nil, err
		}
		kind := map[byte]string{tar.TypeReg: "file", tar.TypeDir: "folder"}[h.Typeflag]
		switch before := seen[name]; {
		case kind == "":
			return nil, fmt.Errorf("%q is neither a file nor a folder; pack plain files", name)
		case kind == "folder" && before != "file":
			seen[name] = kind
			continue
		case before != "":
			return nil, fmt.Errorf("%q is there twice", name)
		case h.Size > maxBundleFileBytes:
			return nil, fmt.Errorf("%q is larger than %d MiB", name, maxBundleFileBytes>>20)
		}
		seen[name] = kind
		data, err := io.ReadAll(tr)
		if err != nil {
			return nil, broken(err)
		}
		files = append(files, packed{name, data})
	}
	return files, atEnd(stream)
}

// atEnd reads on to the checksum, past the zeros that fill the last block.
func atEnd(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return errors.New("there is more after the end of the archive")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
	}
}

func broken(err error) error {
	if errors.Is(err, errTooLarge) {
		return fmt.Errorf("it unpacks to more than %d MiB", maxTotalBytes>>20)
	}
	return fmt.Errorf("it is damaged or was cut short: %w", err)
}

// clean returns the name of an entry as OPA's own tools and tar write it, with a
// slash or ./ in front.
func clean(name string) (string, error) {
	c := strings.TrimPrefix(strings.TrimPrefix(name, "./"), "/")
	if c = strings.TrimSuffix(c, "/"); c == "" {
		c = "." // the top folder
	}
	switch {
	case len(c) > maxBundleNameBytes:
		return "", fmt.Errorf("it has a name longer than %d bytes", maxBundleNameBytes)
	case !fs.ValidPath(c) || strings.Contains(c, `\`):
		return "", fmt.Errorf("the name %q does not stay inside the bundle", name)
	case !utf8.ValidString(c) || strings.ContainsFunc(c, unicode.IsControl):
		return "", fmt.Errorf("the name %q has characters that names of files do not need", name)
	case strings.Count(c, "/") >= maxFolderDepth:
		return "", fmt.Errorf("%q is more than %d folders deep", name, maxFolderDepth)
	}
	return c, nil
}

// bounded ends a stream that is longer than it may be, or that nobody waits for.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}
