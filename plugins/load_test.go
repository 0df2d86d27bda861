package plugins

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // what programs that check schemas link
)

func TestLoadTrust(t *testing.T) {
	key, other := newKey(t), newKey(t)
	pinOf := func(f *folder) string { return hexSum([]byte(f.read(ManifestFile))) }
	for _, c := range []struct {
		name  string
		setup func(f *folder, o *LoadOptions)
		class error  // nil: loads
		file  string // the file the message must name
		words string // in the message
		by    TrustedBy
	}{
		{"signed", func(*folder, *LoadOptions) {}, nil, "", "", TrustedBySignature},
		{"signed, in scope", func(_ *folder, o *LoadOptions) { o.Trust = key.trust("acme-*", "te?t") }, nil, "", "", TrustedBySignature},
		{"signed and pinned", func(f *folder, o *LoadOptions) { o.Pin = pinOf(f) }, nil, "", "", TrustedBySignature},
		{"pin in upper case", func(f *folder, o *LoadOptions) { o.Pin = strings.ToUpper(pinOf(f)) }, nil, "", "", TrustedBySignature},
		{"pinned, no key", func(f *folder, o *LoadOptions) { o.Trust, o.Pin = Trust{}, pinOf(f) }, nil, "", "", TrustedByPin},
		{"pinned, unsigned", func(f *folder, o *LoadOptions) { os.Remove(f.path(SignatureFile)); o.Pin = pinOf(f) }, nil, "", "", TrustedByPin},
		{"pinned, out of scope", func(f *folder, o *LoadOptions) { o.Trust, o.Pin = key.trust("acme-*"), pinOf(f) }, nil, "", "", TrustedByPin},
		{"unsigned, opted in", func(f *folder, o *LoadOptions) { os.Remove(f.path(SignatureFile)); o.Trust.AllowUnsigned = true }, nil, "", "", TrustedByOptIn},

		{"unsigned", func(f *folder, _ *LoadOptions) { os.Remove(f.path(SignatureFile)) }, ErrUnsigned, ManifestFile, "awaken-host plugin sign", ""},
		{"tampered module", func(f *folder, _ *LoadOptions) { f.write("text.wasm", wasmHeader+"x") }, ErrTampered, "text.wasm", "restore the module", ""},
		{"tampered module, pinned", func(f *folder, o *LoadOptions) { o.Pin = pinOf(f); f.write("text.wasm", "") }, ErrTampered, "text.wasm", "restore the module", ""},
		{"tampered module, opted in", func(f *folder, o *LoadOptions) {
			os.Remove(f.path(SignatureFile))
			o.Trust.AllowUnsigned = true
			f.write("text.wasm", "x")
		}, ErrTampered, "text.wasm", "restore the module", ""},
		{"tampered manifest", func(f *folder, _ *LoadOptions) { f.edit(ManifestFile, `"1.0"`, `"1.1"`) }, ErrTampered, SignatureFile, "restore the signed manifest", ""},
		{"tampered manifest, opted in", func(f *folder, o *LoadOptions) {
			o.Trust.AllowUnsigned = true
			f.edit(ManifestFile, `"1.0"`, `"1.1"`)
		}, ErrTampered, SignatureFile, "restore the signed manifest", ""},
		{"white space added", func(f *folder, _ *LoadOptions) { f.write(ManifestFile, f.read(ManifestFile)+"\n") }, ErrTampered, SignatureFile, "did not sign", ""},
		{"signature over another manifest", func(f *folder, _ *LoadOptions) {
			f.write(SignatureFile, newFolder(t, minimal+"# other\n").sign(key).read(SignatureFile))
		}, ErrTampered, SignatureFile, "belongs to another one", ""},
		{"damaged signature", func(f *folder, _ *LoadOptions) { f.write(SignatureFile, "untrusted comment: x\nabc") }, ErrTampered, SignatureFile, "sign the plugin again", ""},
		{"changed trusted comment", func(f *folder, _ *LoadOptions) { f.edit(SignatureFile, "hashed", "HASHED") }, ErrTampered, SignatureFile, "did not sign", ""},
		{"damaged signature, pinned", func(f *folder, o *LoadOptions) { o.Pin = pinOf(f); f.write(SignatureFile, "") }, ErrTampered, SignatureFile, "damaged", ""},
		{"signature too large", func(f *folder, _ *LoadOptions) { f.write(SignatureFile, strings.Repeat("x", 20000)) }, ErrFile, SignatureFile, "larger than", ""},
		{"unknown key", func(_ *folder, o *LoadOptions) { o.Trust = other.trust() }, ErrUntrusted, SignatureFile, "[trust].keys", ""},
		{"unknown key, opted in", func(_ *folder, o *LoadOptions) { o.Trust = Trust{AllowUnsigned: true} }, ErrUntrusted, SignatureFile, "remove the signature file", ""},
		{"key id forged", func(f *folder, o *LoadOptions) {
			// The id of a trusted key over the bytes of another: the id is only a hint.
			k := other.trusted()
			k.ID = key.id
			o.Trust = Trust{Keys: []TrustedKey{k}}
		}, ErrTampered, SignatureFile, "did not sign", ""},
		{"key not from a file", func(_ *folder, o *LoadOptions) { o.Trust = Trust{Keys: []TrustedKey{{ID: key.id}}} }, ErrUntrusted, SignatureFile, "not in [trust].keys", ""},
		{"out of scope", func(_ *folder, o *LoadOptions) { o.Trust = key.trust("acme-*", "tex") }, ErrScope, SignatureFile, "widen plugins", ""},
		{"revoked key", func(_ *folder, o *LoadOptions) { o.Trust.Revoked = []string{strings.ToLower(key.id)} }, ErrRevoked, SignatureFile, "not revoked", ""},
		{"revoked key, pinned", func(f *folder, o *LoadOptions) { o.Trust.Revoked, o.Pin = []string{key.id}, pinOf(f) }, ErrRevoked, SignatureFile, "not revoked", ""},
		{"revoked digest", func(f *folder, o *LoadOptions) { o.Trust.Revoked = []string{pinOf(f)} }, ErrRevoked, ManifestFile, "replace the plugin", ""},
		{"revoked digest, pinned", func(f *folder, o *LoadOptions) { o.Trust.Revoked, o.Pin = []string{pinOf(f)}, pinOf(f) }, ErrRevoked, ManifestFile, "replace the plugin", ""},
		{"revoked typo", func(_ *folder, o *LoadOptions) { o.Trust.Revoked = []string{key.id[:12]} }, ErrSettings, "[trust].revoked", "16 hex digits", ""},
		{"wrong pin", func(_ *folder, o *LoadOptions) { o.Pin = strings.Repeat("0", 64) }, ErrTampered, ManifestFile, "review the new one", ""},
		{"malformed pin", func(_ *folder, o *LoadOptions) { o.Pin = "sha256:abc" }, ErrSettings, "", "64 hex digits", ""},
		{"no manifest", func(f *folder, _ *LoadOptions) { os.Remove(f.path(ManifestFile)) }, ErrFile, ManifestFile, "a plugin folder holds", ""},
		{"no module", func(f *folder, _ *LoadOptions) { os.Remove(f.path("text.wasm")) }, ErrFile, "text.wasm", "module.path", ""},
		{"module is a folder", func(f *folder, _ *LoadOptions) {
			os.Remove(f.path("text.wasm"))
			os.Mkdir(f.path("text.wasm"), 0o755)
		}, ErrFile, "text.wasm", "not a regular file", ""},
		{"module is a pipe", func(f *folder, _ *LoadOptions) {
			os.Remove(f.path("text.wasm"))
			syscall.Mkfifo(f.path("text.wasm"), 0o644)
		}, ErrFile, "text.wasm", "not a regular file", ""},
		{"module links outside", func(f *folder, _ *LoadOptions) {
			outside := newFolder(t, minimal)
			os.Remove(f.path("text.wasm"))
			os.Symlink(outside.path("text.wasm"), f.path("text.wasm"))
		}, ErrFile, "text.wasm", "escapes", ""},
		{"module links upwards", func(f *folder, _ *LoadOptions) {
			os.WriteFile(filepath.Join(filepath.Dir(f.dir), "up.wasm"), []byte(wasmHeader), 0o644)
			os.Remove(f.path("text.wasm"))
			os.Symlink("../up.wasm", f.path("text.wasm"))
		}, ErrFile, "text.wasm", "escapes", ""},
		{"module links inside", func(f *folder, _ *LoadOptions) {
			os.Rename(f.path("text.wasm"), f.path("real.wasm"))
			os.Symlink("real.wasm", f.path("text.wasm"))
		}, nil, "", "", TrustedBySignature},
		{"manifest too large", func(f *folder, _ *LoadOptions) { f.write(ManifestFile, strings.Repeat("#", MaxManifestBytes+1)) }, ErrFile, ManifestFile, "larger than", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t, minimal).sign(key)
			o := LoadOptions{Trust: key.trust()}
			c.setup(f, &o)
			p, err := Load(f.dir, o)
			if c.class == nil {
				if err != nil {
					t.Fatal(err)
				}
				if p.TrustedBy != c.by || (p.Signer == key.id) != (c.by == TrustedBySignature) {
					t.Errorf("trusted by %q, signer %q", p.TrustedBy, p.Signer)
				}
				if string(p.Module) != wasmHeader || p.Digest != pinOf(f) {
					t.Error("module or digest differ from the files")
				}
				return
			}
			if p != nil {
				t.Error("something was loaded")
			}
			var le *LoadError
			if !errors.Is(err, c.class) || !errors.As(err, &le) {
				t.Fatalf("%v is not a LoadError of class %v", err, c.class)
			}
			if !strings.HasSuffix(le.File, c.file) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("the message does not name %q and %q: %v", c.file, c.words, err)
			}
		})
	}
}

