package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every kind of mistake, with the whole message: file, line, key, what is wrong and
// what to do.
func TestProblems(t *testing.T) {
	const v1 = "version = 1\n"                                                          // so that the first line of doc is line 2
	plugin := func(lines string) string { return "[[plugin]]\npath = \"p\"\n" + lines } // lines start at 4
	tests := []struct {
		name, doc string
		want      []string // without "host.toml:"
	}{
		{"syntax", "data_dir = ", []string{`2: data_dir: not valid TOML: expected value but found '\n' instead; correct this line; nothing after it was read`}},
		{"duplicate key", "data_dir = \"a\"\ndata_dir = \"b\"", []string{`3: data_dir: not valid TOML: Key 'data_dir' has already been defined.; correct this line; nothing after it was read`}},
		{"unknown key", "data-dir = \"x\"", []string{`2: data-dir: is not a known key; did you mean "data_dir"?`}},
		{"unknown table", "[limit]\nmemory_mib = 1", []string{`2: limit: is not a known key; did you mean "limits"?`}},
		{"unknown plural", "[[plugins]]\npath = \"x\"", []string{`2: plugins: is not a known key; did you mean "plugin"?`}},
		{"unknown in table", "[limits]\ntimout = \"5s\"", []string{`3: limits.timout: is not a known key; did you mean "timeout"?`}},
		{"key of another table", "[store]\ntimeout = \"5s\"", []string{`3: store.timeout: is not a known key; did you mean the "timeout" of [limits]?`}},
		{"key below a table", "[store]\ndata_dir = \"x\"", []string{`3: store.data_dir: is not a known key; "data_dir" belongs at the top of the file, before the first table`}},
		{"unknown, nothing like it", "[store]\nzzzzzz = 1", []string{`3: store.zzzzzz: is not a known key; remove it; known here are min_free_mib, retention, sync`}},
		{"unknown in the second plugin", "[[plugin]]\npath = \"a\"\n[[plugin]]\npaht = \"b\"", []string{`5: plugin[1].paht: is not a known key; did you mean "path"?`}},
		{"unknown in inline table", "[trust]\nkeys = [{ file = \"a\" },\n  { fil = \"b\" }]", []string{`4: trust.keys[1].fil: is not a known key; did you mean "file"?`}},
		{"unknown in grant", plugin("[plugin.grant]\nhost = [\"a\"]"), []string{`5: plugin[0].grant.host: is not a known key; did you mean "hosts"?`}},

		{"string expected", "data_dir = 5", []string{`2: data_dir: is an integer; write a string, such as data_dir = "…"`}},
		{"boolean expected", "[store]\nsync = \"yes\"", []string{`3: store.sync: is a string; write true or false without quotes`}},
		{"integer expected", "[limits]\nmemory_mib = \"64\"", []string{`3: limits.memory_mib: is a string; write a whole number without quotes`}},
		{"integer, not float", "[limits]\nmemory_mib = 64.5", []string{`3: limits.memory_mib: is a float; write a whole number without quotes`}},
		{"integer out of range", "[limits]\nmemory_mib = 9223372036854775807", []string{`3: limits.memory_mib: is out of range; write a smaller number`}},
		{"duration expected", "[limits]\ntimeout = 5", []string{`3: limits.timeout: is an integer; write a number with its unit, such as "100ms", "5s", "2m", "1h" or "30d"`}},
		{"bad duration", "[limits]\ntimeout = \"5 s\"", []string{`3: limits.timeout: "5 s" is not a duration; write a number with its unit, such as "100ms", "5s", "2m", "1h" or "30d"`}},
		{"list expected", "[policy]\npaths = \"policy\"", []string{`3: policy.paths: is a string; write a list of strings, such as paths = ["…"]`}},
		{"list of strings expected", "[policy]\npaths = [\"a\",\n 2]", []string{`4: policy.paths[1]: is an integer; write a string in quotes`}},
		{"table expected", "limits = 1979-05-27", []string{`2: limits: is a date; write it once, as a table [limits]`}},
		{"one table expected", "[[limits]]\nmemory_mib = 1", []string{`2: limits: is a list of tables; write it once, as a table [limits]`}},
		{"one nested table expected", plugin("[[plugin.config]]\na = \"b\""), []string{`4: plugin[0].config: is a list of tables; write it once, as a table [plugin.config]`}},
		{"tables expected", "[plugin]\npath = \"x\"", []string{`2: plugin: is a table; start each plugin with [[plugin]]`}},
		{"keys as strings", "[trust]\nkeys = [\"a.pub\"]", []string{`3: trust.keys[0]: is a string; write each key as { file = "…", plugins = ["…"] }`}},
		{"path grant as string", plugin("[plugin.grant.paths]\n\"/w\" = \"work\""), []string{`5: plugin[0].grant.paths."/w": is a string; write { host = "…", mode = "ro" }, or { mode = "ro" } for a place in the sandbox`}},
		{"config value", plugin("[plugin.config]\nn = 1"), []string{`5: plugin[0].config.n: is an integer; write a string, such as n = "…"`}},
		{"recovery value", plugin("[plugin.recovery]\nt = 3"), []string{`5: plugin[0].recovery.t: is an integer; write a policy such as "replay_safe", or { policy = "replay_safe", max_attempts = 3 }`}},

		{"schema as a string", "[[client_tool]]\nid = \"a\"\ninput_schema = \"{}\"", []string{`4: client_tool[0].input_schema: is a string; write a JSON Schema as a table, such as { type = "object" }`}},
		{"schema without JSON form", "[[client_tool]]\nid = \"a\"\noutput_schema = { maximum = inf }", []string{`4: client_tool[0].output_schema: has no JSON form: maximum: nan and inf have no JSON form; correct it`}},
		{"schema of a delegation", "[[delegate_tool]]\nid = \"a\"\ninput_schema = { type = \"object\" }", []string{`4: delegate_tool[0].input_schema: is not a known key; remove it; known here are annotations, description, id, parallel`}},
		{"one client tool", "[client_tool]\nid = \"a\"", []string{`2: client_tool: is a table; start each tool with [[client_tool]]`}},
		{"tool without id", "[[client_tool]]\ndescription = \"x\"", []string{`2: client_tool[0]: has no id; add id = "…", the name the model sees`}},
		{"tool with a bad id", "[[delegate_tool]]\nid = \"a b\"", []string{`3: delegate_tool[0].id: "a b" cannot be the name of a tool; write 1 to 64 characters of A-Z a-z 0-9 _ -`}},
		{"tool twice", "[[client_tool]]\nid = \"a\"\n[[delegate_tool]]\nid = \"a\"", []string{`5: delegate_tool[0].id: is that of client_tool[0] too; give each tool a name of its own`}},
		{"description that acts", "[[client_tool]]\nid = \"a\"\ndescription = \"\\u001b[2J\"", []string{`4: client_tool[0].description: is not usable: holds a control character, remove it; correct it`}},
		{"not a schema", "[[client_tool]]\nid = \"a\"\n[client_tool.output_schema]\ntype = \"objekt\"", []string{`4: client_tool[0].output_schema: not a usable JSON Schema: /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string' (enum); /type: got string, want array (type); correct the schema`}},
		{"arguments that are no object", "[[client_tool]]\nid = \"a\"\n[client_tool.input_schema]\ntype = \"array\"", []string{`4: client_tool[0].input_schema: arguments are an object, write type = "object" at its top; correct the schema`}},
		{"no time for tickets", "[tickets]\ntimeout = \"0s\"", []string{`3: tickets.timeout: is 0s; write a duration from 1s to 3650d`}},

		{"no data_dir", "data_dir = \"\"", []string{`2: data_dir: is empty; name a file or folder`}},
		{"key without file", "[trust]\nkeys = [{ plugins = [\"a\"] }]", []string{`3: trust.keys[0]: has no file; add file = "…"`}},
		{"key twice", "[trust]\nkeys = [{ file = \"a\" }, { file = \"./a\" }]", []string{`3: trust.keys[1].file: is named by trust.keys[0] too; name each key once, with all its plugins`}},
		{"key for no plugin", "[trust]\nkeys = [{ file = \"a\", plugins = [] }]", []string{`3: trust.keys[0].plugins: is empty, so the key could sign nothing; name plugins, or leave it out to let the key sign any`}},
		{"bad pattern", "[trust]\nkeys = [{ file = \"a\", plugins = [\"[\"] }]", []string{`3: trust.keys[0].plugins[0]: "[" is not a pattern of plugin ids; write a plugin id, in which * stands for any part, such as "acme-*"`}},
		{"bad revocation", "[trust]\nrevoked = [\"xyz\"]", []string{`3: trust.revoked[0]: "xyz" is neither a key id nor a manifest digest; write 16 hexadecimal digits for a key, 64 for a manifest`}},
		{"no free space kept", "[store]\nmin_free_mib = 0", []string{`3: store.min_free_mib: is 0; write a number from 1 to 1073741824`}},
		{"negative retention", "[store]\nretention = \"-5h\"", []string{`3: store.retention: is -5h; write a duration from 1s to 36500d`}},
		{"no policy", "[policy]\npaths = []", []string{`3: policy.paths: is empty, so every call would be blocked; name at least one policy file or folder, such as "policy"`}},
		{"empty policy path", "[policy]\npaths = [\"\"]", []string{`3: policy.paths[0]: is empty; name a file or folder`}},
		{"no deadline", "[policy]\ndeadline = \"0s\"", []string{`3: policy.deadline: is 0s; write a duration from 1ms to 1m`}},
		{"bad built-in", "[policy]\nbuiltins = [\"Http Send\"]", []string{`3: policy.builtins[0]: "Http Send" is not the name of a built-in; write it as Rego does, such as "http.send"`}},

		{"plugin nowhere", "[[plugin]]\nsha256 = \"\"", []string{`2: plugin[0]: says nowhere where the plugin is; add path = "plugins/…", the folder with its plugin.toml`}},
		{"plugin in two places", plugin("oci = \"a@sha256:" + strings.Repeat("0", 64) + "\""), []string{`4: plugin[0].oci: stands beside path; keep one of the two`}},
		{"plugin not pinned", "[[plugin]]\noci = \"host/name:latest\"", []string{`3: plugin[0].oci: "host/name:latest" is not pinned by a digest; write "name@sha256:" and the 64 hexadecimal digits`}},
		{"bad pin", plugin("sha256 = \"abc\""), []string{`4: plugin[0].sha256: "abc" is not a SHA-256; write 64 hexadecimal digits`}},
		{"plugin twice", plugin("[[plugin]]\npath = \"./p\""), []string{`5: plugin[1].path: is that of plugin[0] too; remove one of the two [[plugin]] tables`}},
		{"host with another scheme", plugin("grant.hosts = [\"ftp://a\"]"), []string{`4: plugin[0].grant.hosts[0]: "ftp://a" has a scheme that is not known, write https://, http:// or none, which is https; correct or remove it`}},
		{"guest path", plugin("grant.paths.\"../w\".host = \"w\""), []string{`4: plugin[0].grant.paths."../w": is not a guest path; write an absolute path without "..", such as "/workspace"`}},
		{"path mode", plugin("grant.paths.\"/w\" = { host = \"w\", mode = \"wr\" }"), []string{`4: plugin[0].grant.paths."/w".mode: "wr" is not known; write one of ro, rw`}},
		{"path with an empty host", plugin("grant.paths.\"/w\".host = \"\""), []string{`4: plugin[0].grant.paths."/w".host: is empty; name a file or folder`}},
		{"path size", plugin("grant.paths.\"/w\" = { host = \"w\", max_mib = -1 }"), []string{`4: plugin[0].grant.paths."/w".max_mib: is -1; write a number from 0 to 1073741824`}},
		{"path files", plugin("grant.paths.\"/w\" = { host = \"w\", max_files = 200001 }"), []string{`4: plugin[0].grant.paths."/w".max_files: is 200001; write a number from 0 to 200000`}},
		{"command with path", plugin("grant.commands = [\"/bin/sh\"]"), []string{`4: plugin[0].grant.commands[0]: "/bin/sh" is not the name of a command; write the bare name, such as "git"`}},
		{"config without name", plugin("config.\"\" = \"x\""), []string{`4: plugin[0].config."": has no name; name it`}},
		{"secret name", plugin("secrets.\"a b\" = { env = \"X\" }"), []string{`4: plugin[0].secrets."a b": is not the name of a secret; write letters, digits and _, such as API_TOKEN`}},
		{"secret without source", plugin("secrets.A = {}"), []string{`4: plugin[0].secrets.A: has 0 sources; give it exactly one of env = "NAME", file = "…" and command = ["…"]`}},
		{"secret with two", plugin("secrets.A = { env = \"X\", file = \"y\" }"), []string{`4: plugin[0].secrets.A: has 2 sources; give it exactly one of env = "NAME", file = "…" and command = ["…"]`}},
		{"secret variable", plugin("secrets.A = { env = \"X=1\" }"), []string{`4: plugin[0].secrets.A.env: is not the name of an environment variable; write the name only`}},
		{"secret command", plugin("secrets.A = { command = [\"\"] }"), []string{`4: plugin[0].secrets.A.command[0]: is empty; start with the program to run`}},
		{"tool name", plugin("names.t = \"a b\""), []string{`4: plugin[0].names.t: "a b" cannot be the name of a tool; write 1 to 64 characters of A-Z a-z 0-9 _ -`}},
		{"tool id", plugin("names.\"a b\" = \"t\""), []string{`4: plugin[0].names."a b": "a b" is not the id of a tool; write the id from the plugin's manifest`}},
		{"one name for two tools", plugin("names.a = \"t\"\nnames.b = \"t\""), []string{`5: plugin[0].names.b: is "t", as is that of a; give each tool a name of its own`}},
		{"recovery policy", plugin("recovery.t = \"replay_save\""), []string{`4: plugin[0].recovery.t: "replay_save" is not known; did you mean "replay_safe"? never_replay, replay_safe, idempotent, durable_request are known`}},
		{"no attempts", plugin("recovery.t = { policy = \"replay_safe\", max_attempts = 0 }"), []string{`4: plugin[0].recovery.t.max_attempts: is 0; write a number from 1 to 100`}},

		{"too much memory", "[limits]\nmemory_mib = 5000", []string{`3: limits.memory_mib: is 5000; write a number from 1 to 4096`}},
		{"too long", "[limits]\ntimeout = \"2d\"", []string{`3: limits.timeout: is 2d; write a duration from 1ms to 1d`}},
		{"too much output", "[limits]\noutput_mib = 17", []string{`3: limits.output_mib: is 17; write a number from 1 to 16`}},
		{"more for one than for all", "[limits]\nmemory_mib = 64\ntotal_memory_mib = 32", []string{`3: limits.memory_mib: is 64, and all plugins together may use limits.total_memory_mib, 32; lower it, or raise limits.total_memory_mib`}},
		{"no total", "[limits]\ntotal_memory_mib = -1", []string{`3: limits.total_memory_mib: is -1; write a number from 0 to 16777216`}},
		{"no queue", "[limits]\nqueued_calls = 0\nconcurrent_calls = -1", []string{`3: limits.queued_calls: is 0; write a number from 1 to 1000000`, `4: limits.concurrent_calls: is -1; write a number from 0 to 1000000`}},
		{"no time to compile", "[limits]\ncompile_timeout = \"10ms\"", []string{`3: limits.compile_timeout: is 10ms; write a duration from 1s to 1d`}},
		{"unknown clock", "[[plugin]]\npath = \"p\"\nclock = \"corse\"", []string{`4: plugin[0].clock: "corse" is not known; did you mean "coarse"? real, coarse, fixed are known`}},
		{"unknown randomness", "[[plugin]]\npath = \"p\"\nrandom = \"seed\"", []string{`4: plugin[0].random: "seed" is not a source of randomness; write "real", or "seed:" and a number from 0 to 18446744073709551615`}},
		{"too warm", "[[plugin]]\npath = \"p\"\nwarm = 1001", []string{`4: plugin[0].warm: is 1001; write a number from 0 to 1000`}},
		{"no arguments", "[limits]\narguments_mib = 0", []string{`3: limits.arguments_mib: is 0; write a number from 1 to 16`}},
		{"proxy", "[egress]\nproxy = \"proxy:3128\"", []string{`3: egress.proxy: is not the address of a proxy; write it as "http://proxy.example.com:3128"`}},
		{"proxy with a password", "[egress]\nproxy = \"ftp://us:pw@proxy:3128\"", []string{`3: egress.proxy: has a scheme other than http, https and socks5; write it as "http://proxy.example.com:3128"`}},
		{"no time for a request", "[egress]\ntimeout = \"0s\"", []string{`3: egress.timeout: is 0s; write a duration from 100ms to 1h`}},
		{"no request", "[egress]\nrequest_mib = 0", []string{`3: egress.request_mib: is 0; write a number from 1 to 64`}},
		{"too large answers", "[egress]\nresponse_mib = 65", []string{`3: egress.response_mib: is 65; write a number from 1 to 64`}},
		{"tier", "[sandbox]\ntier = \"namespaces\"", []string{`3: sandbox.tier: "namespaces" is not known; did you mean "namespace"? namespace, docker, podman, k8s, local are known`}},
		{"provisioning", "[sandbox]\nprovisioning = \"lazy\"", []string{`3: sandbox.provisioning: "lazy" is not known; write one of on_tool_use, eager`}},
		{"sandbox network", "[sandbox]\nnetwork = \"all\"", []string{`3: sandbox.network: "all" is not known; write one of none, allowlist, host`}},
		{"image", "[sandbox]\nimage = \"debian:12\"", []string{`3: sandbox.image: "debian:12" is not pinned by a digest; write "name@sha256:" and the 64 hexadecimal digits`}},
		{"warm", "[sandbox]\nwarm = -1", []string{`3: sandbox.warm: is -1; write a number from 0 to 1000`}},
		{"engine_args", "[sandbox]\nimage = \"sha256:" + digest + "\"\ntier = \"docker\"\nengine_args = [\"\"]", []string{`5: sandbox.engine_args[0]: is empty or has a zero byte; correct or remove it`}},
		{"require", "[sandbox.require]\nnetwork = \"\"", []string{`3: sandbox.require.network: network cannot be "": write "none" or "allowlist"; write it as network = "none", or remove it`}},
		{"bind", "[serve]\nbind = \"8421\"", []string{`3: serve.bind: "8421" is not an address to listen on; write host and port, such as "127.0.0.1:8421"`}},

		{"several at once, in order", "[limits]\nmemory_mib = 0\ntimout = 1\n[store]\nsync = 1", []string{
			`3: limits.memory_mib: is 0; write a number from 1 to 4096`,
			`4: limits.timout: is not a known key; did you mean "timeout"?`,
			`6: store.sync: is an integer; write true or false without quotes`,
		}},
		{"a typo does not hide as a missing key", "[[plugin]]\npath = 5", []string{`3: plugin[0].path: is an integer; write a string, such as path = "…"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("host.toml", []byte(v1+tt.doc+"\n"))
			if err == nil {
				t.Fatalf("accepted:\n%s", reveal(c))
			}
			var want []string
			for _, w := range tt.want {
				want = append(want, "host.toml:"+w)
			}
			if got := err.Error(); got != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

func TestVersion(t *testing.T) {
	tests := map[string]string{
		"":                         "host.toml: version: is missing; write version = 1 at the top of the file",
		"version = \"1\"":          "host.toml:1: version: is a string; write a whole number without quotes",
		"version = 2\nnew_key = 1": "host.toml:1: version: is 2, this release reads version 1; use the release that the file was written for, or write the file anew for this one",
	}
	for doc, want := range tests {
		if _, err := Parse("host.toml", []byte(doc)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", doc, err, want)
		}
	}
}

// Who writes the secret itself where its source belongs must not find it in a log.
func TestProblemsDoNotShowSecrets(t *testing.T) {
	for _, doc := range []string{
		"[plugin.secrets]\nA = \"hunter2\"",
		"[plugin.secrets]\nA = [\"hunter2\"]",
		"[plugin.secrets]\nA = { env = [\"hunter2\"] }",
		"[plugin.secrets]\nA = { env = \"hunter2=x\" }",
		"[plugin.config]\nA = [\"hunter2\"]",
	} {
		_, err := Parse("host.toml", []byte("version = 1\n[[plugin]]\npath = \"p\"\n"+doc))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", doc, err)
		}
	}
	_, err := Parse("host.toml", []byte("version = 1\n[[plugin]]\npath = \"p\"\n[plugin.secrets]\nA = \"hunter2\""))
	want := `host.toml:5: plugin[0].secrets.A: is a string; write where it comes from, such as { env = "NAME" } or { file = "…" }, never the secret itself`
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A table that this release refuses is not hidden by a mistake somewhere else.
func TestRefusedBesidesMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.toml")
	doc := "version = 1\n[store]\nsynk = true\n[[plugin]]\noci = \"a@sha256:" + strings.Repeat("a", 64) + "\"\n"
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	if err == nil {
		t.Fatal("accepted")
	}
	var keys []string
	for line := range strings.Lines(err.Error()) {
		keys = append(keys, strings.Split(line, ": ")[1])
	}
	if got, want := strings.Join(keys, " "), "store.synk plugin[0].oci"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
