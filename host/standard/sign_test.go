package standard_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// What the host would refuse to load is not signed, and nothing is changed.
func TestSignChecksTheModule(t *testing.T) {
	dir := t.TempDir()
	if _, err := standard.Init(dir); err != nil {
		t.Fatal(err)
	}
	plugin, key := filepath.Join(dir, "plugins", "hello"), filepath.Join(dir, "keys", "tools.key")
	manifest, signature := filepath.Join(plugin, "plugin.toml"), filepath.Join(plugin, "plugin.toml.minisig")
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	text, signed := read(manifest), read(signature)
	for _, c := range []struct{ name, old, new, want string }{
		{"export", `export = "greet"`, `export = "grete"`, `tool "greet" names the export "grete", which it does not have; it exports `},
		{"abi", `abi = "extism"`, `abi = "wasi"`, `set abi = "extism" in the manifest`},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("the manifest has no %s:\n%s", c.old, text)
			}
			if c.name == "abi" { // a command module has no export to name
				changed = regexp.MustCompile(`(?m)^export = .*$`).ReplaceAllString(changed, "")
			}
			if err := os.WriteFile(manifest, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := standard.Sign(plugin, key, "", true)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "plugin hello: module ") {
				t.Errorf("Sign: %v, want %q", err, c.want)
			}
			if code := standard.ExitCode(err); code != 2 {
				t.Errorf("exit status %d, as for any other plugin that is wrong it is 2", code)
			}
			if read(manifest) != changed || read(signature) != signed {
				t.Error("files were changed")
			}
		})
	}
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := standard.Sign(plugin, key, "", true); err != nil {
		t.Errorf("Sign: %v", err)
	}
}
