package standard_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// TestStarterIsBuiltFromItsSource rebuilds the one module that is committed.
func TestStarterIsBuiltFromItsSource(t *testing.T) {
	out := filepath.Join(t.TempDir(), "starter.wasm")
	text, err := exec.Command("sh", "starter/build.sh", out).CombinedOutput()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v\n%s", err, text)
		}
		t.Skipf("clang 14.0.6 is needed, to install it: apt-get install clang-14 lld-14: %v\n%s", err, text)
	}
	want, err := os.ReadFile("starter/starter.wasm")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("build.sh gives %d bytes, other than the %d committed: build it into starter/starter.wasm", len(got), len(want))
	}
}

// TestInitOverwritesNothing: whichever of its files is there, it stays, and
// nothing is written beside it.
func TestInitOverwritesNothing(t *testing.T) {
	r, err := standard.Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range r.Files {
		if strings.HasSuffix(name, ".minisig") {
			continue // only ever written beside a manifest that Init made
		}
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := standard.Init(dir); err == nil || !strings.Contains(err.Error(), file) || standard.ExitCode(err) != 2 {
			t.Errorf("%s is there: %v", name, err)
		}
		var files []string
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, p)
			}
			return err
		})
		if data, _ := os.ReadFile(file); string(data) != "mine" || len(files) != 1 {
			t.Errorf("%s is %q, files %v", name, data, files)
		}
	}
}

func TestInitKeepsTheSecretKeySecret(t *testing.T) {
	dir := t.TempDir()
	if _, err := standard.Init(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "keys", "tools.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	ignored, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	if err != nil || !strings.Contains(string(ignored), "keys/*.key") {
		t.Errorf(".gitignore %q, %v", ignored, err)
	}
}

// What Init tells people to paste names its files also where a folder has a blank
// in its name.
func TestInitNextIsQuoted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's mine")
	r, err := standard.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Next {
		out, err := exec.Command("sh", "-c", "set -- "+line+`; for w; do printf '%s\n' "$w"; done`).Output()
		if err != nil || !strings.Contains(string(out), "\n"+filepath.Join(dir, "host.toml")+"\n") {
			t.Errorf("%s is read as\n%s%v", line, out, err)
		}
	}
}
