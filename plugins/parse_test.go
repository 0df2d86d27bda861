package plugins

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// sampleManifest is the manifest the format is documented with.
const sampleManifest = `# plugin.toml
manifest = 1
id = "text"
version = "1.2.0"
description = "Text statistics"

[module]
path = "text.wasm"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
abi = "extism"            # "extism" (any PDK) or "wasi" (a command module)

[capabilities]            # an upper bound; empty means nothing
hosts = ["API.example.com:443"]
paths = { "/workspace" = "rw" }
commands = ["git"]        # only for target = "sandbox"
secrets = ["API_TOKEN"]
memory_mib = 64
timeout = "5s"

[[tool]]
id = "word_count"
export = "word_count"
description = "Counts words"
target = "sandbox"
require = { network = "none", filesystem = "isolated" }
recovery = "replay_safe"
isolation = "call"
input_schema = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
output_schema = { type = "object" }
annotations = { read_only = true, since = 2024-05-01, at = 2024-05-01T10:00:00Z, local = 2024-05-01T10:00:00 }
encoding = { input = "json", output = "json" }

[[tool]]
id = "upper"
export = "upper"
encoding = { input = "text:text", output = "text" }
[tool.input_schema]
type = "object"
[tool.input_schema.properties.text]
type = ["string", "null"]

[[state]]
key = "counter"
schema = { type = "integer" }
`

