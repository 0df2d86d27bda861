package config

import (
	"strings"
	"testing"
	"time"
)

func TestPolicyLog(t *testing.T) {
	c := parse(t, `version = 1
[policy]
require_log = true
[policy.log]
file = "log/d.jsonl"
max_mib = 8
max_age = "1d"
keep = 3
sync = true
[policy.log.http]
url = "https://opa.example.com/base"
token = { env = "TOKEN" }
ca_file = "ca.pem"
gzip = false
batch_events = 10
batch_kib = 20
min_delay = "2s"
max_delay = "3s"
request_timeout = "4s"
buffer_mib = 5
`)
	l := c.Policy.Log
	if l.File != "etc/log/d.jsonl" || l.MaxMiB != 8 || l.MaxAge != 24*time.Hour || l.Keep != 3 || !l.Sync || !l.On() {
		t.Errorf("%+v", l)
	}
	token := l.HTTP.Token
	l.HTTP.Token = nil
	if l.HTTP != (PolicyLogHTTP{
		URL: "https://opa.example.com/base", CAFile: "etc/ca.pem", BatchEvents: 10, BatchKiB: 20,
		MinDelay: 2 * time.Second, MaxDelay: 3 * time.Second, Timeout: 4 * time.Second, BufferMiB: 5,
	}) || token == nil || token.Env != "TOKEN" {
		t.Errorf("%+v %+v", l.HTTP, token)
	}
}

func TestPolicyLogProblems(t *testing.T) {
	const http = "[policy.log.http]\n"
	for name, tt := range map[string]struct{ doc, want string }{
		"required without a log":    {"[policy]\nrequire_log = true", "policy.require_log: is true, and there is no log of decisions"},
		"server without address":    {http + "gzip = false", "policy.log.http.gzip: is set, and there is no url"},
		"no address":                {http + `url = "opa.example.com"`, "policy.log.http.url: is not an http or https address"},
		"other scheme":              {http + `url = "ftp://opa.example.com"`, "policy.log.http.url: is not an http or https address"},
		"password in the address":   {http + `url = "https://u:hunter2@opa.example.com"`, "policy.log.http.url: has a user or password in it"},
		"token in the clear":        {http + "url = \"http://opa.example.com\"\ntoken = { env = \"T\" }", "policy.log.http.url: would carry the token in the clear"},
		"token written out":         {http + "url = \"https://o\"\ntoken = \"hunter2\"", "policy.log.http.token: is a string"},
		"token from two places":     {http + "url = \"https://o\"\ntoken = { env = \"T\", file = \"f\" }", "policy.log.http.token: has 2 sources"},
		"token from a command":      {http + "url = \"https://o\"\ntoken = { command = [\"c\"] }", "policy.log.http.token: comes from a command"},
		"delays the wrong way":      {http + "url = \"https://o\"\nmin_delay = \"5s\"\nmax_delay = \"2s\"", "policy.log.http.max_delay: is 2s"},
		"keeps nothing":             {"[policy.log]\nfile = \"d\"\nkeep = 0", "policy.log.keep: is 0"},
		"rotates all the time":      {"[policy.log]\nfile = \"d\"\nmax_age = \"1s\"", "policy.log.max_age: is 1s"},
		"misspelt":                  {"[policy.log]\nfiles = \"d\"", `policy.log.files: is not a known key; did you mean "file"?`},
		"empty requests":            {http + "url = \"https://o\"\nbatch_events = 0", "policy.log.http.batch_events: is 0"},
		"buffer that holds nothing": {http + "url = \"https://o\"\nbuffer_mib = 0", "policy.log.http.buffer_mib: is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("host.toml", []byte("version = 1\n"+tt.doc+"\n"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	// A token to this machine needs no TLS.
	parse(t, "version = 1\n"+http+"url = \"http://127.0.0.1:8181\"\ntoken = { file = \"f\" }\n")
}

func TestPolicyLogEffective(t *testing.T) {
	c := parse(t, "version = 1\n[policy.log.http]\nurl = \"https://o\"\ntoken = { env = \"T\" }\n")
	var lines []string
	for _, s := range c.Effective() {
		if strings.HasPrefix(s.Key, "policy.log.http.") && s.Origin != "default" {
			lines = append(lines, s.Key+" = "+s.Value)
		}
	}
	if got := strings.Join(lines, "\n"); got != "policy.log.http.url = \"https://o\"\npolicy.log.http.token.env = \"T\"" {
		t.Error(got)
	}
}
