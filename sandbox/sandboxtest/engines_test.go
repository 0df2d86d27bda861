package sandboxtest

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFindEngineSet(t *testing.T) {
	top := t.TempDir()
	inner := filepath.Join(top, "sandbox", "container")
	for _, dir := range []string{inner, filepath.Join(top, "bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := findEngineSet(inner)
	if err != nil || !reflect.DeepEqual(set, &EngineSet{}) {
		t.Errorf("without a file: %+v, %v", set, err)
	}

	file := filepath.Join(top, "bin", "engines.json")
	for _, tt := range []struct {
		text string
		want *EngineSet
		err  string
	}{
		{`{"state":"/s","docker":{"host":"unix:///d","image":"i@sha256:0"}}`, &EngineSet{State: "/s", Docker: &DockerEngine{Host: "unix:///d", Image: "i@sha256:0"}}, ""},
		{`{"missing":{"kube":"why"}}`, &EngineSet{Missing: map[string]string{"kube": "why"}}, ""},
		{`{"other":1}`, nil, "unknown field"},
		{`{`, nil, "make engines again"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := findEngineSet(inner)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: error %v, want %s and %q", tt.text, err, file, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(set, tt.want) {
			t.Errorf("%s: %+v, %v", tt.text, set, err)
		}
	}
	if _, err := readEngineSet(filepath.Join(top, "none.json")); err == nil || !strings.Contains(err.Error(), "make engines") {
		t.Errorf("a named file that is not there: %v", err)
	}
}

// outcome is a test that notes how it ended.
type outcome struct {
	testing.TB
	skipped, failed string
}

func (o *outcome) Helper() {}

func (o *outcome) Skipf(format string, _ ...any) { o.skipped = format }

func (o *outcome) Fatalf(format string, _ ...any) { o.failed = format }

func TestMissingEngine(t *testing.T) {
	for _, tt := range []struct {
		ci      string
		skipped bool
	}{{"", true}, {"false", true}, {"true", false}} {
		t.Setenv("CI", tt.ci)
		o := &outcome{TB: t}
		(&EngineSet{}).miss(o, "docker")
		if skipped, failed := o.skipped != "", o.failed != ""; skipped != tt.skipped || failed == tt.skipped {
			t.Errorf("CI=%q: skipped %v, failed %v", tt.ci, skipped, failed)
		}
	}
}
