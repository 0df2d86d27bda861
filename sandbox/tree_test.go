package sandbox

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// listing is what a folder holds, as "name mode content-or-link".
func listing(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		line := rel + " " + info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			line += " " + to
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestTreesTravel(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	src := openRoot(t, from)
	for _, err := range []error{
		src.MkdirAll("a/deep/one", 0o750), src.WriteFile("a/run", []byte("#!"), 0o755), src.WriteFile("a/deep/x", bytes.Repeat([]byte("x"), 70_000), 0o640),
		src.Symlink("../a/run", "a/link"), src.Mkdir("sealed", 0o500), src.Symlink("/etc/passwd", "out"),
		syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := src.Chtimes("a/run", old, old); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	left, err := PackTree(&buf, src)
	if err != nil || len(left) != 1 || left[0] != "pipe" {
		t.Fatalf("left out %q, %v", left, err)
	}
	var out []string
	dst := openRoot(t, to)
	if err := UnpackTree(bytes.NewReader(buf.Bytes()), dst, TreeBounds{LeaveOut: func(n string) { out = append(out, n) }}); err != nil {
		t.Fatal(err)
	}
	if len(out) != 1 || out[0] != "out" {
		t.Errorf("links left out: %q", out)
	}
	if err := os.Remove(filepath.Join(from, "pipe")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(from, "out")); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(listing(t, from), "sealed dr-x------", "sealed drwx------", 1) // its owner must be able to clear it up
	if got := listing(t, to); got != want {
		t.Errorf("came as\n%s\nwas\n%s", got, want)
	}
	if info, err := dst.Stat("a/run"); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("%v, %v", info.ModTime(), err)
	}
}

// What is too deep is an error with a short name, wherever a tree is walked.
func TestDeepTrees(t *testing.T) {
	walk := func(t *testing.T, root *os.Root) (errs []error) {
		_, err := PackTree(io.Discard, root)
		_, lerr := ListTree(t.Context(), root, ".")
		return []error{err, lerr}
	}
	whole := t.TempDir()
	deepTree(t, whole, "a", MaxDepth)
	var buf bytes.Buffer
	for _, err := range walk(t, openRoot(t, whole)) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := PackTree(&buf, openRoot(t, whole)); err != nil {
		t.Fatal(err)
	}
	if err := UnpackTree(&buf, openRoot(t, t.TempDir()), TreeBounds{}); err != nil {
		t.Error(err)
	}
	for name, levels := range map[string]int{"a": MaxDepth + 1, strings.Repeat("n", 255): MaxDepth + 1} {
		dir := filepath.Join(t.TempDir(), "tree")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		deepTree(t, dir, name, levels)
		deep := strings.Repeat(name+"/", levels) + "f"
		errs := append(walk(t, openRoot(t, dir)), UnpackTree(bytes.NewReader(archive(t, member{name: deep, kind: tar.TypeReg})), openRoot(t, t.TempDir()), TreeBounds{}))
		for _, err := range errs {
			if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "is in more than 100 folders") &&
				(len(name) == 1 || !strings.Contains(err.Error(), "a name of more than 4096 bytes")) {
				t.Errorf("got %v", err)
			}
		}
		if err := RemoveTree(dir); err != nil {
			t.Error(err)
		}
	}
	long := archive(t, member{name: strings.Repeat("n", 5000), kind: tar.TypeReg})
	if err := UnpackTree(bytes.NewReader(long), openRoot(t, t.TempDir()), TreeBounds{}); err == nil || len(err.Error()) > 400 {
		t.Errorf("got %v", err)
	}
}

type member struct {
	name, link string
	kind       byte
	size       int
}

func archive(t testing.TB, entries ...member) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Size: int64(e.size), Mode: 0o644, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, e.size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestHostileArchives: nothing lands outside, whatever the names and links are.
func TestHostileArchives(t *testing.T) {
	file := func(name string) member { return member{name: name, kind: tar.TypeReg, size: 1} }
	link := func(name, to string) member { return member{name: name, link: to, kind: tar.TypeSymlink} }
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"above":                    {archive(t, file("../x")), "plain relative name"},
		"above, inside":            {archive(t, file("a/../../x")), "plain relative name"},
		"absolute":                 {archive(t, file("/x")), "plain relative name"},
		"empty part":               {archive(t, file("a//x")), "plain relative name"},
		"backslash":                {archive(t, file(`..\x`)), "plain relative name"},
		"link out":                 {archive(t, link("l", "..")), "leads out"},
		"absolute link":            {archive(t, link("l", "/")), "leads out"},
		"link up after a name":     {archive(t, link("a/l", "../.."), link("m", "a/l/../x")), "leads out"},
		"file through a link":      {archive(t, member{name: "d", kind: tar.TypeDir}, link("l", "d"), file("l/x")), "no folder is in its way"},
		"folder through a link":    {archive(t, member{name: "d", kind: tar.TypeDir}, link("l", "d"), member{name: "l/x/y", kind: tar.TypeDir}), "no folder is in its way"},
		"file in a folder's place": {archive(t, member{name: "d", kind: tar.TypeDir}, file("d")), "a folder is in its place"},
		"hard link":                {archive(t, file("a"), member{name: "b", link: "a", kind: tar.TypeLink}), "neither"},
		"device":                   {archive(t, member{name: "null", kind: tar.TypeChar}), "neither"},
		"pipe":                     {archive(t, member{name: "p", kind: tar.TypeFifo}), "neither"},
		"too large":                {archive(t, member{name: "a", kind: tar.TypeReg, size: 600}, member{name: "b", kind: tar.TypeReg, size: 600}), "more than 1000 bytes"},
		"too many":                 {archive(t, file("a"), file("b"), file("c"), file("d"), file("e"), file("f")), "more than 5 entries"},
		"too long a name":          {archive(t, file(strings.Repeat("n", 256))), "too long"},
		"too long a path":          {archive(t, file(strings.Repeat(strings.Repeat("n", 250)+"/", 20)+"x")), "more than 4096 bytes"},
		"cut":                      {archive(t, member{name: "a", kind: tar.TypeReg, size: 900})[:800], "EOF"},
		"no archive":               {bytes.Repeat([]byte("x"), 2000), "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "in")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			err := UnpackTree(bytes.NewReader(c.raw), openRoot(t, dir), TreeBounds{Bytes: 1000, Entries: 5})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if all, _ := os.ReadDir(outer); len(all) != 1 {
				t.Errorf("it left %v", all)
			}
		})
	}
}

// FuzzUnpackTree: whatever comes, nothing is written beside the folder, and every link
// that was made leads to what is below it.
func FuzzUnpackTree(f *testing.F) {
	f.Add(archive(f, member{name: "a/b", kind: tar.TypeReg, size: 3}, member{name: "l", link: "a/b", kind: tar.TypeSymlink}))
	f.Add(archive(f, member{name: "l", link: "..", kind: tar.TypeSymlink}, member{name: "l/x", kind: tar.TypeReg, size: 3}))
	f.Add(archive(f, member{name: "./d/", kind: tar.TypeDir}, member{name: "d/m", link: "../../x", kind: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = UnpackTree(bytes.NewReader(raw), openRoot(t, dir), TreeBounds{Bytes: 1 << 20, Entries: 50})
		if all, _ := os.ReadDir(outer); len(all) != 1 {
			t.Fatalf("it left %v", all)
		}
		_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeSymlink == 0 {
				return nil
			}
			if to, err := filepath.EvalSymlinks(name); err == nil && to != dir && !strings.HasPrefix(to, dir+"/") {
				t.Fatalf("%s leads to %s", name, to)
			}
			return nil
		})
	})
}
