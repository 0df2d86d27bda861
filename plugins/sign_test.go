package plugins

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// minisignTool returns the reference implementation, or ends the test.
func minisignTool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("minisign")
	if err != nil {
		const text = "minisign is not installed: apt-get install minisign"
		if os.Getenv("CI") == "true" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	return path
}

func run(t *testing.T, stdin, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// What the minisign tool signs, in both of its formats and with its keys, loads.
func TestMinisignSignsForUs(t *testing.T) {
	tool := minisignTool(t)
	for _, flags := range [][]string{nil, {"-l"}, {"-t", "a comment", "-c", "another"}} {
		dir := t.TempDir()
		pub, sec := filepath.Join(dir, "t.pub"), filepath.Join(dir, "t.key")
		run(t, "", tool, "-G", "-W", "-p", pub, "-s", sec)
		f := newFolder(t, strings.Replace(minimal, "abi", "sha256 = '"+hexSum([]byte(wasmHeader))+"'\nabi", 1))
		run(t, "", tool, append([]string{"-S", "-W", "-s", sec, "-m", f.path(ManifestFile)}, flags...)...)
		key, err := LoadKey(pub, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Verify(f.dir, Trust{Keys: []TrustedKey{key}}, "")
		if err != nil {
			t.Fatalf("%v: %v", flags, err)
		}
		pubText, err := os.ReadFile(pub)
		if err != nil {
			t.Fatal(err)
		}
		// Some versions of the tool leave out the zeros that an id begins with.
		if r.Signer != key.ID || !strings.Contains(string(pubText), strings.TrimLeft(key.ID, "0")) {
			t.Errorf("signer %s, key %s, file %s", r.Signer, key.ID, pubText)
		}
		// The tool's secret key signs here, too.
		if _, err := Sign(f.dir, sec, "", SignOptions{}); err != nil {
			t.Fatal(err)
		}
		run(t, "", tool, "-V", "-p", pub, "-m", f.path(ManifestFile))
	}
}

// What is made here satisfies the minisign tool: key, signature, secret key.
func TestMinisignAcceptsOurs(t *testing.T) {
	tool := minisignTool(t)
	key := newKey(t)
	f := newFolder(t, minimal).sign(key)
	run(t, "", tool, "-V", "-H", "-p", key.public, "-m", f.path(ManifestFile))
	run(t, "", tool, "-S", "-W", "-s", key.secret, "-m", f.path(ManifestFile))
	if _, err := Verify(f.dir, key.trust(), ""); err != nil {
		t.Error(err)
	}
}

// A key the tool encrypted signs here with its password and with no other. The
// tool spends less on guessing when memory is short, which keeps the test quick.
func TestKeyEncryptedByMinisign(t *testing.T) {
	tool := minisignTool(t)
	dir := t.TempDir()
	pub, sec := filepath.Join(dir, "k.pub"), filepath.Join(dir, "k.key")
	run(t, "hunter2\nhunter2\n", "sh", "-c", `ulimit -v 60000; exec "$0" -G -p "$1" -s "$2"`, tool, pub, sec)
	if yes, err := KeyEncrypted(sec); !yes || err != nil {
		t.Errorf("encrypted: %v, %v", yes, err)
	}
	f := newFolder(t, minimal)
	for password, words := range map[string]string{"": "give its password", "wrong": "check the password"} {
		if _, err := Sign(f.dir, sec, password, SignOptions{}); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", password, err)
		}
	}
	if _, err := os.Stat(f.path(SignatureFile)); err == nil || f.read(ManifestFile) != minimal {
		t.Error("something was written without the key")
	}
	if _, err := Sign(f.dir, sec, "hunter2", SignOptions{}); err != nil {
		t.Fatal(err)
	}
	run(t, "", tool, "-V", "-p", pub, "-m", f.path(ManifestFile))
}

// A key encrypted here signs with the tool. Deriving it from the password costs a
// GiB and a second or more, by design.
func TestKeyEncryptedForMinisign(t *testing.T) {
	t.Parallel()
	tool := minisignTool(t)
	dir := t.TempDir()
	pub, sec := filepath.Join(dir, "k.pub"), filepath.Join(dir, "k.key")
	run(t, "", "go", "run", "./testdata/keygen", pub, sec, "hunter2")
	f := newFolder(t, minimal)
	run(t, "hunter2\n", tool, "-S", "-s", sec, "-m", f.path(ManifestFile))
	run(t, "", tool, "-V", "-p", pub, "-m", f.path(ManifestFile))
}

func TestGenerateKeyOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	pub, sec := filepath.Join(dir, "k.pub"), filepath.Join(dir, "k.key")
	id, err := GenerateKey(pub, sec, "")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(sec); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	before, err := os.ReadFile(sec)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	for _, c := range [][2]string{{pub, sec}, {other, sec}, {pub, other}, {other, other}, {other, filepath.Join(dir, "none", "x")}} {
		if _, err := GenerateKey(c[0], c[1], ""); !errors.Is(err, ErrKey) {
			t.Errorf("%v: %v", c, err)
		}
		if _, err := os.Stat(other); err == nil {
			t.Errorf("%v left a file", c)
		}
	}
	if now, err := os.ReadFile(sec); err != nil || string(now) != string(before) {
		t.Error("the secret key changed")
	}
	if key, err := LoadKey(pub, nil); err != nil || key.ID != id || len(id) != 16 {
		t.Errorf("id %s, %+v, %v", id, key, err)
	}
}

