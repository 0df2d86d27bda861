package config

import (
	"os"
	"strings"
	"testing"
)

func TestUnsupported(t *testing.T) {
	plugin := "[[plugin]]\npath = \"p\"\n"
	tests := []struct {
		name, doc string
		want      string // "": nothing to report
		accepted  bool
	}{
		{"nothing set", "", "", true},
		{"empty grant", plugin + "[plugin.grant]\nhosts = []\npaths = {}\ncommands = []", "", true},
		{"empty secrets", plugin + "[plugin.secrets]", "", true},
		{"secrets", plugin + "secrets.A = { env = \"B\" }", "", true},
		{"empty sandbox", "[sandbox]", "", true},
		{"everything that works", plugin + "config.a = \"b\"\nnames.t = \"n\"\nrecovery.t = \"replay_safe\"\n[limits]\nmemory_mib = 8\n[store]\nsync = false", "", true},
		{"no retention", "[store]\nretention = \"0s\"", "", true},
		{"retention", "[store]\nretention = \"30d\"", "", true},
		{"tools of the host file", "[[client_tool]]\nid = \"a\"\n[[delegate_tool]]\nid = \"b\"\n[tickets]\ntimeout = \"1h\"", "", true},
		{"hosts", plugin + "grant.hosts = [\"a.example\"]\n[egress]\ntimeout = \"5s\"", "", true},
		{"no log required", "[policy]\nrequire_log = false", "", true},

		{"registry", "[[plugin]]\noci = \"a/b@sha256:" + strings.Repeat("a", 64) + "\"", `3: plugin[0].oci: loading plugins from a registry is not available in this release; remove it and name a folder with path = "…"`, false},
		{"paths", plugin + "grant.paths.\"/w\".host = \"w\"", "", true},
		{"commands", plugin + "grant.commands = [\"git\"]", "", true},
		{"sandbox", "[sandbox]\nnetwork = \"none\"\n[sandbox.require]\nnetwork = \"none\"", "", true},
		{"log required", "[policy]\nrequire_log = true\nlog.file = \"d.jsonl\"", "", true},

		{"bind", "[serve]\nbind = \"127.0.0.1:8421\"", "3: serve.bind: nothing listens in this release; remove it, or keep it for a later release", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("host.toml", []byte("version = 1\n"+tt.doc+"\n"))
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			var got []string
			for _, p := range c.Unsupported() {
				if p.Warning != tt.accepted {
					t.Errorf("warning is %v: %v", p.Warning, p)
				}
				got = append(got, strings.TrimPrefix(p.String(), "host.toml:"))
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), tt.want)
			}
			if err := c.Check(); (err == nil) != tt.accepted {
				t.Errorf("Check = %v", err)
			}
		})
	}
}

// A Config made in Go has no lines and is checked all the same.
func TestUnsupportedWithoutFile(t *testing.T) {
	c := defaults()
	c.Plugins = []Plugin{{OCI: "a/b@sha256:" + strings.Repeat("a", 64)}}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "plugin[0].oci: ") {
		t.Errorf("Check = %v", err)
	}
}

// What the design's sample uses is there.
func TestCheckDesignSample(t *testing.T) {
	data, err := os.ReadFile("testdata/design.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := parse(t, string(data)).Check(); err != nil {
		t.Error(err)
	}
}
