package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// readPatience ends reading a file that only looks regular and has nothing to say,
// as some below /proc do.
const readPatience = 5 * time.Second

// readFile reads a regular file, and one byte more than Parse takes if it is larger.
// It never waits for the other side of a pipe, and does not touch devices.
func readFile(file string) ([]byte, error) {
	fail := func(err error, what, remedy string) error {
		return &Error{Problems: []Problem{{File: file, What: what, Remedy: remedy, cause: err}}}
	}
	const missing, nameOne = "name one with -c, or make one with: awaken-host init", "name a host.toml file"
	info, err := os.Stat(file)
	if err == nil {
		if kind := special(info.Mode()); kind != "" {
			return nil, fail(nil, "is "+kind+", not a file", nameOne)
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(err, "there is no such file", missing)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(err, "there is no such file", missing)
	}
	if err != nil {
		return nil, fail(err, "cannot be opened: "+reason(err), "let the user of this process read it")
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, fail(err, "cannot be read: "+reason(err), nameOne)
	}
	if kind := special(info.Mode()); kind != "" { // since the look above
		return nil, fail(nil, "is "+kind+", not a file", nameOne)
	}
	_ = f.SetReadDeadline(time.Now().Add(readPatience)) // files on disk have none and need none
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fail(err, "cannot be read: "+reason(err), nameOne)
	}
	return data, nil
}

// special names what is no regular file; "" for one.
func special(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special"
}

// reason leaves out operation and file name, which the problem has already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
