package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// HandImage is our own image, with the Hand as it is now: name@sha256:…, good for
// every engine that runs for tests. It is built and loaded once for each test process.
func HandImage(t testing.TB) string {
	t.Helper()
	loading.Lock()
	defer loading.Unlock()
	if loaded != "" {
		return loaded
	}
	loaded = Engines(t).Load(t, HandArchive(t))
	return loaded
}

// HandArchive makes the Hand's image, as a tar of an OCI layout, and returns its path.
// It is gone after the test.
func HandArchive(t testing.TB) string {
	t.Helper()
	hand := Hand(t)
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	tar := filepath.Join(t.TempDir(), "image.tar")
	cmd := exec.Command("go", "run", "./packaging/image", "-hand", hand, "-arch", runtime.GOARCH, "-out", tar) //nolint:gosec,noctx // fixed arguments; the build has its own end
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return tar
}

var (
	loading sync.Mutex
	loaded  string
)