func TestSignFillsTheDigest(t *testing.T) {
	sum := hexSum([]byte(wasmHeader))
	const head, tail = "manifest = 1\nid = 'text' # the id\nversion = '1'\n", "\n[[tool]]\nid = 'a'\nexport = 'a'\n"
	for _, c := range []struct{ name, before, after string }{
		{"empty", "[module]\npath = 'text.wasm'\n  sha256   = \"\"   # filled in\nabi = 'extism'\n",
			"[module]\npath = 'text.wasm'\n  sha256   = \"" + sum + "\"   # filled in\nabi = 'extism'\n"},
		{"literal", "[module]\nsha256=''\npath='text.wasm'\nabi='extism'\n", "[module]\nsha256=\"" + sum + "\"\npath='text.wasm'\nabi='extism'\n"},
		{"absent", "[module]\n  path = 'text.wasm' # code\n  abi = 'extism'\n", "[module]\n  path = 'text.wasm' # code\n  sha256 = \"" + sum + "\"\n  abi = 'extism'\n"},
		{"quoted key", "[module]\n\"path\" = 'text.wasm'\nabi = 'extism'\n", "[module]\n\"path\" = 'text.wasm'\n\"sha256\" = \"" + sum + "\"\nabi = 'extism'\n"},
		{"dotted", "module.abi = 'extism'\nmodule.path = 'text.wasm'\n", "module.abi = 'extism'\nmodule.path = 'text.wasm'\nmodule.sha256 = \"" + sum + "\"\n"},
		{"inline", "module = { path = 'text.wasm', abi = 'extism' }\n", "module = { path = 'text.wasm', sha256 = \"" + sum + "\", abi = 'extism' }\n"},
		{"inline empty", "module = { path = 'text.wasm', sha256 = '', abi = 'extism' }\n", "module = { path = 'text.wasm', sha256 = \"" + sum + "\", abi = 'extism' }\n"},
		{"decoy in a string", "description = '''\n[module]\nsha256 = \"\"\n'''\n[module]\nsha256 = ''\npath = 'text.wasm'\nabi = 'extism'\n",
			"description = '''\n[module]\nsha256 = \"\"\n'''\n[module]\nsha256 = \"" + sum + "\"\npath = 'text.wasm'\nabi = 'extism'\n"},
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			t.Run(c.name, func(t *testing.T) {
				key := newKey(t)
				f := newFolder(t, strings.ReplaceAll(head+c.before+tail, "\n", eol))
				if err := os.Chmod(f.path(ManifestFile), 0o640); err != nil {
					t.Fatal(err)
				}
				r, err := Sign(f.dir, key.secret, "", SignOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got, want := f.read(ManifestFile), strings.ReplaceAll(head+c.after+tail, "\n", eol); got != want {
					t.Errorf("got\n%q\nwant\n%q", got, want)
				}
				if st, err := os.Stat(f.path(ManifestFile)); err != nil || st.Mode().Perm() != 0o640 {
					t.Errorf("mode %v, %v", st.Mode(), err)
				}
				v, err := Verify(f.dir, key.trust(), "")
				if err != nil {
					t.Fatal(err)
				}
				if !r.Filled || v.ModuleDigest != sum || r.ModuleDigest != sum || v.Digest != r.Digest || v.Signer != r.Signer || v.Signer != key.id || len(v.Tools) != 1 {
					t.Errorf("signed %+v\nverified %+v", r, v)
				}
				if again, err := Sign(f.dir, key.secret, "", SignOptions{}); err != nil || again.Filled || again.Digest != r.Digest {
					t.Errorf("signing again: %+v, %v", again, err)
				}
				entries, err := os.ReadDir(f.dir)
				if err != nil || len(entries) != 3 {
					t.Errorf("the folder holds %v, %v", entries, err)
				}
			})
		}
	}
}

