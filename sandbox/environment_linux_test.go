package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGiveTreeIsBounded: a workspace that is too deep to be given to another user says
// so, and says it again: it does not count as given.
func TestGiveTreeIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	mkdir(t, dir)
	deepTree(t, dir, strings.Repeat("n", 200), 300)
	t.Cleanup(func() {
		if err := RemoveTree(dir); err != nil {
			t.Error(err)
		}
	})
	root := openRoot(t, dir)
	for range 2 {
		err := giveTree(root, 65534, 65534)
		if err == nil || len(err.Error()) > 400 || os.Getuid() == 0 && !strings.Contains(err.Error(), "more than 100 folders") {
			t.Errorf("got %v", err)
		}
	}
}

func TestGiveTree(t *testing.T) {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // nobody else gives files away
		uid, gid = 65534, 65534
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/b/file"))
	root := openRoot(t, dir)
	if err := giveTree(root, uid, gid); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "a", "a/b", "a/b/file"} {
		if info, err := root.Lstat(name); err != nil || !ownedBy(info, uid, gid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
