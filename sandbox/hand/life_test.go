package hand

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hand")
	if err := os.WriteFile(file, []byte("an older one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Install(file); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(file); err != nil || got.Size() != want.Size() || got.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", got, err)
	}
	// A file cannot be put over a folder, and nothing half-written stays.
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Install(taken); err == nil {
		t.Error("a folder was replaced")
	}
	if err := Install(filepath.Join(dir, "none", "hand")); err == nil {
		t.Error("it was installed into a folder that is not there")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("what is there: %v, %v", entries, err)
	}
}
