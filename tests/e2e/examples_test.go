package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Every example tool that is built gives what its folder says it gives, signed,
// under its own policy, through the whole program.
func TestExamples(t *testing.T) {
	watch(t)
	manifests, err := filepath.Glob(filepath.Join(plugins, "*", "plugin.toml"))
	if err != nil {
		t.Fatal(err)
	}
	const least = 9
	if len(manifests) < least {
		missing := fmt.Sprintf("%d of %d example plugins are built; run: make guests, which says what is missing for the others", len(manifests), least)
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		if len(manifests) == 0 {
			t.Skip(missing)
		}
		t.Log(missing)
	}
	for _, m := range manifests {
		dir := filepath.Dir(m)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			runExample(t, dir)
		})
	}
}

type exampleOutcome struct {
	Content []map[string]any `json:"content"`
	IsError bool             `json:"is_error"`
}

// grants are what an operator gives the examples that ask for something.
var grants = map[string]string{
	"search":    `grant = { commands = ["grep"], paths = { "/workspace" = { mode = "rw" } } }`,
	"workspace": `grant = { paths = { "/workspace" = { mode = "rw" } } }`,
}

func runExample(t *testing.T, built string) {
	manifest, err := os.ReadFile(filepath.Join(built, "plugin.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(manifest, []byte(`target = "sandbox"`)) && os.Getenv("CI") != "true" && !namespaces() {
		t.Skip("no sandbox works here; see: awaken-host sandbox check namespace")
	}
	home := t.TempDir()
	name := filepath.Base(built)
	plugin := filepath.Join(home, "plugins", name)
	if err := os.MkdirAll(filepath.Dir(plugin), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(plugin, os.DirFS(built)); err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("version = 1\n[trust]\nkeys = [{ file = \"keys/test.pub\" }]\n[policy]\npaths = [\"plugins/%s/policy.rego\"]\n[[plugin]]\npath = \"plugins/%s\"\n%s\n", name, name, grants[name])
	if err := os.WriteFile(filepath.Join(home, "host.toml"), []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	program := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Dir = home
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("awaken-host %s: %v\n%s", strings.Join(args, " "), err, &stderr)
		}
		return out
	}
	program("plugin", "keygen", "keys/test")
	program("plugin", "sign", plugin, "--key", "keys/test.key")

	var expected map[string]exampleOutcome
	text, err := os.ReadFile(filepath.Join(plugin, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	parse(t, text, &expected)
	var result struct {
		Phase   string
		Results []struct {
			exampleOutcome
			CallID   string `json:"call_id"`
			Tool     string
			Executed *struct{ Target string }
		}
	}
	parse(t, program("run", filepath.Join(plugin, "batch.json")), &result)
	if result.Phase != "finalized" || len(result.Results) != len(expected) {
		t.Fatalf("phase %s with %d results, %d are expected", result.Phase, len(result.Results), len(expected))
	}
	for _, got := range result.Results {
		want, ok := expected[got.CallID]
		if !ok || got.IsError != want.IsError || !reflect.DeepEqual(got.Content, want.Content) {
			t.Errorf("call %s to %s:\ngot  %v %v\nwant %v %v", got.CallID, got.Tool, got.IsError, got.Content, want.IsError, want.Content)
		}
	}
}

func parse(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
