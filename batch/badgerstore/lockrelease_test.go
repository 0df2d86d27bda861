package badgerstore

import (
	"syscall"
	"testing"
)

// TestReleaseWithAForkUnderWay: a process that is being started shares the open file
// until it runs its program, and does not keep the store locked with it.
func TestReleaseWithAForkUnderWay(t *testing.T) {
	dir := t.TempDir()
	l, err := lockOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := syscall.Dup(int(l.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(shared) }()
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}