// A manifest is only parsed once somebody vouched for its bytes.
func TestUnvouchedManifestIsNotParsed(t *testing.T) {
	f := newFolder(t, "this is not TOML")
	if _, err := Load(f.dir, LoadOptions{}); !errors.Is(err, ErrUnsigned) {
		t.Error(err)
	}
	if _, err := Load(f.dir, LoadOptions{Trust: Trust{AllowUnsigned: true}}); !errors.Is(err, ErrManifest) {
		t.Error(err)
	}
}

func TestEmptyDigestIsNotLoaded(t *testing.T) {
	f := newFolder(t, minimal)
	_, err := Load(f.dir, LoadOptions{Trust: Trust{AllowUnsigned: true}})
	if !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "plugin sign") {
		t.Error(err)
	}
}

func TestLoadKeyProblems(t *testing.T) {
	key := newKey(t)
	text, err := os.ReadFile(key.public)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		plugins    []string
		words      string
	}{
		{"truncated", string(text[:len(text)-10]), nil, "damaged"},
		{"empty", "", nil, "damaged"},
		{"not base64", "untrusted comment: x\n!!!!\n", nil, "damaged"},
		{"large", strings.Repeat("A", 5000), nil, "larger than"},
		{"bad pattern", string(text), []string{"a["}, "malformed"},
		{"empty pattern", string(text), []string{""}, "malformed"},
		{"no patterns", string(text), []string{}, "leave it out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tools.pub")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := LoadKey(file, c.plugins)
			if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), c.words) {
				t.Error(err)
			}
		})
	}
	if _, err := LoadKey(key.secret, nil); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "secret key") {
		t.Error(err)
	}
	if _, err := LoadKey("absent.pub", nil); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
}

