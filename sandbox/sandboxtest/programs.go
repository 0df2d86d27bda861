package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
)

// Hand builds the Hand as it is shipped, once for each test process, and returns the
// absolute path of its file.
func Hand(t testing.TB) string {
	t.Helper()
	return built(t, buildHand)
}

// hostile builds the program that Escapes runs inside.
func hostile(t testing.TB) string {
	t.Helper()
	return built(t, buildHostile)
}

var (
	buildHand    = sync.OnceValues(func() (string, error) { return build("awaken-hand", "./cmd/awaken-hand") })
	buildHostile = sync.OnceValues(func() (string, error) { return build("escape", "./sandbox/sandboxtest/escape") })
)

func built(t testing.TB, f func() (string, error)) string {
	t.Helper()
	name, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// build puts a static program below bin of the repository. Test processes that do it
// at once each put a whole one in place.
func build(name, source string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "sandboxtest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	fresh := fmt.Sprintf("%s.%d", file, os.Getpid())
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", fresh, source) //nolint:gosec,noctx // fixed arguments; the build has its own end
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", source, err, out)
	}
	return file, os.Rename(fresh, file)
}

// repository is the folder of go.mod: a test starts in the folder of its package.
var repository = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod here or above: %w", err)
		}
		dir = filepath.Dir(dir)
	}
})
