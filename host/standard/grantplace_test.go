package standard_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// No plugin gets what the host decides by, or keeps, under whatever name.
func TestPlacesOfTheHost(t *testing.T) {
	dir := t.TempDir()
	if _, err := standard.Init(dir); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "plugins", "hello", "plugin.toml")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	asks := regexp.MustCompile(`(?m)^\[capabilities\]$`).ReplaceAllString(string(text), "[capabilities]\npaths = { \"/w\" = \"rw\" }")
	if err := os.WriteFile(manifest, []byte(asks), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := standard.Sign(filepath.Dir(manifest), filepath.Join(dir, "keys", "tools.key"), "", true); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"work", "data/inner", "keys2"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"to-data": "data", "to-work": "work", "to-all": "."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ host, mode, want string }{
		{"work", "rw", ""},
		{"to-work", "rw", ""},
		{"work/none/yet", "rw", ""},
		{"policy", "ro", ""},
		{"keys", "ro", "a trusted key"},
		{"plugins", "ro", ""},
		{"data", "ro", "data_dir"},
		{"data", "rw", "data_dir"},
		{"data/inner", "ro", "data_dir"},
		{"data/none/yet", "ro", "data_dir"},
		{"to-data", "ro", "data_dir"},
		{"to-data/inner", "rw", "data_dir"},
		{"work/../data", "ro", "data_dir"},
		{".", "ro", "the host file"},
		{"to-all", "ro", "the host file"},
		{"/", "ro", "the host file"},
		{"policy", "rw", "a policy"},
		{"keys", "rw", "a trusted key"},
		{"plugins", "rw", "a plugin"},
		{"plugins/hello", "rw", "a plugin"},
		{"/proc", "ro", "processes and devices"},
		{"/proc/self/root" + dir + "/work", "ro", ""},
		{"/sys/kernel", "ro", "processes and devices"},
		{"/dev", "rw", "processes and devices"},
	}
	for _, tt := range tests {
		t.Run(tt.mode+" "+tt.host, func(t *testing.T) {
			file := filepath.Join(dir, "host.toml")
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.WriteFile(file, before, 0o600) }()
			changed := regexp.MustCompile(`(?m)^data_dir = .*$`).ReplaceAllString(string(before), `data_dir = "data"`) +
				"\n[plugin.grant.paths]\n\"/w\" = { host = \"" + tt.host + "\", mode = \"" + tt.mode + "\" }\n"
			if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err = standard.LoadTools(context.Background(), file, standard.Options{})
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `grant.paths: "/w"`)):
				t.Errorf("got %v, want %q", err, tt.want)
			case err != nil && standard.ExitCode(err) != 2:
				t.Errorf("exit status %d", standard.ExitCode(err))
			}
		})
	}
}
