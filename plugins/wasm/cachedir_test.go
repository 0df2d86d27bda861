package wasm

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCacheDirMustBePrivate(t *testing.T) {
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, dir string)
	}{
		{"fresh", "", func(t *testing.T, dir string) { os.Remove(dir) }},
		{"private", "", func(t *testing.T, dir string) { os.Chmod(dir, 0o700) }},
		{"readable by the group", "has mode 0750", func(t *testing.T, dir string) { os.Chmod(dir, 0o750) }},
		{"writable by all", "has mode 0777", func(t *testing.T, dir string) { os.Chmod(dir, 0o777) }},
		{"a link", "symbolic link", func(t *testing.T, dir string) {
			os.Remove(dir)
			os.Symlink(t.TempDir(), dir)
		}},
		{"a file", "not a directory", func(t *testing.T, dir string) {
			os.Remove(dir)
			os.WriteFile(dir, nil, 0o600)
		}},
		{"a writable entry", "entry has mode 0666", func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "entry"), nil, 0o600)
			os.Chmod(filepath.Join(dir, "entry"), 0o666)
		}},
		{"a link inside", "symbolic link", func(t *testing.T, dir string) { os.Symlink("/etc/passwd", filepath.Join(dir, "entry")) }},
		{"another owner", "belongs to user 12345", func(t *testing.T, dir string) {
			if err := os.Chown(dir, 12345, 12345); err != nil {
				t.Skip("changing an owner needs root: run the tests as root")
			}
		}},
		{"another owner inside", "belongs to user 12345", func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "entry"), nil, 0o600)
			if err := os.Chown(filepath.Join(dir, "entry"), 12345, 12345); err != nil {
				t.Skip("changing an owner needs root: run the tests as root")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c.make(t, dir)
			r, err := New(context.Background(), Options{CacheDir: dir})
			if err == nil {
				defer r.Close(context.Background())
			}
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if info, err := os.Stat(dir); c.want == "" && (err != nil || info.Mode().Perm() != 0o700) {
				t.Errorf("the folder: %v %v", info, err)
			}
		})
	}
}

func TestCacheIsUsedAndRepaired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	load := func(log *strings.Builder) {
		t.Helper()
		r, err := New(context.Background(), Options{CacheDir: dir, Logger: logTo(log)})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close(context.Background())
		good(t, newRig(t, r, guestPlugin(t)).call("echo", `1`), "1")
	}
	entries := func() (files []string) {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		return files
	}
	var log strings.Builder
	load(&log)
	if len(entries()) == 0 {
		t.Fatal("nothing was cached")
	}
	for _, f := range entries() {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
		// As a full disk would leave it.
		if err := os.Truncate(f, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
	load(&log)
	if !strings.Contains(log.String(), "compilation cache could not be used") {
		t.Errorf("a damaged cache was used, or nobody was told: %s", log.String())
	}
}
