package wasm

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stamps are the files below dir, by name.
func stamps(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	list := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list[path] = info.ModTime()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Code that was made ahead is found: else it would be compiled again, which writes to
// the folder of a test.
func TestCodeMadeAhead(t *testing.T) {
	p := guestPlugin(t)
	dir := filepath.Join(t.TempDir(), "top", "build")
	if Precompiled(dir, p) {
		t.Fatal("there is something before")
	}
	if err := Precompile(dir, p); err != nil {
		t.Fatal(err)
	}
	if !Precompiled(dir, p) {
		t.Fatal("nothing was made")
	}
	before := stamps(t, dir)
	for name := range before {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v: a Hand of another user cannot read it", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder above: %v, %v", info.Mode(), err)
	}
	loads := func(why string) string {
		t.Helper()
		var said bytes.Buffer
		r, err := New(context.Background(), Options{CodeDir: dir, Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Load(t.Context(), p); err != nil {
			t.Errorf("%s: %v", why, err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	if said := loads("made ahead"); strings.Contains(said, "made ahead") || !maps.Equal(before, stamps(t, dir)) {
		t.Errorf("it was compiled again: %s", said)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if said := loads("open to all"); !strings.Contains(said, "is not used") {
		t.Errorf("a folder that everybody may write is used: %s", said)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name := range before {
		if !strings.Contains(name, madeFolder) {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, info.Size()/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if said := loads("cut short"); !strings.Contains(said, "does not load") {
		t.Errorf("what is cut short is used: %s", said)
	}
}
