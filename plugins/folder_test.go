package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wasmHeader is the smallest thing that could be a module; this package does not
// look inside.
const wasmHeader = "\x00asm\x01\x00\x00\x00"

// folder is a plugin folder under test.
type folder struct {
	t   *testing.T
	dir string
}

// newFolder writes text as plugin.toml and a module text.wasm.
func newFolder(t *testing.T, text string) *folder {
	t.Helper()
	f := &folder{t, t.TempDir()}
	f.write(ManifestFile, text)
	f.write("text.wasm", wasmHeader)
	return f
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) read(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

func (f *folder) edit(name, old, text string) {
	f.t.Helper()
	now := f.read(name)
	if !strings.Contains(now, old) {
		f.t.Fatalf("%s has no %q", name, old)
	}
	f.write(name, strings.Replace(now, old, text, 1))
}

func (f *folder) sign(k testKey) *folder {
	f.t.Helper()
	if _, err := Sign(f.dir, k.secret, "", SignOptions{}); err != nil {
		f.t.Fatal(err)
	}
	return f
}

// testKey is a pair of unencrypted key files.
type testKey struct {
	t                  *testing.T
	id, public, secret string
}

func newKey(t *testing.T) testKey {
	t.Helper()
	dir := t.TempDir()
	k := testKey{t: t, public: filepath.Join(dir, "k.pub"), secret: filepath.Join(dir, "k.key")}
	var err error
	if k.id, err = GenerateKey(k.public, k.secret, ""); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k testKey) trusted(patterns ...string) TrustedKey {
	k.t.Helper()
	key, err := LoadKey(k.public, patterns)
	if err != nil {
		k.t.Fatal(err)
	}
	return key
}

func (k testKey) trust(patterns ...string) Trust {
	return Trust{Keys: []TrustedKey{k.trusted(patterns...)}}
}
