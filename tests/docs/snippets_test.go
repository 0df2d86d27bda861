package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/host/standard"
	"github.com/awaken-agents/awaken-host/plugins"
)

// checkTOML reads a file as the host would. A host file may name what is not there.
func checkTOML(t *testing.T, file, text string) error {
	t.Helper()
	switch filepath.Base(file) {
	case "host.toml":
		_, err := standard.LoadConfig(file, standard.Options{})
		return err
	case "plugin.toml":
		return checkManifest(t, text)
	}
	return fmt.Errorf("%s is neither a host.toml nor a plugin.toml", filepath.Base(file))
}

// checkPart reads a part of a file with the rest filled in.
func checkPart(t *testing.T, of, text string) error {
	t.Helper()
	switch of {
	case "host.toml":
		file := filepath.Join(t.TempDir(), of)
		if err := os.WriteFile(file, []byte("version = 1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return checkTOML(t, file, text)
	case "plugin.toml":
		whole := "manifest = 1\nid = \"part\"\nversion = \"1.0.0\"\n"
		if !strings.Contains(text, "[module]") {
			abi := "extism"
			if strings.Contains(text, "args = ") {
				abi = "wasi"
			}
			whole += "[module]\npath = \"part.wasm\"\nabi = \"" + abi + "\"\n"
		}
		whole += text
		if !strings.Contains(text, "[[tool]]") {
			whole += "\n[[tool]]\nid = \"t\"\nexport = \"t\"\n"
		}
		return checkManifest(t, whole)
	}
	return fmt.Errorf("part of %q: host.toml and plugin.toml are known", of)
}

var modulePath = regexp.MustCompile(`(?m)^path = "([^"]+)"`)

// checkManifest signs a plugin with that manifest, which reads it as loading does.
func checkManifest(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	m := modulePath.FindStringSubmatch(text)
	if m == nil {
		return errors.New("no [module] with a path")
	}
	module := filepath.Join(dir, "plugin", filepath.FromSlash(m[1]))
	key := filepath.Join(dir, "key")
	if err := os.MkdirAll(filepath.Dir(module), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(module, []byte("\x00asm\x01\x00\x00\x00"), 0o600),
		os.WriteFile(filepath.Join(dir, "plugin", "plugin.toml"), []byte(text), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := standard.GenerateKey(key+".pub", key, ""); err != nil {
		t.Fatal(err)
	}
	// The module is an empty one, which the host would not sign for this manifest.
	_, err := plugins.Sign(filepath.Join(dir, "plugin"), key, "", plugins.SignOptions{UpdateDigest: true})
	return err
}

// checkRego compiles a policy by itself.
func checkRego(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	host := filepath.Join(dir, "host.toml")
	if err := errors.Join(
		os.WriteFile(host, []byte("version = 1\n[policy]\npaths = [\"policy.rego\"]\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "policy.rego"), []byte(text), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "policy", "check", "-c", host).CombinedOutput() // #nosec G204 -- our own program
	if err != nil {
		return fmt.Errorf("policy check: %w\n%s", err, out)
	}
	return nil
}

func checkJSON(data []byte) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		if json.Valid(data) { // not an object
			return nil
		}
		return err
	}
	for _, key := range []string{"calls", "tool_calls"} {
		if top[key] != nil {
			_, err := standard.ParseMessage(data)
			return err
		}
	}
	if strings.Contains(string(top["content"]), `"tool_use"`) {
		_, err := standard.ParseMessage(data)
		return err
	}
	return nil
}

// checkGo compiles a program: one that embeds a host for this system, any other as
// a guest.
func checkGo(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "out"), ".") // #nosec G204 -- fixed arguments
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	switch {
	case strings.Contains(text, `"github.com/awaken-agents/awaken-host/`):
		cmd.Dir = root
		cmd.Args[len(cmd.Args)-1] = filepath.Join(dir, "main.go")
	case strings.Contains(text, `"github.com/extism/go-pdk"`):
		for _, name := range []string{"go.mod", "go.sum"} {
			data := read(t, "examples/wasm-tools/"+name)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd.Args = slices.Insert(cmd.Args, 2, "-buildmode=c-shared")
		cmd.Env = append(cmd.Env, "GOOS=wasip1", "GOARCH=wasm")
	default:
		cmd.Args[len(cmd.Args)-1] = "main.go"
		cmd.Env = append(cmd.Env, "GOOS=wasip1", "GOARCH=wasm")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

var diagramKind = regexp.MustCompile(`^(flowchart (LR|TB|TD)|sequenceDiagram|stateDiagram-v2)\n`)

// checkDiagram finds what a renderer would stumble over first.
func checkDiagram(text string) error {
	if !diagramKind.MatchString(text) {
		return errors.New("a diagram begins with flowchart LR, sequenceDiagram or stateDiagram-v2")
	}
	for i, line := range strings.Split(text, "\n") {
		for _, pair := range []string{"[]", "()", "{}", `""`} {
			opens, closes := strings.Count(line, pair[:1]), strings.Count(line, pair[1:])
			if pair[:1] == pair[1:] {
				opens, closes = opens%2, 0
			}
			if opens != closes {
				return fmt.Errorf("line %d of the diagram: %s are not balanced", i+1, pair)
			}
		}
		if strings.Contains(line, ";") {
			return fmt.Errorf("line %d of the diagram: a semicolon ends a statement", i+1)
		}
	}
	return nil
}