func TestParseManifestSample(t *testing.T) {
	m, err := ParseManifest("plugin.toml", []byte(sampleManifest))
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{
		ID: "text", Version: "1.2.0", Description: "Text statistics",
		Module: Module{Path: "text.wasm", SHA256: strings.Repeat("0", 64), ABI: ABIExtism},
		Capabilities: Capabilities{
			Hosts: []string{"api.example.com:443"}, Paths: map[string]string{"/workspace": "rw"},
			Commands: []string{"git"}, Secrets: []string{"API_TOKEN"}, MemoryMiB: 64, Timeout: 5 * time.Second,
		},
		Tools: []ToolSpec{
			{
				ID: "word_count", Export: "word_count", Description: "Counts words", Target: batch.TargetSandbox,
				Recovery: batch.ReplaySafe, Isolation: IsolationCall,
				InputSchema:  []byte(`{"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"}`),
				OutputSchema: []byte(`{"type":"object"}`),
				Annotations: map[string]any{"read_only": true, "since": "2024-05-01", "at": "2024-05-01T10:00:00Z",
					"local": "2024-05-01T10:00:00"},
				Require:  map[string]string{"network": "none", "filesystem": "isolated"},
				Encoding: Encoding{Input: "json", Output: "json"},
			},
			{
				ID: "upper", Export: "upper", Target: batch.TargetBrain, Recovery: batch.NonRecoverable, Isolation: IsolationCall,
				InputSchema: []byte(`{"properties":{"text":{"type":["string","null"]}},"type":"object"}`),
				Encoding:    Encoding{Input: "text:text", Output: "text"},
			},
		},
		State: []StateSpec{{Key: "counter", Schema: []byte(`{"type":"integer"}`)}},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
}

// minimal is a manifest whose lines the cases below replace or extend.
const minimal = `manifest = 1
id = "text"
version = "1.0"
[module]
path = "text.wasm"
abi = "extism"
[[tool]]
id = "count"
export = "count"
`

func TestParseManifestProblems(t *testing.T) {
	swap := func(old, text string) string {
		if !strings.Contains(minimal, old) {
			t.Fatalf("%q is not in the minimal manifest", old)
		}
		return strings.Replace(minimal, old, text, 1)
	}
	wasi := strings.NewReplacer(`"extism"`, `"wasi"`, "export = \"count\"\n", "").Replace(minimal)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", swap("version", "verzion"), []string{`plugin.toml:3: verzion: unknown key, did you mean "version"?`, "plugin.toml: version: missing"}},
		{"other case", swap("version", "Version"), []string{`3: Version: unknown key, did you mean "version"?`}},
		{"unknown deep", minimal + "encoding = { imput = \"json\" }\n", []string{`:10: tool[0].encoding.imput: unknown key, did you mean "input"?`}},
		{"unknown table", minimal + "[capabillities]\n", []string{`:10: capabillities: unknown key, did you mean "capabilities"?`}},
		{"second tool", minimal + "[[tool]]\nid = 'b'\nexport = 'b'\nfoo = 1\n", []string{":13: tool[1].foo: unknown key"}},
		{"wrong type", swap(`version = "1.0"`, "version = 1.0"), []string{"plugin.toml:3: version: is a float, write a string"}},
		{"wrong table", swap("[module]", "[[module]]"), []string{":4: module: is an array, write a table"}},
		{"wrong element", minimal + "[capabilities]\nhosts = [\n  'a.b',\n  7,\n]\n", []string{":13: capabilities.hosts[1]: is an integer, write a string"}},
		{"several", "manifest = 2\nid = 'A'\n", []string{":1: manifest: format 2", ":2: id: ", "version: missing", "[module] is missing", "there is no tool"}},
		{"syntax", "manifest = 1\nid = \n", []string{"plugin.toml:2: "}},
		{"key twice", minimal + "id = 'x'\n", []string{":10: tool[0].id: set twice"}},
		{"inline twice", minimal + "encoding = { input = 'json', input = 'json' }\n", []string{"set twice"}},
		{"in array twice", minimal + "annotations = { a = [{ x = 1, x = 2 }] }\n", []string{"set twice"}},
		{"not utf8", minimal + "description = \"\xff\"\n", []string{"not UTF-8"}},
		{"byte order mark", "\ufeff" + minimal, []string{"byte order mark"}},
		{"id with underscore", swap(`"text"`, `"a_b"`), []string{"not a plugin id"}},
		{"id with dash first", swap(`"text"`, `"-a"`), []string{"not a plugin id"}},
		{"version", swap(`"1.0"`, `"one"`), []string{"not a version"}},
		{"absolute module", swap(`"text.wasm"`, `"/etc/text.wasm"`), []string{":5: module.path", "write it relative"}},
		{"module above", swap(`"text.wasm"`, `"../text.wasm"`), []string{"leave out the steps . and .."}},
		{"module backslash", swap(`"text.wasm"`, `'..\text.wasm'`), []string{"write it relative"}},
		{"module is manifest", swap(`"text.wasm"`, `"plugin.toml"`), []string{"is not a module"}},
		{"sha", swap("abi", "sha256 = 'ABC'\nabi"), []string{"not a SHA-256"}},
		{"abi", swap(`"extism"`, `"extsm"`), []string{`:6: module.abi: "extsm" is not known, use "extism" or "wasi", did you mean "extism"?`}},
		{"abi missing", swap("abi = \"extism\"\n", ""), []string{"module.abi: missing"}},
		{"target", minimal + "target = \"sanbox\"\n", []string{`did you mean "sandbox"?`}},
		{"require beside the model", minimal + "require = { network = \"none\" }\n", []string{`tool[0].require: only a tool with target = "sandbox"`}},
		{"require a property", minimal + "target = \"sandbox\"\nrequire = { netwark = \"none\" }\n", []string{`:11: tool[0].require.netwark: "netwark" is no property of a sandbox`, `did you mean "network"?`}},
		{"require a word", minimal + "target = \"sandbox\"\nrequire = { filesystem = \"none\" }\n", []string{`filesystem cannot be "none": write "isolated"`}},
		{"require no text", minimal + "target = \"sandbox\"\nrequire = { network = 1 }\n", []string{"tool[0].require.network: is an integer, write a string"}},
		{"require no table", minimal + "target = \"sandbox\"\nrequire = \"all\"\n", []string{"tool[0].require: is a string, write a table"}},
		{"recovery", minimal + "recovery = \"safe\"\n", []string{"tool[0].recovery"}},
		{"isolation", minimal + "isolation = \"none\"\n", []string{"tool[0].isolation"}},
		{"no export", swap("export = \"count\"\n", ""), []string{"tool[0].export: missing"}},
		{"args for extism", minimal + "args = [\"-x\"]\n", []string{"tool[0].args: goes with abi = \"wasi\" only"}},
		{"export for wasi", wasi + "export = \"x\"\n", []string{"tool[0].export: goes with abi = \"extism\" only"}},
		{"isolation for wasi", wasi + "isolation = \"run\"\n", []string{"tool[0].isolation"}},
		{"args with nul", wasi + "args = [\"a\\u0000b\"]\n", []string{"tool[0].args[0]: holds a NUL"}},
		{"timeout integer", minimal + "[capabilities]\ntimeout = 5\n", []string{":11: capabilities.timeout: is an integer, write a duration"}},
		{"timeout text", minimal + "[capabilities]\ntimeout = \"5\"\n", []string{"not a duration"}},
		{"timeout zero", minimal + "[capabilities]\ntimeout = \"0s\"\n", []string{"not a duration"}},
		{"memory zero", minimal + "[capabilities]\nmemory_mib = 0\n", []string{"0 is out of range, write 1 to 4096"}},
		{"memory huge", minimal + "[capabilities]\nmemory_mib = 4097\n", []string{"out of range"}},
		{"host empty", minimal + "[capabilities]\nhosts = [\"\"]\n", []string{"not a host"}},
		{"host scheme", minimal + "[capabilities]\nhosts = [\"ftp://a.b\"]\n", []string{":11: capabilities.hosts[0]: \"ftp://a.b\" has a scheme that is not known"}},
		{"host space", minimal + "[capabilities]\nhosts = [\"a b\"]\n", []string{"not a host"}},
		{"host pattern", minimal + "[capabilities]\nhosts = [\"*\"]\n", []string{"has a wildcard that is not known"}},
		{"host port", minimal + "[capabilities]\nhosts = [\"a.b:0\"]\n", []string{"no valid port"}},
		{"host bare v6", minimal + "[capabilities]\nhosts = [\"::1\"]\n", []string{"not a host, write an IPv6 address in brackets"}},
		{"host twice", minimal + "[capabilities]\nhosts = [\"a.b\", \"https://A.B.:443\"]\n", []string{"listed twice"}},
		{"path relative", minimal + "[capabilities]\npaths = { work = \"ro\" }\n", []string{"not an absolute guest folder"}},
		{"path unclean", minimal + "[capabilities]\npaths = { \"/a/../b\" = \"ro\" }\n", []string{"not an absolute guest folder"}},
		{"path root", minimal + "[capabilities]\npaths = { \"/\" = \"ro\" }\n", []string{"not an absolute guest folder"}},
		{"path reserved", minimal + "[capabilities]\npaths = { \"/awaken/x\" = \"ro\" }\n", []string{"belongs to the host"}},
		{"path mode", minimal + "[capabilities]\n[capabilities.paths]\n\"/a\" = \"w\"\n", []string{`:12: capabilities.paths."/a": "w" is not a mode`}},
		{"commands in brain", minimal + "[capabilities]\ncommands = [\"git\"]\n", []string{"no tool has target"}},
		{"command with folder", minimal + "target = \"sandbox\"\n[capabilities]\ncommands = [\"/bin/sh\"]\n", []string{"not the name of a command"}},
		{"command option", minimal + "target = \"sandbox\"\n[capabilities]\ncommands = [\"-x\"]\n", []string{"not the name of a command"}},
		{"secret", minimal + "[capabilities]\nsecrets = [\"a b\"]\n", []string{"not the name of a secret"}},
		{"tool twice", minimal + "[[tool]]\nid = \"count\"\nexport = \"x\"\n", []string{`:11: tool[1].id: "count" is also the tool on line 7`}},
		{"tool id", minimal + "[[tool]]\nid = \"a.b\"\nexport = \"x\"\n", []string{"not a tool name"}},
		{"tool empty", minimal + "[[tool]]\n", []string{":10: tool[1].id: missing", "tool[1].export: missing"}},
		{"state twice", minimal + "[[state]]\nkey = \"a\"\n[[state]]\nkey = \"a\"\n", []string{"is also the state on line 10"}},
		{"state key", minimal + "[[state]]\nkey = \"a/b\"\n", []string{"state[0].key"}},
		{"state empty", minimal + "[[state]]\n", []string{"state[0].key: missing"}},
		{"schema not object", minimal + "input_schema = { type = \"string\" }\n", []string{"arguments are an object"}},
		{"schema invalid", minimal + "input_schema = { type = \"objekt\" }\n", []string{":10: tool[0].input_schema: not a usable JSON Schema: /type: "}},
		{"schema title", minimal + "input_schema = { type = \"object\", title = 5 }\n", []string{"/title: got number, want string"}},
		{"schema pattern", minimal + "input_schema = { type = \"object\", properties = { a = { pattern = \"(\" } } }\n", []string{"not a usable JSON Schema"}},
		{"schema nan", minimal + "input_schema = { type = \"object\", maxProperties = nan }\n", []string{"nan and inf"}},
		{"schema http", minimal + "input_schema = { type = \"object\", \"$ref\" = \"http://127.0.0.1:1/x\" }\n", []string{"is outside the manifest and is not loaded"}},
		{"schema meta", minimal + "input_schema = { type = \"object\", \"$schema\" = \"https://127.0.0.1:1/x\" }\n", []string{"is outside the manifest and is not loaded"}},
		{"schema relative", minimal + "input_schema = { type = \"object\", \"$ref\" = \"other.json\" }\n", []string{"is outside the manifest and is not loaded"}},
		{"annotations", minimal + "annotations = { a = inf }\n", []string{"annotations: a: nan and inf"}},
		{"encoding kind", minimal + "encoding = { input = \"yaml\" }\n", []string{"encoding.input"}},
		{"encoding arg", minimal + "encoding = { input = \"text:txt\" }\ninput_schema = { type = \"object\", properties = { text = { type = \"string\" } } }\n", []string{`"txt" names no property of input_schema, did you mean "text"?`}},
		{"encoding arg type", minimal + "encoding = { input = \"text:n\" }\ninput_schema = { type = \"object\", properties = { n = { type = \"integer\" } } }\n", []string{"must have type"}},
		{"encoding output", minimal + "encoding = { output = \"txt\" }\n", []string{`did you mean "text"?`}},
		{"text with schema", minimal + "encoding = { output = \"text\" }\noutput_schema = { type = \"string\" }\n", []string{"text is not checked"}},
		{"control characters", swap("[module]", "description = \"a\\u001b[31m\"\n[module]"), []string{"control character"}},
		{"too large", minimal + strings.Repeat("#", MaxManifestBytes), []string{"larger than"}},
		{"array depth", "manifest = " + strings.Repeat("[", 100000), []string{"nested deeper"}},
		{"table depth", "manifest = " + strings.Repeat("{a=", 100000), []string{"nested deeper"}},
		{"key parts", strings.Repeat("a.", 20) + "a = 1\n", []string{"more than 16 parts"}},
		{"key length", strings.Repeat("a", 200) + " = 1\n", []string{"longer than 128"}},
		{"header parts", "[" + strings.Repeat("a.", 20) + "a]\n", []string{"more than 16 parts"}},
		{"many keys", strings.Repeat("[[x]]\na=1\n", maxKeys+1), []string{"more than 5000 keys"}},
		{"odd then deep", "manifest = 1\n?\nid = " + strings.Repeat("[", 100000), []string{"plugin.toml:2: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ParseManifest("plugin.toml", []byte(c.text))
			if err == nil {
				t.Fatalf("accepted: %+v", m)
			}
			if !errors.Is(err, ErrManifest) {
				t.Errorf("%v is not ErrManifest", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the message lacks %q:\n%v", w, err)
				}
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "plugin.toml:") || len(line) > 1000 {
					t.Errorf("odd line %q", line)
				}
			}
		})
	}
}

func TestMinimalManifestIsAccepted(t *testing.T) {
	for _, text := range []string{minimal, strings.ReplaceAll(minimal, "\n", "\r\n")} {
		if _, err := ParseManifest("plugin.toml", []byte(text)); err != nil {
			t.Error(err)
		}
	}
}

// A schema that names a file must be refused without reading it: the file holds a
// valid schema, so that reading it would make the manifest valid.
func TestSchemaReadsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + file, file} {
		for _, key := range []string{"$ref", "$dynamicRef", "$schema"} {
			text := minimal + "input_schema = { type = \"object\", \"" + key + "\" = \"" + ref + "\" }\n"
			_, err := ParseManifest("plugin.toml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), "is not loaded") {
				t.Errorf("%s %s: %v", key, ref, err)
			}
		}
	}
}

func TestSuggestion(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{"memry_mib", ", did you mean \"memory_mib\"?"},
		{"HOSTS", ", did you mean \"hosts\"?"},
		{"completely_else", ""},
		{strings.Repeat("x", 1000), ""},
	} {
		if s := didYouMean(c.got, []string{"hosts", "memory_mib", "timeout"}); s != c.want {
			t.Errorf("%s: %q, want %q", c.got, s, c.want)
		}
	}
}
