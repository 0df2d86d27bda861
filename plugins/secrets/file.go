package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/awaken-agents/awaken-host/plugins"
)

// File is a file of the host, by name. Links are followed: that is how orchestrators
// mount secrets, and how they swap them.
type File string

const worldWritable, worldReadable fs.FileMode = 0o002, 0o004

// Resolve implements plugins.SecretSource. It refuses what is not a regular file, and
// a file that every user may write to: the value would be anybody's choice.
func (f File) Resolve(context.Context) ([]byte, error) {
	file, err := f.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	value, err := io.ReadAll(io.LimitReader(file, plugins.MaxSecretBytes+lineEnd+1))
	if err != nil {
		return nil, reason(err)
	}
	return value, nil
}

// Check reports what keeps the file from being read, and that every user can read it.
func (f File) Check() error {
	file, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return reason(err)
	}
	if info.Mode()&worldReadable != 0 {
		return fmt.Errorf("every user of this machine can read it (its mode is %#o): chmod o= %s", info.Mode().Perm(), string(f))
	}
	return nil
}

func (f File) open() (*os.File, error) {
	// Without O_NONBLOCK a pipe of this name would hold the call up.
	file, err := os.OpenFile(string(f), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, reason(err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = reason(err)
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Mode()&worldWritable != 0:
		err = fmt.Errorf("every user of this machine can write to it (its mode is %#o): chmod o= %s", info.Mode().Perm(), string(f))
	default:
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}

// String implements plugins.SecretSource.
func (f File) String() string { return "file " + string(f) }

// reason leaves out operation and name, which the message around it has already.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