const asking = minimal + `target = "sandbox"
recovery = "idempotent"
[capabilities]
hosts = ["a.example:443", "*.b.example"]
paths = { "/data" = "ro", "/work" = "rw" }
commands = ["git", "rg"]
secrets = ["TOKEN"]
memory_mib = 128
timeout = "90s"
`

func TestEffectiveCapabilities(t *testing.T) {
	key := newKey(t)
	host := func(mode string) PathGrant { return PathGrant{Mode: mode} }
	def := DefaultLimits
	for _, c := range []struct {
		name   string
		grant  *Grant
		limits Limits
		want   Capabilities
		words  string // of the refusal
	}{
		{"no grant", nil, Limits{}, Capabilities{MemoryMiB: 128, Timeout: def.Timeout}, ""},
		{"lower limits", nil, Limits{MemoryMiB: 16, Timeout: time.Second}, Capabilities{MemoryMiB: 16, Timeout: time.Second}, ""},
		{"higher limits", nil, Limits{MemoryMiB: 1024, Timeout: time.Hour}, Capabilities{MemoryMiB: 128, Timeout: 90 * time.Second}, ""},
		{"empty grant", &Grant{}, Limits{}, Capabilities{MemoryMiB: 128, Timeout: def.Timeout}, ""},
		{"all", &Grant{Hosts: []string{"*.B.example", "https://a.example", "a.example"}, Paths: map[string]PathGrant{"/data": host(""), "/work": host("rw")}, Commands: []string{"rg", "git", "git"}}, Limits{},
			Capabilities{Hosts: []string{"*.b.example:443", "a.example:443"}, Paths: map[string]string{"/data": "ro", "/work": "rw"}, Commands: []string{"git", "rg"}, MemoryMiB: 128, Timeout: def.Timeout}, ""},
		{"some, lowered", &Grant{Hosts: []string{"x.b.example"}, Paths: map[string]PathGrant{"/work": host("ro")}}, Limits{},
			Capabilities{Hosts: []string{"x.b.example:443"}, Paths: map[string]string{"/work": "ro"}, MemoryMiB: 128, Timeout: def.Timeout}, ""},
		{"other host", &Grant{Hosts: []string{"a.example:80"}}, Limits{}, Capabilities{}, `does not ask for "a.example:80", it asks for a.example:443, *.b.example:443, did you mean`},
		{"wider host", &Grant{Hosts: []string{"*.example"}}, Limits{}, Capabilities{}, `does not ask for "*.example"`},
		{"apex", &Grant{Hosts: []string{"b.example"}}, Limits{}, Capabilities{}, `does not ask for "b.example"`},
		{"plain http", &Grant{Hosts: []string{"http://a.example:443"}}, Limits{}, Capabilities{}, `does not ask for "http://a.example:443"`},
		{"no host", &Grant{Hosts: []string{"*"}}, Limits{}, Capabilities{}, `grant.hosts: "*" has a wildcard`},
		{"other path", &Grant{Paths: map[string]PathGrant{"/dat": host("ro")}}, Limits{}, Capabilities{}, `did you mean "/data"?`},
		{"other command", &Grant{Commands: []string{"sh"}}, Limits{}, Capabilities{}, `does not ask for "sh"`},
		{"path raised", &Grant{Paths: map[string]PathGrant{"/data": host("rw")}}, Limits{}, Capabilities{}, `asks for "ro"`},
		{"path mode", &Grant{Paths: map[string]PathGrant{"/data": host("x")}}, Limits{}, Capabilities{}, `write "ro" or "rw"`},
		{"path with host", &Grant{Paths: map[string]PathGrant{"/data": {Host: "/srv", Mode: "ro"}}}, Limits{}, Capabilities{}, "leave host away"},
		{"negative quota", &Grant{Paths: map[string]PathGrant{"/data": {MaxMiB: -1}}}, Limits{}, Capabilities{}, "max_mib"},
		{"negative number of files", &Grant{Paths: map[string]PathGrant{"/data": {MaxFiles: -1}}}, Limits{}, Capabilities{}, "max_files"},
		{"negative limit", nil, Limits{MemoryMiB: -1}, Capabilities{}, "[limits]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t, asking).sign(key)
			p, err := Load(f.dir, LoadOptions{Trust: key.trust(), Grant: c.grant, Limits: c.limits, Source: "host.toml"})
			if c.words != "" {
				if !errors.Is(err, ErrSettings) || !strings.HasPrefix(err.Error(), "host.toml: ") || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p.Effective, c.want) {
				t.Errorf("got  %+v\nwant %+v", p.Effective, c.want)
			}
			if p.OutputMiB != def.OutputMiB {
				t.Errorf("output limit %d", p.OutputMiB)
			}
		})
	}
}

