package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestEffective(t *testing.T) {
	c, err := Parse("host.toml", []byte(`version = 1
[trust]
keys = [
  { file = "a.pub" },
  { file = "/b.pub", plugins = ["x", "y"] },
]
[store]
retention = "48h"
[[plugin]]
path = "plugins/text"
[plugin.grant]
paths = { "/w" = { host = "work" } }
[plugin.config]
units = "say \"metric\""
api_token = "hunter2"
[plugin.secrets]
A = { env = "ACME" }
B = { command = ["pass", "hunter2"] }
[plugin.recovery]
count = "replay_safe"
send = { policy = "idempotent", max_attempts = 5 }
[plugin.names]
count = "wc"
[limits]
timeout = "90s"
[tickets]
timeout = "36h"
[[client_tool]]
id = "ask_user"
description = "Asks"
annotations = { read_only = true, "odd key" = [1, { a = 0.5 }] }
[client_tool.input_schema]
type = "object"
required = ["q"]
properties.q = { type = "string", maxLength = 100 }
[client_tool.output_schema]
[[delegate_tool]]
id = "hand_over"
parallel = false
[[delegate_tool]]
id = "side_by_side"
[egress]
proxy = "http://us:hunter2@proxy.example:3128"
ca_file = "ca.pem"
timeout = "10s"
request_mib = 1
`))
	if err != nil {
		t.Fatal(err)
	}
	c.Override(Overrides{DataDir: "elsewhere"})
	want := `
version = 1 # host.toml:1
data_dir = "elsewhere" # flag --data-dir
trust.keys[0].file = "a.pub" # host.toml:4
trust.keys[1].file = "/b.pub" # host.toml:5
trust.keys[1].plugins = ["x", "y"] # host.toml:5
trust.revoked = [] # default
trust.allow_unsigned = false # default
store.sync = true # default
store.min_free_mib = 64 # default
store.retention = "2d" # host.toml:8
tickets.timeout = "36h" # host.toml:27
policy.paths = ["policy"] # default
policy.deadline = "100ms" # default
policy.builtins = [] # default
policy.require_log = false # default
policy.log.file = "" # default
policy.log.max_mib = 64 # default
policy.log.max_age = "0s" # default
policy.log.keep = 10 # default
policy.log.sync = false # default
policy.log.http.url = "" # default
policy.log.http.ca_file = "" # default
policy.log.http.gzip = true # default
policy.log.http.batch_events = 1000 # default
policy.log.http.batch_kib = 1024 # default
policy.log.http.min_delay = "1s" # default
policy.log.http.max_delay = "1m" # default
policy.log.http.request_timeout = "10s" # default
policy.log.http.buffer_mib = 1024 # default
policy.test_on_reload = false # default
policy.watch = "2s" # default
plugin[0].path = "plugins/text" # host.toml:10
plugin[0].sha256 = "" # default
plugin[0].grant.hosts = [] # default
plugin[0].grant.paths."/w".host = "work" # host.toml:12
plugin[0].grant.paths."/w".mode = "ro" # default
plugin[0].grant.paths."/w".max_mib = 0 # default
plugin[0].grant.paths."/w".max_files = 0 # default
plugin[0].grant.commands = [] # default
plugin[0].config.api_token = [redacted] # host.toml:15 secret
plugin[0].config.units = "say \"metric\"" # host.toml:14
plugin[0].secrets.A.env = "ACME" # host.toml:17
plugin[0].secrets.B.command = [redacted] # host.toml:18 secret
plugin[0].clock = "real" # default
plugin[0].random = "real" # default
plugin[0].warm = 0 # default
plugin[0].names.count = "wc" # host.toml:23
plugin[0].recovery.count = "replay_safe" # host.toml:20
plugin[0].recovery.count.max_attempts = 3 # default
plugin[0].recovery.send = "idempotent" # host.toml:21
plugin[0].recovery.send.max_attempts = 5 # host.toml:21
client_tool[0].id = "ask_user" # host.toml:29
client_tool[0].description = "Asks" # host.toml:30
client_tool[0].input_schema = { properties = { q = { maxLength = 100, type = "string" } }, required = ["q"], type = "object" } # host.toml:32
client_tool[0].output_schema = {} # host.toml:36
client_tool[0].annotations = { "odd key" = [1, { a = 0.5 }], read_only = true } # host.toml:31
delegate_tool[0].id = "hand_over" # host.toml:38
delegate_tool[0].description = "" # default
delegate_tool[0].parallel = false # host.toml:39
delegate_tool[1].id = "side_by_side" # host.toml:41
delegate_tool[1].description = "" # default
delegate_tool[1].parallel = true # default
limits.memory_mib = 256 # default
limits.timeout = "1m30s" # host.toml:25
limits.output_mib = 16 # default
limits.arguments_mib = 4 # default
limits.total_memory_mib = 0 # default
limits.concurrent_calls = 0 # default
limits.queued_calls = 1000 # default
limits.compile_timeout = "1m" # default
egress.proxy = [redacted] # host.toml:43 secret
egress.ca_file = "ca.pem" # host.toml:44
egress.timeout = "10s" # host.toml:45
egress.request_mib = 1 # host.toml:46
egress.response_mib = 8 # default
sandbox.tier = "namespace" # default
sandbox.provisioning = "on_tool_use" # default
sandbox.image = "" # default
sandbox.network = "none" # default
sandbox.allow_local_fallback = false # default
sandbox.warm = 0 # default
sandbox.max_ready = 16 # default
sandbox.idle = "10m" # default
sandbox.workspace = "keep" # default
sandbox.hand_bin = "" # default
sandbox.engine_args = [] # default
sandbox.limits.memory_mib = 512 # default
sandbox.limits.cpus = 2 # default
sandbox.limits.pids = 256 # default
sandbox.limits.workspace_mib = 1024 # default
sandbox.limits.tmp_mib = 64 # default
sandbox.limits.open_files = 1024 # default
sandbox.namespace.program = "" # default
sandbox.namespace.folders = [] # default
sandbox.namespace.user = 65534 # default
sandbox.namespace.cgroup = "" # default
sandbox.docker.command = ["docker"] # default
sandbox.docker.pull = false # default
sandbox.podman.command = ["podman"] # default
sandbox.podman.pull = false # default
sandbox.k8s.kubeconfig = "" # default
sandbox.k8s.context = "" # default
sandbox.k8s.namespace = "" # default
sandbox.k8s.hand_image = "" # default
sandbox.k8s.pull_policy = "IfNotPresent" # default
sandbox.k8s.pull_secrets = [] # default
sandbox.k8s.runtime_class = "" # default
sandbox.k8s.network_policy_attested = false # default
sandbox.k8s.start_timeout = "2m" # default
sandbox.k8s.lifetime = "0s" # default
serve.bind = "127.0.0.1:8421" # default
`
	var got strings.Builder
	for _, s := range c.Effective() {
		fmt.Fprintf(&got, "\n%s = %s # %s", s.Key, s.Value, s.Origin)
		if s.Secret {
			got.WriteString(" secret")
		}
	}
	if got.String()+"\n" != want {
		t.Errorf("got %s\nwant %s", got.String(), want)
	}
}

func TestOverrideNothing(t *testing.T) {
	c := parse(t, "version = 1\ndata_dir = \"d\"")
	c.Override(Overrides{})
	if s := c.Effective()[1]; c.DataDir != "etc/d" || s.Origin != "etc/host.toml:2" {
		t.Errorf("data_dir is %q from %s", c.DataDir, s.Origin)
	}
}
