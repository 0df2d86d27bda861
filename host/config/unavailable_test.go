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
		{"commands", plugin + "grant.commands = [\"git\"]", "4: plugin[0].grant.commands: running commands from plugins is not available in this release; remove it", false},
		{"sandbox", "[sandbox]\ntier = \"docker\"", "2: sandbox: running tools in a sandbox is not available in this release; remove it", false},
		{"sandbox as it is by default", "[sandbox]\nnetwork = \"none\"", "2: sandbox: running tools in a sandbox is not available in this release; remove it", false},
		{"sandbox requirement", "[sandbox.require]\nnetwork = \"none\"", "2: sandbox: running tools in a sandbox is not available in this release; remove it", false},
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
	c.Sandbox.Network = "host"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "sandbox: ") {
		t.Errorf("Check = %v", err)
	}
}

// The design's sample uses all that is not there yet: each is named at once.
func TestCheckNamesAll(t *testing.T) {
	data, err := os.ReadFile("testdata/design.toml")
	if err != nil {
		t.Fatal(err)
	}
	err = parse(t, string(data)).Check()
	if err == nil {
		t.Fatal("accepted")
	}
	var keys []string
	for line := range strings.Lines(err.Error()) {
		keys = append(keys, strings.Split(line, ": ")[1])
	}
	want := "plugin[0].grant.commands sandbox"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
