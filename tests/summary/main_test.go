package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run makes a module of the given files, tests it for real and returns what the
// summary says.
func run(t *testing.T, noSkips bool, files map[string]string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "-timeout", "20s", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if len(out) == 0 {
		t.Fatalf("go test printed nothing: %v", err)
	}
	var b bytes.Buffer
	s := newSummary(&b)
	if err := s.read(bytes.NewReader(out)); err != nil {
		t.Fatal(err)
	}
	ok := s.close(noSkips)
	return b.String(), ok
}

const head = "package a\nimport \"testing\"\n"

func TestSummary(t *testing.T) {
	tests := []struct {
		name    string
		noSkips bool
		files   map[string]string
		ok      bool
		last    string
		want    []string
		not     []string
	}{
		{
			name: "all pass",
			files: map[string]string{
				"a/a_test.go": head + "func TestA(t *testing.T) { t.Log(\"quiet\"); t.Run(\"x\", func(*testing.T) {}) }",
				"b/b.go":      "package b",
			},
			ok: true, last: "2 passed, 0 failed, 0 skipped",
			want: []string{"ok  \tm/a", "m/b\t[no test files]"}, not: []string{"quiet", "PASS"},
		},
		{
			name: "one fails",
			files: map[string]string{
				"a/a_test.go": head + "func TestA(t *testing.T) { t.Error(\"loud\") }\nfunc TestB(t *testing.T) { t.Log(\"quiet\") }",
			},
			last: "1 passed, 1 failed, 0 skipped",
			want: []string{"--- FAIL: TestA", "loud", "FAIL\tm/a"}, not: []string{"quiet"},
		},
		{
			name:  "panic",
			files: map[string]string{"a/a_test.go": head + "func TestA(t *testing.T) { t.Log(\"before\"); panic(\"aargh\") }"},
			last:  "0 passed, 1 failed, 0 skipped",
			want:  []string{"before", "panic: aargh", "FAIL\tm/a"},
		},
		{
			name:  "process ends",
			files: map[string]string{"a/a_test.go": "package a\nimport (\"os\"; \"testing\")\nfunc TestA(t *testing.T) { t.Log(\"before\"); os.Exit(3) }"},
			last:  "0 passed, 1 failed, 0 skipped",
			want:  []string{"=== RUN   TestA", "FAIL\tm/a"},
		},
		{
			name:  "set-up fails",
			files: map[string]string{"a/a_test.go": "package a\nimport (\"os\"; \"testing\")\nfunc TestMain(*testing.M) { os.Exit(3) }\nfunc TestA(*testing.T) {}"},
			last:  "0 passed, 1 failed, 0 skipped",
			want:  []string{"packages that failed outside of a test: 1", "no test ran"},
		},
		{
			name: "does not build",
			files: map[string]string{
				"a/a_test.go": head + "func TestA(t *testing.T) { nonsense() }",
				"b/b_test.go": strings.Replace(head, "package a", "package b", 1) + "func TestB(*testing.T) {}",
			},
			last: "1 passed, 1 failed, 0 skipped",
			want: []string{"undefined: nonsense", "packages that failed outside of a test: 1", "ok  \tm/b"},
		},
		{
			name:  "skipped",
			files: map[string]string{"a/a_test.go": head + "func TestA(t *testing.T) { t.Skip(\"clang is missing\") }\nfunc TestB(*testing.T) {}"},
			ok:    true, last: "1 passed, 0 failed, 1 skipped",
			want: []string{"clang is missing"},
		},
		{
			name:    "skipped where none may be",
			noSkips: true,
			files:   map[string]string{"a/a_test.go": head + "func TestA(t *testing.T) { t.Skip(\"clang is missing\") }\nfunc TestB(*testing.T) {}"},
			last:    "1 passed, 0 failed, 1 skipped",
			want:    []string{"clang is missing", "no test may be skipped"},
		},
		{
			name:  "nothing to run",
			files: map[string]string{"a/a.go": "package a"},
			last:  "0 passed, 0 failed, 0 skipped",
			want:  []string{"no test ran"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, ok := run(t, tt.noSkips, tt.files)
			if ok != tt.ok {
				t.Errorf("ok is %v, want %v", ok, tt.ok)
			}
			if !strings.HasSuffix(out, "\n"+tt.last+"\n") {
				t.Errorf("the last line is not %q", tt.last)
			}
			for _, w := range tt.want {
				if !strings.Contains(out, w) {
					t.Errorf("%q is missing", w)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(out, n) {
					t.Errorf("%q is there", n)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
