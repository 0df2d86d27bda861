package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the tests run with, set by TestMain.
var (
	root   string // of the repository
	binary string // the program, as it is shipped
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if root, err = repository(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "awaken-docs")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "awaken-host")
	// The Hand is looked for beside the host.
	for _, program := range []string{"awaken-host", "awaken-hand"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=v0.0.0-docs", "-o", dir, "./cmd/"+program) // #nosec G204 -- two programs of ours
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
	}
	return m.Run()
}

// repository is the folder of go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("go.mod is in no folder above this one")
		}
		dir = up
	}
}

// documents are the documents as paths below root.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"README.md"}
	for _, f := range found {
		names = append(names, "docs/"+filepath.Base(f))
	}
	for _, must := range []string{"ARCHITECTURE", "CONCEPTS", "OPERATIONS", "PLUGIN-AUTHORS", "POLICIES", "PROTOCOLS", "RATIONALE", "SANDBOX", "SECURITY"} {
		if !slices.Contains(names, "docs/"+must+".md") {
			t.Fatalf("docs/%s.md is missing", must)
		}
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
}

// goEnvironment keeps the caches of the go command for commands that have another
// home.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output() // #nosec G204 -- fixed arguments
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env
}
