package plugins

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"
)

// openForRead does not wait for a writer when the name is a pipe.
const openForRead = os.O_RDONLY | syscall.O_NONBLOCK

// openRegular opens by open and refuses everything that is not a regular file.
func openRegular(open func() (*os.File, error)) (*os.File, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readBounded(f *os.File, limit int64) ([]byte, error) {
	var data []byte
	if st, err := f.Stat(); err == nil && st.Size() < limit {
		data = make([]byte, 0, st.Size()+1)
	}
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := f.Read(data[len(data):min(cap(data), int(limit)+1)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, fmt.Errorf("larger than %d bytes", limit)
		}
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// readIn reads a regular file of at most limit bytes below root. Links are
// followed as long as they stay below root.
func readIn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(func() (*os.File, error) { return root.OpenFile(name, openForRead, 0) })
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, limit)
}

// replaceIn writes a file below root so that a reader sees the old or the new
// content and a crash leaves one of them.
func replaceIn(root *os.Root, name string, data []byte, mode os.FileMode) (err error) {
	temp := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()[:10])
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(temp))
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return root.Rename(temp, name)
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