// Beside the model a path is a folder of this machine; where a tool of the plugin runs
// in a sandbox, it is the place of that name there and no folder of this machine.
func TestPathGrantsByTarget(t *testing.T) {
	key := newKey(t)
	const paths = "[capabilities]\npaths = { \"/data\" = \"ro\" }\n"
	second := "[[tool]]\nid = \"more\"\nexport = \"more\"\n"
	for _, c := range []struct {
		name, manifest string
		host, words    string
		missing        string
	}{
		{"brain", minimal + paths, `C:\x`, "", `paths = { "/data" = { host = "…", mode = "ro" } }`},
		{"brain without host", minimal + paths, "", "set host", ""},
		{"sandbox", minimal + "target = \"sandbox\"\n" + paths, "", "", `paths = { "/data" = { mode = "ro" } }`},
		{"sandbox with host", minimal + "target = \"sandbox\"\n" + paths, "/srv", "[[sandbox.mount]]", ""},
		{"both", minimal + "target = \"sandbox\"\n" + second + paths, "", "", `paths = { "/data" = { mode = "ro" } }`},
		{"both with host", minimal + second + "target = \"sandbox\"\n" + paths, "/srv", "leave host away", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t, c.manifest).sign(key)
			o := LoadOptions{Trust: key.trust(), Grant: &Grant{Paths: map[string]PathGrant{"/data": {Host: c.host}}}}
			p, err := Load(f.dir, o)
			if c.words != "" {
				if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || p.Effective.Paths["/data"] != "ro" || p.Grant.Paths["/data"].Host != c.host {
				t.Fatalf("%+v, %v", p, err)
			}
			if p.MissingGrants() != "" {
				t.Errorf("asks for more: %s", p.MissingGrants())
			}
			o.Grant = nil
			if p, err = Load(f.dir, o); err != nil || !strings.Contains(p.MissingGrants(), c.missing) {
				t.Errorf("%v: %s", err, p.MissingGrants())
			}
		})
	}
}

