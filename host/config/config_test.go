package config

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
)

// parse reads a document that must be right.
func parse(t *testing.T, doc string) *Config {
	t.Helper()
	c, err := Parse("etc/host.toml", []byte(doc))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

func TestParseDesignSample(t *testing.T) {
	data, err := os.ReadFile("testdata/design.toml")
	if err != nil {
		t.Fatal(err)
	}
	got := parse(t, string(data))
	got.lines = nil
	sandboxed := defaultSandbox()
	sandboxed.EngineArgs, sandboxed.Image = []string{}, "name@sha256:"+strings.Repeat("0", 64)
	sandboxed.Require = map[string]string{"network": "none"}
	want := &Config{
		File:    "etc/host.toml",
		Version: 1,
		DataDir: "etc/.awaken",
		Trust:   Trust{Keys: []TrustKey{{File: "etc/keys/tools.pub", Plugins: []string{"text", "acme-*"}}}, Revoked: []string{}},
		Store:   Store{Sync: true, MinFreeMiB: 64, Retention: 30 * 24 * time.Hour},
		Tickets: Tickets{Timeout: 7 * 24 * time.Hour},
		Policy:  Policy{Paths: []string{"etc/policy"}, Deadline: 100 * time.Millisecond, Builtins: []string{}, Log: defaultPolicyLog(), Watch: 2 * time.Second},
		Plugins: []Plugin{{
			Path: "etc/plugins/text",
			Grant: &Grant{
				Hosts:    []string{"api.example.com:443"},
				Paths:    map[string]PathGrant{"/workspace": {Host: "etc/work", Mode: "rw", MaxMiB: 256}},
				Commands: []string{"git"},
			},
			Config:  map[string]Secret{"units": NewSecret("metric")},
			Secrets: map[string]SecretSource{"API_TOKEN": {Env: "ACME_TOKEN"}},
			Clock:   "real", Random: "real",
		}},
		Limits:  Limits{MemoryMiB: 256, Timeout: time.Minute, OutputMiB: 16, ArgumentsMiB: 4, QueuedCalls: 1000, CompileTimeout: time.Minute},
		Egress:  Egress{Timeout: 30 * time.Second, RequestMiB: 8, ResponseMiB: 8},
		Sandbox: sandboxed,
		Serve:   Serve{Bind: "127.0.0.1:8421"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", reveal(got), reveal(want))
	}
}

// reveal prints a Config with its pointers followed.
func reveal(c *Config) string {
	var b strings.Builder
	for _, s := range c.Effective() {
		b.WriteString(s.Key + " = " + s.Value + "\n")
	}
	return b.String()
}

func TestParseEverythingElse(t *testing.T) {
	pin := strings.Repeat("aB", 32)
	c := parse(t, `
version = 1
data_dir = "/var/lib/awaken"
[trust]
revoked = ["0123456789ABCDEF"]
allow_unsigned = true
[[trust.keys]]
file = "/etc/a.pub"
[store]
sync = false
min_free_mib = 128
[[plugin]]
path = "../text"
sha256 = "`+pin+`"
[plugin.names]
word_count = "count-words"
[plugin.recovery]
word_count = "replay_safe"
send = { policy = "idempotent", max_attempts = 5 }
fetch = { policy = "never_replay" }
[[plugin]]
path = "plugins/other"
[plugin.secrets]
A = { file = "a.txt" }
B = { command = ["pass", "acme"] }
[limits]
arguments_mib = 2
`)
	checks := map[string]struct{ got, want any }{
		"absolute data_dir": {c.DataDir, "/var/lib/awaken"},
		"revoked lowered":   {c.Trust.Revoked, []string{"0123456789abcdef"}},
		"allow_unsigned":    {c.Trust.AllowUnsigned, true},
		"key for any":       {c.Trust.Keys, []TrustKey{{File: "/etc/a.pub"}}},
		"sync":              {c.Store.Sync, false},
		"min_free_mib":      {c.Store.MinFreeMiB, 128},
		"parent folder":     {c.Plugins[0].Path, "text"},
		"pin lowered":       {c.Plugins[0].SHA256, strings.ToLower(pin)},
		"no grant":          {c.Plugins[0].Grant, (*Grant)(nil)},
		"names":             {c.Plugins[0].Names, map[string]string{"word_count": "count-words"}},
		"recovery": {c.Plugins[0].Recovery, map[string]plugins.RecoveryChoice{
			"word_count": {Policy: "replay_safe", MaxAttempts: 3},
			"send":       {Policy: "idempotent", MaxAttempts: 5},
			"fetch":      {Policy: "never_replay", MaxAttempts: 3},
		}},
		"secrets": {c.Plugins[1].Secrets, map[string]SecretSource{
			"A": {File: "etc/a.txt"}, "B": {Command: []Secret{NewSecret("pass"), NewSecret("acme")}},
		}},
		"argument bytes": {c.Limits.MaxArgumentBytes(), 2 << 20},
		"ceilings":       {c.Limits.Ceilings(), plugins.DefaultLimits},
		"default policy": {c.Policy.Paths, []string{"etc/policy"}},
	}
	for name, check := range checks {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("%s: got %#v, want %#v", name, check.got, check.want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	link := func(name, to string) string {
		file := filepath.Join(dir, name)
		if err := os.Symlink(to, file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pipe := filepath.Join(dir, "pipe.toml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "c") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	socket := filepath.Join(short, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	good := link("linked.toml", write("host.toml", "version = 1\n"))
	c, err := Load(good)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, ".awaken"); c.DataDir != want {
		t.Errorf("data_dir is %q, want %q", c.DataDir, want)
	}

	tests := []struct {
		name, file, want string
		is               error
	}{
		{"missing", filepath.Join(dir, "none.toml"), "none.toml: there is no such file; name one with -c, or make one with: awaken-host init", fs.ErrNotExist},
		{"folder", dir, "is a folder, not a file; name a host.toml file", nil},
		{"named pipe", pipe, "pipe.toml: is a named pipe, not a file; name a host.toml file", nil},
		{"link to a named pipe", link("to-pipe.toml", pipe), "to-pipe.toml: is a named pipe, not a file; name a host.toml file", nil},
		{"device", "/dev/zero", "/dev/zero: is a device, not a file; name a host.toml file", nil},
		{"socket", socket, "is a socket, not a file; name a host.toml file", nil},
		{"UTF-16", write("utf16.toml", "\xff\xfe"), "utf16.toml:1: is not UTF-8; save it as UTF-8", nil},
		{"byte order mark", write("bom.toml", "\ufeffversion = 1"), "bom.toml:1: starts with a byte order mark; save it as UTF-8 without one", nil},
		{"link to nowhere", link("dangling.toml", filepath.Join(dir, "gone")), "dangling.toml: there is no such file", fs.ErrNotExist},
		{"large", write("large.toml", strings.Repeat("#", maxFileBytes+1)), "is larger than 256 KiB; name a host.toml file", nil},
		{"invalid", write("bad.toml", "version = 2"), "bad.toml:1: version: is 2, this release reads version 1", nil},
		{"refused", write("oci.toml", "version = 1\n[policy]\nrequire_log = true"), "oci.toml:3: policy.require_log: ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(tt.file)
			var ce *Error
			if c != nil || !errors.As(err, &ce) {
				t.Fatalf("Load = %v, %v, want an *Error", c, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

// The environment is no source of configuration: no line of the package asks for it.
func TestEnvironmentIsNotRead(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source found: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				switch sel.Sel.Name {
				case "Getenv", "LookupEnv", "Environ", "ExpandEnv", "UserHomeDir", "UserConfigDir":
					t.Errorf("%s uses %s", file, sel.Sel.Name)
				}
			}
			return true
		})
	}
}
