package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPolicyBundles(t *testing.T) {
	c := parse(t, `version = 1
[policy]
paths = []
test_on_reload = true
watch = "0s"
[[policy.bundle]]
name = "acme"
url = "https://policies.example.com/acme.tar.gz?sig=hunter2"
keys = [{ id = "k1", file = "keys/acme.pem", algorithm = "ES256", scope = "write" }, { id = "k2", file = "/k2.pem" }]
poll = "30s"
timeout = "5s"
max_mib = 2
token = { file = "token.txt" }
ca_file = "ca.pem"
proxy = "http://proxy:3128"
[[policy.bundle]]
name = "local"
path = "local.tar.gz"
allow_unsigned = true
`)
	want := []PolicyBundle{
		{
			Name: "acme", URL: "https://policies.example.com/acme.tar.gz?sig=hunter2",
			Keys: []PolicyKey{
				{ID: "k1", File: "etc/keys/acme.pem", Algorithm: "ES256", Scope: "write"},
				{ID: "k2", File: "/k2.pem", Algorithm: "RS256"},
			},
			Poll: 30 * time.Second, Timeout: 5 * time.Second, MaxMiB: 2,
			Token: &SecretSource{File: "etc/token.txt"}, CAFile: "etc/ca.pem", Proxy: "http://proxy:3128",
		},
		{Name: "local", Path: "etc/local.tar.gz", AllowUnsigned: true, Poll: time.Minute, Timeout: 10 * time.Second, MaxMiB: 16},
	}
	if !reflect.DeepEqual(c.Policy.Bundles, want) {
		t.Errorf("got  %+v\nwant %+v", c.Policy.Bundles, want)
	}
	if !c.Policy.TestOnReload || c.Policy.Watch != 0 || len(c.Policy.Paths) != 0 {
		t.Errorf("got %+v", c.Policy)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	shown := reveal(c)
	for _, line := range []string{
		`policy.bundle[0].url = "https://policies.example.com/acme.tar.gz?[redacted]"`,
		`policy.bundle[0].keys[0].scope = "write"`,
		`policy.bundle[0].token.file = "etc/token.txt"`,
		`policy.bundle[0].poll = "30s"`,
		`policy.bundle[0].proxy = "http://proxy:3128"`,
		`policy.bundle[1].path = "etc/local.tar.gz"`,
		`policy.bundle[1].allow_unsigned = true`,
		`policy.watch = "0s"`,
	} {
		if !strings.Contains(shown, line+"\n") {
			t.Errorf("not shown: %s\n%s", line, shown)
		}
	}
	if strings.Contains(shown, "hunter2") {
		t.Error("the query of the url is shown")
	}
}

func TestPolicyBundlesThatAreWrong(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"no name", "allow_unsigned = true\npath = \"a.tar.gz\"", `has no name; add name = "…"`},
		{"bad name", "allow_unsigned = true\nname = \"../a\"\npath = \"a.tar.gz\"", `policy.bundle[0].name: "../a" cannot be the name of a bundle`},
		{"nowhere", "name = \"a\"\nallow_unsigned = true", `has neither a path nor a url; add path`},
		{"two places", "name = \"a\"\nallow_unsigned = true\npath = \"a.tar.gz\"\nurl = \"https://h/a\"", `has a path and a url; keep one of them`},
		{"no keys", "name = \"a\"\nurl = \"https://h/a\"", `has no keys, so nothing could be loaded from it; add keys`},
		{"not a url", "name = \"a\"\nallow_unsigned = true\nurl = \"ftp://h/a\"", `policy.bundle[0].url: is no address of a bundle; write https://host/path`},
		{"user in url", "name = \"a\"\nallow_unsigned = true\nurl = \"https://u:p@h/a\"", `has a user in it; write the credential as token`},
		{"unsigned over http", "name = \"a\"\nallow_unsigned = true\nurl = \"http://h/a\"", `is http, and the bundle may be unsigned`},
		{"token over http", "name = \"a\"\nkeys = [{ id = \"k\", file = \"f\" }]\ntoken = { env = \"T\" }\nurl = \"http://h/a\"", `is http, and a token is sent`},
		{"token for a file", "name = \"a\"\nallow_unsigned = true\npath = \"a.tar.gz\"\ntoken = { env = \"T\" }", `policy.bundle[0].token: has no meaning for a bundle on disk; remove it`},
		{"token in plain sight", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\ntoken = \"abc\"", `policy.bundle[0].token: is a string; write where it comes from`},
		{"token from nowhere", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\ntoken = {}", `policy.bundle[0].token: has 0 sources`},
		{"key without id", "name = \"a\"\npath = \"a.tar.gz\"\nkeys = [{ file = \"f\" }]", `policy.bundle[0].keys[0]: has no id`},
		{"key without file", "name = \"a\"\npath = \"a.tar.gz\"\nkeys = [{ id = \"k\" }]", `policy.bundle[0].keys[0]: has no file`},
		{"key twice", "name = \"a\"\npath = \"a.tar.gz\"\nkeys = [{ id = \"k\", file = \"f\" }, { id = \"k\", file = \"g\" }]", `policy.bundle[0].keys[1].id: is that of policy.bundle[0].keys[0] too`},
		{"shared secret", "name = \"a\"\npath = \"a.tar.gz\"\nkeys = [{ id = \"k\", file = \"f\", algorithm = \"HS256\" }]", `uses one secret to sign and to verify`},
		{"algorithm", "name = \"a\"\npath = \"a.tar.gz\"\nkeys = [{ id = \"k\", file = \"f\", algorithm = \"ES255\" }]", `"ES255" is not known; write one of ES256,`},
		{"poll", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\npoll = \"1ms\"", `policy.bundle[0].poll: is 1ms; write a duration from 1s to 7d`},
		{"timeout", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\ntimeout = \"1h\"", `policy.bundle[0].timeout: is 1h; write a duration from 100ms to 10m`},
		{"size", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\nmax_mib = 0", `policy.bundle[0].max_mib: is 0; write a number from 1 to 256`},
		{"proxy", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\nproxy = \"proxy:80\"", `policy.bundle[0].proxy: is no address of a proxy`},
		{"typo", "name = \"a\"\nallow_unsigned = true\nurl = \"https://h/a\"\npol = \"1m\"", `policy.bundle[0].pol: is not a known key; did you mean "poll"?`},
		{"twice", "name = \"a\"\nallow_unsigned = true\npath = \"a.tar.gz\"\n[[policy.bundle]]\nname = \"a\"\nallow_unsigned = true\npath = \"b.tar.gz\"", `policy.bundle[1].name: is that of policy.bundle[0] too`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("host.toml", []byte("version = 1\n[[policy.bundle]]\n"+tt.doc+"\n"))
			var all *Error
			if !errors.As(err, &all) || len(all.Problems) != 1 || !strings.Contains(all.Problems[0].String(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	if _, err := Parse("host.toml", []byte("version = 1\n[policy]\nwatch = \"1ms\"\n")); err == nil || !strings.Contains(err.Error(), "policy.watch: is 1ms; write a duration from 100ms to 1d") {
		t.Errorf("got %v", err)
	}
}
