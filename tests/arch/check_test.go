package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The checker finds what it is there to find: each case is a graph with one fault,
// or none.
func TestCheck(t *testing.T) {
	imp := func(file, path string) Import {
		return Import{File: file, Line: 7, Path: path, Test: strings.HasSuffix(file, "_test.go")}
	}
	ours := func(p string) string { return Module + "/" + p }
	tests := []struct {
		name, pkg, file, path string
		want                  string // "": allowed
	}{
		{"standard library", "batch", "a.go", "encoding/json", ""},
		{"down an arrow", "host", "a.go", ours("policy"), ""},
		{"to the parent", "sandbox/docker", "a.go", ours("sandbox"), ""},
		{"every implementation", "host/standard", "a.go", ours("batch/badgerstore"), ""},
		{"own package from its tests", "policy", "a_test.go", ours("policy"), ""},
		{"a suite from tests", "batch/badgerstore", "a_test.go", ours("batch/storetest"), ""},
		{"the reference store from tests", "host", "a_test.go", ours("batch/storetest"), ""},
		{"end to end", "tests/e2e", "a_test.go", ours("host/standard"), ""},
		{"sole importer", "policy", "a.go", opa + "/v1/rego", ""},
		{"measured side by side", "tests/bench", "a_test.go", opa + "/v1/rego", ""},
		{"any room", "batch/badgerstore", "a.go", "golang.org/x/sys/unix", ""},

		{"ledger knows a room", "batch", "a.go", ours("plugins"), "batch/a.go:7: batch imports " + ours("plugins") + ": it may import nothing of this module"},
		{"ledger beyond the standard library", "batch", "a.go", "golang.org/x/sync/errgroup", "it imports the standard library only"},
		{"its tests too", "batch", "a_test.go", "github.com/BurntSushi/toml", "it imports the standard library only"},
		{"up an arrow", "plugins", "a.go", ours("host"), "it may import only batch"},
		{"between siblings", "sandbox/docker", "a.go", ours("sandbox/kube"), "it may import only sandbox, batch, plugins"},
		{"between rooms", "policy", "a.go", ours("sandbox"), "it may import only batch, plugins"},
		{"tests keep arrows", "policy", "a_test.go", ours("host"), "it may import only batch, plugins"},
		{"parent to child", "plugins", "a.go", ours("plugins/wasm"), "a parent knows none of its children"},
		{"parent to child in tests", "policy", "a_test.go", ours("policy/starter"), "a parent knows none of its children"},
		{"hallway names an implementation", "host", "a.go", ours("batch/badgerstore"), "it may import only batch, plugins, policy, sandbox"},
		{"hallway to its own child", "host", "a.go", ours("host/config"), "a parent knows none of its children"},
		{"face skips the hallway", "host/mcp", "a.go", ours("policy"), "it may import only host, batch, plugins"},
		{"assembly knows a face", "host/standard", "a.go", ours("host/mcp"), "it may import only"},
		{"front door skips the assembly", "cmd/awaken-host", "a.go", ours("batch"), "it may import only host/standard"},
		{"hand knows the host", "cmd/awaken-hand", "a.go", ours("host"), "it may import only sandbox/hand"},
		{"suite in the product", "host/standard", "a.go", ours("batch/storetest"), "only tests import a suite of tests"},
		{"a program as a library", "tests/e2e", "a_test.go", ours("cmd/awaken-host"), "it may import only host/standard"},
		{"a guest uses the host", "examples/wasm-tools/text", "a.go", ours("batch"), "it may import nothing of this module"},
		{"test of tests in a room", "host", "a.go", ours("tests/arch"), "it may import only"},

		{"OPA elsewhere", "host", "a.go", opa + "/v1/rego", "it is for policy"},
		{"Badger elsewhere", "host/standard", "a.go", badger + "/v4", "it is for batch/badgerstore"},
		{"wazero elsewhere", "sandbox/hand", "a.go", "github.com/tetratelabs/wazero", "it is for plugins/wasm"},
		{"wazero's inner packages", "plugins", "a_test.go", "github.com/tetratelabs/wazero/api", "it is for plugins/wasm"},
		{"Extism elsewhere", "plugins/oci", "a.go", "github.com/extism/go-sdk", "it is for plugins/wasm"},
		{"cobra elsewhere", "host/standard", "a.go", "github.com/spf13/cobra", "it is for cmd/awaken-host"},
		{"measured in the product", "tests/bench", "a.go", opa + "/v1/rego", "it is for policy"},
		{"client-go elsewhere", "sandbox/docker", "a.go", "k8s.io/client-go/kubernetes", "it is for sandbox/kube"},
		{"scripts in the product", "cmd/awaken-host", "a.go", "github.com/rogpeppe/go-internal/testscript", "it is for tests of cmd/awaken-host, tests of tests/* alone"},
		{"name that begins alike", "policy", "a.go", opa + "-plus/rego", "no rule speaks of this module"},
		{"new dependency", "host", "a.go", "example.com/new", "no rule speaks of this module"},
		{"C", "plugins/wasm", "a.go", "C", "programs are static"},
		{"the top", "host", "a.go", Module, "the top of the repository is no package"},
		{"new room", "attic", "a.go", "fmt", "attic: no rule speaks of this package"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := House.Check(Graph{tt.pkg: {imp(tt.pkg+"/"+tt.file, tt.path)}})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestCheckNames(t *testing.T) {
	for name := range House.BadNames {
		got := House.Check(Graph{"batch/" + name: {}, "sandbox/" + name + "/x": {}})
		if len(got) != 2 {
			t.Errorf("%s: got %q, want two", name, got)
		}
	}
	if got := House.Check(Graph{"sandbox/container": {}, "batch/pgstore": {}}); len(got) > 0 {
		t.Errorf("refused: %q", got)
	}
}

func TestCheckLinks(t *testing.T) {
	for _, path := range []string{"cmd/awaken-hand", "sandbox/hand", "plugins/wasm"} {
		deps := []string{"fmt", "github.com/tetratelabs/wazero", opa + "/v1/ast", opa + "/v1/rego", badger + "/v4", "k8s.io/client-go/rest"}
		got := House.CheckLinks(path, "darwin", deps)
		if len(got) != 3 || !strings.Contains(got[0], path+" links "+opa+"/v1/ast on darwin: ") {
			t.Errorf("%s: got %q", path, got)
		}
		if got := House.CheckLinks(path, "linux", deps[:2]); len(got) > 0 {
			t.Errorf("%s: refused: %q", path, got)
		}
	}
}

func TestCheckTop(t *testing.T) {
	got := House.CheckTop([]string{".gitignore", "go.mod", "docs", "internal", "deps.go"})
	if len(got) != 2 || !strings.HasPrefix(got[0], "internal: ") || !strings.HasPrefix(got[1], "deps.go: ") {
		t.Errorf("got %q", got)
	}
}

// A rule without a reason is one that nobody can judge, and one behind a wider one
// is never asked.
func TestRulesAreSound(t *testing.T) {
	for i, r := range House.Rooms {
		if r.Why == "" {
			t.Errorf("room %s has no reason", r.Path)
		}
		for _, before := range House.Rooms[:i] {
			if fits(before.Path, strings.TrimSuffix(r.Path, "/*")) && strings.HasSuffix(before.Path, "/*") || before.Path == r.Path {
				t.Errorf("room %s stands behind %s, which covers it", r.Path, before.Path)
			}
		}
	}
	for _, s := range House.Suppliers {
		if s.Why == "" || len(s.By)+len(s.Tests) == 0 {
			t.Errorf("supplier %s has no reason or no importer", s.Path)
		}
	}
	for _, l := range House.Links {
		if l.Why == "" || len(l.Not) == 0 {
			t.Errorf("link %s has no reason or forbids nothing", l.Path)
		}
	}
}

// The loader sees what the go command would build anywhere, and no more.
func TestLoadGraph(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":                     "module m",
		"top.go":                     "package top\nimport \"example.com/top\"\n",
		"a/a.go":                     "package a\n\nimport (\n\t\"fmt\"\n\tx \"example.com/x\"\n)\n",
		"a/a_darwin.go":              "package a\nimport \"example.com/darwin\"\n",
		"a/a_tagged.go":              "//go:build never\n\npackage a\nimport \"example.com/tagged\"\n",
		"a/a_test.go":                "package a_test\nimport \"testing\"\n",
		"a/_a.go":                    "package broken {",
		"a/testdata/t.go":            "package broken {",
		"a/b/none.txt":               "",
		"bin/x/x.go":                 "package broken {",
		"e/node_modules/n/n.go":      "package broken {",
		"e/nested/go.mod":            "module nested",
		"e/nested/n.go":              "package broken {",
		".ci/tools/t.go":             "package broken {",
		"c/d/empty.go":               "package d\n",
		"c/d/deeper/with_comment.go": "// Package deeper.\npackage deeper\nimport _ \"embed\"\n",
	}
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := LoadGraph(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(g.Packages(), " "), "a c/d c/d/deeper"; got != want {
		t.Errorf("packages are %s, want %s", got, want)
	}
	var got []string
	for _, i := range g["a"] {
		s := i.File + " " + i.Path
		if i.Test {
			s += " test"
		}
		got = append(got, s)
	}
	want := "a/a.go fmt, a/a.go example.com/x, a/a_darwin.go example.com/darwin, a/a_tagged.go example.com/tagged, a/a_test.go testing test"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if len(g["a"]) > 1 && g["a"][1].Line != 5 {
		t.Errorf("the second import is at line %d, want 5", g["a"][1].Line)
	}

	if err := os.WriteFile(filepath.Join(dir, "a", "bad.go"), []byte("package a\nimport {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadGraph(dir); err == nil {
		t.Error("a file that cannot be read is passed over")
	}
}
