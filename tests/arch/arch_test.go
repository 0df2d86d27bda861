package arch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module "+Module+"\n") {
		t.Fatalf("%s is not the top of %s: %v", dir, Module, err)
	}
	return dir
}

func TestImports(t *testing.T) {
	g, err := LoadGraph(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{"batch", "batch/badgerstore", "plugins/wasm", "policy", "host", "host/standard", "cmd/awaken-host"} {
		if len(g[must]) == 0 {
			t.Errorf("%s was not read", must)
		}
	}
	for _, bad := range House.Check(g) {
		t.Error(bad)
	}
}

// What a program links is more than what its packages import, and differs between
// the systems that we build for.
func TestLinks(t *testing.T) {
	dir, checked := root(t), 0
	for _, l := range House.Links {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(l.Path))); err != nil {
			continue
		}
		for _, system := range []string{"linux", "darwin"} {
			cmd := exec.Command("go", "list", "-deps", "./"+l.Path)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("go list for %s on %s: %v\n%s", l.Path, system, err, stderr.Bytes())
			}
			deps := strings.Fields(string(out))
			if !slices.Contains(deps, Module+"/"+l.Path) {
				t.Fatalf("go list for %s on %s does not list the package itself", l.Path, system)
			}
			for _, bad := range House.CheckLinks(l.Path, system, deps) {
				t.Error(bad)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("no package of the rules is there")
	}
}

func TestTopLevel(t *testing.T) {
	entries := topLevel(t, root(t))
	if !slices.Contains(entries, "go.mod") {
		t.Fatalf("go.mod is not among %v", entries)
	}
	for _, bad := range House.CheckTop(entries) {
		t.Error(bad)
	}
}

// topLevel lists what is committed, or in an unpacked archive what is there except
// for what the Makefile builds.
func topLevel(t *testing.T, dir string) []string {
	t.Helper()
	seen := map[string]bool{}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		cmd := exec.Command("git", "ls-files", "-z")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git ls-files: %v", err)
		}
		for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			first, _, _ := strings.Cut(file, "/")
			seen[first] = true
		}
	} else {
		there, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range there {
			seen[e.Name()] = e.Name() != "bin"
		}
	}
	var entries []string
	for name, counts := range seen {
		if counts {
			entries = append(entries, name)
		}
	}
	slices.Sort(entries)
	return entries
}
