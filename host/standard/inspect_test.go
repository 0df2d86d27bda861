package standard

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestInspectWaitsForNoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "module.wasm")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := InspectModule(pipe); err == nil || !strings.Contains(err.Error(), "is not a file: name the .wasm of a plugin") {
		t.Errorf("got %v", err)
	}
}