func TestMissingGrants(t *testing.T) {
	key := newKey(t)
	f := newFolder(t, asking).sign(key)
	for _, c := range []struct {
		grant *Grant
		want  string
	}{
		{nil, `[plugin.grant]
hosts = ["a.example:443", "*.b.example:443"]
paths = { "/data" = { mode = "ro" }, "/work" = { mode = "rw" } }
commands = ["git", "rg"]
[plugin.secrets]
TOKEN = { env = "TOKEN" }
`},
		{&Grant{Hosts: []string{"a.example:443", "*.b.example"}, Commands: []string{"git"}, Paths: map[string]PathGrant{"/data": {}}}, `[plugin.grant]
paths = { "/data" = { mode = "ro" }, "/work" = { mode = "rw" } }
commands = ["git", "rg"]
[plugin.secrets]
TOKEN = { env = "TOKEN" }
`},
		{&Grant{Hosts: []string{"a.example:443", "*.b.example"}, Commands: []string{"git", "rg"},
			Paths: map[string]PathGrant{"/data": {}, "/work": {}}}, "[plugin.secrets]\nTOKEN = { env = \"TOKEN\" }\n"},
		{&Grant{Hosts: []string{"a.example:443", "*.b.example"}, Commands: []string{"git", "rg"},
			Paths: map[string]PathGrant{"/data": {}, "/work": {}}}, ""},
	} {
		o := LoadOptions{Trust: key.trust(), Grant: c.grant}
		if c.want == "" {
			o.Secrets = map[string]SecretSource{"TOKEN": fixed("irrelevant")}
		}
		p, err := Load(f.dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MissingGrants(); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
		if _, _, err := openDocument("x", []byte(p.MissingGrants())); err != nil {
			t.Errorf("not TOML: %v", err)
		}
	}
}

func TestSettings(t *testing.T) {
	key := newKey(t)
	f := newFolder(t, asking).sign(key)
	pins := func(tool string, policy batch.RecoveryPolicy, attempts int) map[string]RecoveryChoice {
		return map[string]RecoveryChoice{tool: {policy, attempts}}
	}
	for _, c := range []struct {
		name  string
		o     LoadOptions
		words string // "": loads
	}{
		{"never", LoadOptions{Recovery: pins("count", batch.NeverReplay, 0)}, ""},
		{"empty", LoadOptions{Recovery: pins("count", "", 1)}, ""},
		{"same", LoadOptions{Recovery: pins("count", "idempotent", 5)}, ""},
		{"wider", LoadOptions{Recovery: pins("count", "replay_safe", 0)}, "wider than the tool's capability"},
		{"unknown policy", LoadOptions{Recovery: pins("count", "always", 0)}, `recovery policy "always"`},
		{"negative", LoadOptions{Recovery: pins("count", "idempotent", -1)}, "max_attempts is -1"},
		{"unknown tool", LoadOptions{Recovery: pins("cuont", "idempotent", 1)}, `has no tool "cuont", it has count, did you mean "count"?`},
		{"name", LoadOptions{Names: map[string]string{"count": "count_words"}}, ""},
		{"name of unknown tool", LoadOptions{Names: map[string]string{"x": "y"}}, `has no tool "x"`},
		{"bad name", LoadOptions{Names: map[string]string{"count": "a:b"}}, "not a tool name"},
		{"secret", LoadOptions{Secrets: map[string]SecretSource{"TOKEN": fixed("x")}}, ""},
		{"secret not asked for", LoadOptions{Secrets: map[string]SecretSource{"TOKENS": fixed("x")}}, `secrets: the manifest does not ask for "TOKENS", it asks for TOKEN, did you mean "TOKEN"?`},
		{"secret without source", LoadOptions{Secrets: map[string]SecretSource{"TOKEN": nil}}, `secrets: "TOKEN" has no source`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Trust = key.trust()
			_, err := Load(f.dir, c.o)
			if c.words == "" && err != nil {
				t.Error(err)
			}
			if c.words != "" && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What the caller does with its maps afterwards does not reach the plugin.
func TestLoadKeepsNothingOfItsOptions(t *testing.T) {
	key := newKey(t)
	f := newFolder(t, asking).sign(key)
	o := LoadOptions{Trust: key.trust(), Config: map[string]string{"a": "1"}, Names: map[string]string{"count": "c"},
		Recovery: map[string]RecoveryChoice{"count": {MaxAttempts: 2}}, Grant: &Grant{Paths: map[string]PathGrant{"/data": {Mode: "ro"}}}}
	p, err := Load(f.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	clear(o.Config)
	clear(o.Names)
	clear(o.Recovery)
	clear(o.Grant.Paths)
	if p.Config["a"] != "1" || p.Names["count"] != "c" || p.Recovery["count"].MaxAttempts != 2 || p.Grant.Paths["/data"].Mode != "ro" {
		t.Errorf("%+v", p)
	}
}