func TestSignRefuses(t *testing.T) {
	key := newKey(t)
	t.Run("another module", func(t *testing.T) {
		f := newFolder(t, minimal).sign(key)
		before := f.read(ManifestFile)
		f.write("text.wasm", wasmHeader+"new")
		if _, err := Sign(f.dir, key.secret, "", SignOptions{}); !errors.Is(err, ErrTampered) || f.read(ManifestFile) != before {
			t.Errorf("%v", err)
		}
		r, err := Sign(f.dir, key.secret, "", SignOptions{UpdateDigest: true})
		if err != nil || !r.Filled {
			t.Fatal(r, err)
		}
		if _, err := Verify(f.dir, key.trust(), ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("invalid manifest", func(t *testing.T) {
		f := newFolder(t, minimal+"x = 1\n")
		if _, err := Sign(f.dir, key.secret, "", SignOptions{}); !errors.Is(err, ErrManifest) {
			t.Error(err)
		}
	})
	t.Run("no module", func(t *testing.T) {
		f := newFolder(t, minimal)
		os.Remove(f.path("text.wasm"))
		if _, err := Sign(f.dir, key.secret, "", SignOptions{}); !errors.Is(err, ErrFile) {
			t.Error(err)
		}
	})
	t.Run("public key", func(t *testing.T) {
		f := newFolder(t, minimal)
		if _, err := Sign(f.dir, key.public, "", SignOptions{}); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "public key") {
			t.Error(err)
		}
		if f.read(ManifestFile) != minimal {
			t.Error("the manifest changed without a key")
		}
	})
	t.Run("halves of two keys", func(t *testing.T) {
		mixed := filepath.Join(t.TempDir(), "mixed.key")
		a, errA := os.ReadFile(key.secret)
		b, errB := os.ReadFile(newKey(t).secret)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		// 24 base64 digits from the end of the line lie in the checksum, the 44
		// before them in the public half.
		cut := len(a) - 80
		if err := os.WriteFile(mixed, append(a[:cut:cut], b[cut:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFolder(t, minimal)
		if _, err := Sign(f.dir, mixed, "", SignOptions{}); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "damaged") {
			t.Error(err)
		}
	})
	t.Run("linked manifest", func(t *testing.T) {
		f := newFolder(t, minimal)
		os.Rename(f.path(ManifestFile), f.path("real.toml"))
		os.Symlink("real.toml", f.path(ManifestFile))
		if _, err := Sign(f.dir, key.secret, "", SignOptions{}); !errors.Is(err, ErrFile) || f.read("real.toml") != minimal {
			t.Error(err)
		}
	})
}
