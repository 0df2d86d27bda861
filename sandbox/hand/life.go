package hand

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Install copies this program to a file, for a boundary whose image does not have it.
// The file appears whole, and anybody may run it.
func Install(file string) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	temp, err := os.CreateTemp(filepath.Dir(file), ".hand-*")
	if err != nil {
		return fmt.Errorf("install %s: %w", file, err)
	}
	defer func() {
		if err != nil {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
			err = fmt.Errorf("install %s: %w", file, err)
		}
	}()
	if _, err = io.Copy(temp, in); err != nil {
		return err
	}
	if err = temp.Chmod(0o555); err != nil {
		return err
	}
	if err = temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// Probe writes what a boundary is seen to hold from the inside, as JSON.
func Probe(ctx context.Context, w io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(probe(ctx, newPlaces(sandbox.Hello{}), sandbox.NetworkNone, program, (*exec.Cmd).Run))
}
