package sandbox

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func zipped(t *testing.T, names map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, text := range names {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestMountSpecs(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(data, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(data, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec MountSpec
		want string // of the error; empty: it works
	}{
		"folder":              {MountSpec{Target: "/data", Folder: data}, ""},
		"folder by a link":    {MountSpec{Target: "/data", Folder: link, Mode: "rw"}, ""},
		"file":                {MountSpec{Target: "/etc/x", File: file, Mode: "ro"}, ""},
		"file as folder":      {MountSpec{Target: "/data", Folder: file}, "is no folder"},
		"folder as file":      {MountSpec{Target: "/data", File: data}, "no regular file"},
		"not there":           {MountSpec{Target: "/data", Folder: data + "/no"}, "no such file"},
		"relative":            {MountSpec{Target: "/data", Folder: "x"}, "not absolute"},
		"relative target":     {MountSpec{Target: "data", Folder: data}, "not an absolute path"},
		"target with steps":   {MountSpec{Target: "/a/../b", Folder: data}, "not an absolute path"},
		"the root":            {MountSpec{Target: "/", Folder: data}, "not an absolute path"},
		"the Hand's":          {MountSpec{Target: "/awaken/state", Folder: data}, "the Hand's own"},
		"nothing":             {MountSpec{Target: "/data"}, "one of folder"},
		"two":                 {MountSpec{Target: "/data", Folder: data, File: file}, "one of folder"},
		"odd mode":            {MountSpec{Target: "/data", Folder: data, Mode: "rwx"}, `"rwx"`},
		"archive rw":          {MountSpec{Target: "/data", Archive: file, SHA256: digest([]byte("x")), Mode: "rw"}, "shared"},
		"archive, no digest":  {MountSpec{Target: "/data", Archive: file}, "sha256"},
		"archive, other":      {MountSpec{Target: "/data", Archive: file, SHA256: digest([]byte("y"))}, "was expected"},
		"archive that is not": {MountSpec{Target: "/data", Archive: file, SHA256: digest([]byte("x"))}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolveMounts(t.TempDir(), []MountSpec{c.spec})
			if c.want == "" {
				if err != nil || got[0].Target != c.spec.Target || got[0].Writable != (c.spec.Mode == "rw") {
					t.Fatalf("%+v, %v", got, err)
				}
				if real, err := filepath.EvalSymlinks(got[0].Source); err != nil || real != got[0].Source {
					t.Errorf("the source %s is %s, %v", got[0].Source, real, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "[[sandbox.mount]]") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestArchives: unpacked once, whole, and for everybody to read.
func TestArchives(t *testing.T) {
	plain := archive(t, member{name: "d/f", kind: tar.TypeReg, size: 3}, member{name: "l", link: "d/f", kind: tar.TypeSymlink})
	for name, raw := range map[string][]byte{
		"tar": plain, "tar.gz": gzipped(t, plain), "zip": zipped(t, map[string]string{"d/": "", "d/f": "\x00\x00\x00"}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(t.TempDir(), "a")
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			at, err := unpackArchive(dir, file, strings.ToUpper(digest(raw)))
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(t, at); !strings.Contains(got, "d drwxr-xr-x") || !strings.Contains(got, "d/f -rw-r--r-- \x00\x00\x00") {
				t.Errorf("unpacked is\n%s", got)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if again, err := unpackArchive(dir, file, digest(raw)); err != nil || again != at {
				t.Errorf("the second time: %s, %v", again, err)
			}
		})
	}
	for name, raw := range map[string][]byte{
		"leads out": zipped(t, map[string]string{"../x": "x"}), "cut": gzipped(t, archive(t, member{name: "a", kind: tar.TypeReg, size: 600})[:700]),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(t.TempDir(), "a")
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if at, err := unpackArchive(dir, file, digest(raw)); err == nil {
				t.Errorf("it was unpacked to %s", at)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, archivesFolder)); len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}
