package wasm

import (
	"bytes"
	"io"
	"io/fs"
	"sync"
	"time"
)

// memoryFS is a flat, read-only folder: name to content.
type memoryFS map[string][]byte

// Open implements fs.FS.
func (m memoryFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		d := &memoryDir{info: memoryInfo{name: ".", mode: fs.ModeDir | 0o555}}
		for _, n := range sortedKeys(m) {
			d.left = append(d.left, fs.FileInfoToDirEntry(memoryInfo{name: n, size: int64(len(m[n])), mode: 0o444}))
		}
		return d, nil
	}
	content, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memoryFile{Reader: bytes.NewReader(content), info: memoryInfo{name: name, size: int64(len(content)), mode: 0o444}}, nil
}

type memoryFile struct {
	*bytes.Reader
	closing
	info memoryInfo
}

func (f *memoryFile) Stat() (fs.FileInfo, error) { return f.info, nil }

type memoryDir struct {
	closing
	info memoryInfo
	left []fs.DirEntry
}

func (d *memoryDir) Stat() (fs.FileInfo, error) { return d.info, nil }

// closing calls a function when the file is closed, if there is one.
type closing struct{ closed func() }

func (c *closing) Close() error {
	if c.closed != nil {
		c.closed()
	}
	return nil
}

func (c *closing) whenClosed(f func()) { c.closed = sync.OnceFunc(f) }
func (d *memoryDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *memoryDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.left)
	} else if len(d.left) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.left))
	list := d.left[:n]
	d.left = d.left[n:]
	return list, nil
}

type memoryInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return i.size }
func (i memoryInfo) Mode() fs.FileMode  { return i.mode }
func (i memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memoryInfo) Sys() any           { return nil }
