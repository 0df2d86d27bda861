package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Bounds of what is read. People write policies; what is larger is another file.
const (
	maxFileBytes   = 4 << 20
	maxTotalBytes  = 64 << 20
	maxEntries     = 20_000 // files and folders below all paths
	maxFolderDepth = 32
)

// readPatience ends reading a file that only looks regular and has nothing to say,
// as some below /proc do.
const readPatience = 5 * time.Second

var errTooLarge = errors.New("too large")

// readRegular reads a regular file of at most limit bytes. It never waits for the
// other side of a pipe: what the name stands for may change between looking and
// opening.
func readRegular(file string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if kind := special(info.Mode()); kind != "" {
		return nil, fmt.Errorf("is %s, not a file", kind)
	}
	_ = f.SetReadDeadline(time.Now().Add(readPatience)) // files on disk have none and need none
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = errTooLarge
	}
	return raw, err
}

// special names what is neither a file nor a folder; "" for those.
func special(mode fs.FileMode) string {
	switch {
	case mode.IsRegular(), mode.IsDir():
		return ""
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special"
}
