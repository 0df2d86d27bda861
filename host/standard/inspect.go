package standard

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/awaken-agents/awaken-host/plugins/wasm"
)

// Inspection is what can be read from a module.
type Inspection = wasm.Inspection

// maxModule is more than any module that can be loaded.
const maxModule = 256 << 20

// InspectModule reads the module in file, without running or compiling it. The error
// says why no manifest could make it run, and what to do.
func InspectModule(file string) (*Inspection, error) {
	// A pipe that nobody writes to must not hold this up in the opening.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, setupError{err}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, setupError{fmt.Errorf("%s is not a file: name the .wasm of a plugin", file)}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxModule+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(b) > maxModule {
		return nil, setupError{fmt.Errorf("%s is larger than %d MiB, and no module of that size is loaded", file, maxModule>>20)}
	}
	i, err := wasm.Inspect(file, b)
	if err != nil {
		return nil, setupError{fmt.Errorf("%s: %w", file, err)}
	}
	if i.Refused != nil {
		i.Refused = setupError{fmt.Errorf("%s: %w", file, i.Refused)}
	}
	return i, nil
}
