package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deepTree makes folders in one another, each with a file beside, and returns the depth
// it got to.
func deepTree(t *testing.T, dir, name string, levels int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		f, err := root.Create("file")
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if err := root.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := root.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = root.Close()
		root = below
	}
	_ = root.Close()
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// fewDescriptors is a limit that whoever opens each level of a deep folder runs into.
func fewDescriptors(t *testing.T) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(256, was.Cur), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}

func TestRemoveTree(t *testing.T) {
	fewDescriptors(t)
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, make := range map[string]func(dir string){
		"empty":            func(string) {},
		"deep":             func(dir string) { deepTree(t, dir, "a", 3000) },
		"too long a name":  func(dir string) { deepTree(t, dir, strings.Repeat("n", 255), 100) },
		"several branches": func(dir string) { deepTree(t, dir, "a", 20); deepTree(t, filepath.Join(dir, "a", "a"), "b", 20) },
		"many": func(dir string) {
			for i := range entriesAtOnce + 10 {
				must(os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700))
				must(os.WriteFile(filepath.Join(dir, fmt.Sprint(i), "f"), nil, 0o600))
			}
		},
		"links": func(dir string) {
			must(os.Symlink(outside, filepath.Join(dir, "out")))
			must(os.Mkdir(filepath.Join(dir, "d"), 0o700))
			must(os.Symlink(outside, filepath.Join(dir, "d", "out")))
			must(os.Symlink("nowhere", filepath.Join(dir, "d", "dangling")))
			must(os.Link(kept, filepath.Join(dir, "d", "hard")))
		},
		"odd names": func(dir string) {
			for _, n := range []string{"\xff\xfe", "a\\b", "\n", "-rf", " "} {
				must(os.Mkdir(filepath.Join(dir, n), 0o700))
				must(os.WriteFile(filepath.Join(dir, n, n), nil, 0o600))
			}
		},
		"closed folders": func(dir string) {
			must(os.MkdirAll(filepath.Join(dir, "a", "b", "c"), 0o700))
			must(os.WriteFile(filepath.Join(dir, "a", "b", "c", "f"), nil, 0))
			for _, d := range []string{"a/b/c", "a/b", "a", "."} {
				must(os.Chmod(filepath.Join(dir, d), 0))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			must(os.Mkdir(dir, 0o700))
			make(dir)
			before := descriptors(t)
			if err := RemoveTree(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("it is there: %v", err)
			}
			if n := descriptors(t); n > before {
				t.Errorf("%d descriptors more are open", n-before)
			}
		})
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("what links lead to: %v", err)
	}
	for name, at := range map[string]string{"nothing": filepath.Join(outside, "nothing"), "a file": kept} {
		if err := RemoveTree(at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(at); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	link := filepath.Join(outside, "link")
	target := filepath.Join(outside, "target")
	must(os.Mkdir(target, 0o700))
	must(os.Symlink(target, link))
	if err := RemoveTree(link); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(target); err != nil || info.Mode()&fs.ModeDir == 0 {
		t.Errorf("what a link leads to: %v", err)
	}
}
