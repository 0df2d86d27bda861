package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Hand that sends more of a file than a workspace may hold is not listened to.
func TestGetIsBounded(t *testing.T) {
	tier := newFakeTier(TierKube)
	tier.carry = true
	tier.get = func(s *Stream) error {
		for {
			if _, err := s.Write(make([]byte, 64<<10)); err != nil {
				return err
			}
		}
	}
	w := newFakeWorld(t, tier, func(o *Options) { o.Limits.WorkspaceMiB = 1 })
	w.mustRun("r1", 1)
	f, err := w.m.Files("r1")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := f.Get(t.Context(), "x", &got); err == nil || !strings.Contains(err.Error(), "larger than the workspace may be") {
		t.Errorf("got %v", err)
	}
	if got.Len() > 1<<20+1 {
		t.Errorf("%d bytes came through", got.Len())
	}
}

// A file with holes takes nothing of the disk until it is copied.
func TestGetOfAFileWithHoles(t *testing.T) {
	w := newFakeWorld(t, newFakeTier(TierLocal), func(o *Options) { o.Limits.WorkspaceMiB = 1 })
	w.mustRun("r1", 1)
	f, err := w.m.Files("r1")
	if err != nil {
		t.Fatal(err)
	}
	root, err := f.root()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	holes, err := root.Create("holes")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(holes.Truncate(1<<40), holes.Close()); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := f.Get(t.Context(), "holes", &got); err == nil || !strings.Contains(err.Error(), "larger than the workspace may be") || got.Len() > 0 {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}

// TestFiles on a workspace that lies on this machine, with a Hand that never hears of
// it.
func TestFiles(t *testing.T) {
	w := newFakeWorld(t, newFakeTier(TierNamespace), func(o *Options) { o.Limits.WorkspaceMiB = 1 })
	if _, err := w.m.Files("r1"); !errors.Is(err, ErrNoEnvironment) {
		t.Errorf("before anything ran: %v", err)
	}
	w.mustRun("r1", 1)
	f, err := w.m.Files("r1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a/b": "one", "/workspace/c": "two", "./a/./b": "three"} {
		if err := f.Put(t.Context(), name, 0, strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := filepath.Join(w.m.o.Dir, w.m.Environments()[0].ID, workspaceFolder)
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	list, err := f.List(t.Context(), "")
	var names []string
	for _, i := range list {
		names = append(names, i.Path+i.Link)
	}
	if got := strings.Join(names, " "); err != nil || got != "a a/b c out/etc" {
		t.Errorf("listed %q, %v", got, err)
	}
	if one, err := f.List(t.Context(), "a/b"); err != nil || len(one) != 1 || one[0].Bytes == 0 {
		t.Errorf("one file: %+v, %v", one, err)
	}
	var buf bytes.Buffer
	if info, err := f.Get(t.Context(), "c", &buf); err != nil || buf.String() != "two" || info.Bytes != 3 {
		t.Errorf("%+v %q, %v", info, buf.String(), err)
	}
	for _, name := range []string{"../x", "a/../../x", "out/passwd", "a", "no", "", "x\x00"} {
		if _, err := f.Get(t.Context(), name, &buf); err == nil {
			t.Errorf("%q was read", name)
		}
	}
	for _, name := range []string{"../x", "out/passwd", "a", "", "c/d"} {
		if err := f.Put(t.Context(), name, 0, strings.NewReader("x")); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	if err := f.Put(t.Context(), "big", 0, bytes.NewReader(make([]byte, 1<<20+1))); err == nil || !strings.Contains(err.Error(), "workspace_mib") {
		t.Errorf("more than the workspace may hold: %v", err)
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != 3 {
		t.Errorf("left in the workspace: %v, %v", after, err)
	}
	if err := w.m.Release(t.Context(), "r1", false); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), "c", 0, strings.NewReader("x")); err == nil {
		t.Error("a released workspace was written to")
	}
	buf.Reset()
	if _, err := f.Get(t.Context(), "c", &buf); err != nil || buf.String() != "two" {
		t.Errorf("a released workspace that is kept: %q, %v", buf.String(), err)
	}
	if err := w.m.Release(t.Context(), "r1", true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Files("r1"); !errors.Is(err, ErrNoEnvironment) {
		t.Errorf("after its folder was removed: %v", err)
	}
}
