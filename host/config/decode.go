package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// decode reads data over the defaults in c and joins file names. It checks shapes
// and names of keys; what values mean is validate's.
func (c *Config) decode(data []byte) []Problem {
	if p := shapeProblem(c.File, string(data)); p != nil {
		return []Problem{*p}
	}
	var doc map[string]any
	if _, err := toml.Decode(string(data), &doc); err != nil {
		return []Problem{syntaxProblem(c.File, err)}
	}
	c.lines = locate(string(data))
	r := &reader{file: c.File, lines: c.lines}
	root := r.table("", doc)

	root.integer("version", &c.Version)
	if _, has := doc["version"]; !has {
		r.bad("version", "is missing", fmt.Sprintf("write version = %d at the top of the file", Version))
	} else if c.Version != Version && len(r.problems) == 0 {
		r.bad("version", fmt.Sprintf("is %d, this release reads version %d", c.Version, Version),
			"use the release that the file was written for, or write the file anew for this one")
		return r.problems // keys of another version mean nothing here
	}
	root.text("data_dir", &c.DataDir)
	c.decodeTrust(root)

	store := root.section("store")
	store.flag("sync", &c.Store.Sync)
	store.integer("min_free_mib", &c.Store.MinFreeMiB)
	store.duration("retention", &c.Store.Retention)

	policy := root.section("policy")
	policy.texts("paths", &c.Policy.Paths)
	policy.duration("deadline", &c.Policy.Deadline)
	policy.texts("builtins", &c.Policy.Builtins)
	policy.flag("require_log", &c.Policy.RequireLog)
	c.decodePolicyLog(policy)
	policy.flag("test_on_reload", &c.Policy.TestOnReload)
	policy.duration("watch", &c.Policy.Watch)
	for _, t := range policy.list("bundle", "start each bundle with [[policy.bundle]]") {
		c.Policy.Bundles = append(c.Policy.Bundles, c.decodeBundle(t))
	}

	for _, t := range root.list("plugin", "start each plugin with [[plugin]]") {
		c.Plugins = append(c.Plugins, c.decodePlugin(t))
	}

	c.decodeHostTools(root)

	limits := root.section("limits")
	limits.integer("memory_mib", &c.Limits.MemoryMiB)
	limits.duration("timeout", &c.Limits.Timeout)
	limits.integer("output_mib", &c.Limits.OutputMiB)
	limits.integer("arguments_mib", &c.Limits.ArgumentsMiB)
	limits.integer("total_memory_mib", &c.Limits.TotalMemoryMiB)
	limits.integer("concurrent_calls", &c.Limits.ConcurrentCalls)
	limits.integer("queued_calls", &c.Limits.QueuedCalls)
	limits.duration("compile_timeout", &c.Limits.CompileTimeout)

	c.decodeEgress(root)

	tickets := root.section("tickets")
	tickets.duration("timeout", &c.Tickets.Timeout)

	c.decodeSandbox(root)

	serve := root.section("serve")
	serve.text("bind", &c.Serve.Bind)

	c.DataDir = c.join(c.DataDir)
	for i, p := range c.Policy.Paths {
		c.Policy.Paths[i] = c.join(p)
	}
	r.unknown()
	return r.problems
}

func syntaxProblem(file string, err error) Problem {
	var pe toml.ParseError
	if errors.As(err, &pe) {
		return Problem{File: file, Line: pe.Position.Line, Key: pe.LastKey, What: "not valid TOML: " + pe.Message,
			Remedy: "correct this line; nothing after it was read"}
	}
	return Problem{File: file, What: "not valid TOML: " + err.Error(), Remedy: "correct the file"}
}

func (c *Config) decodeTrust(root *table) {
	trust := root.section("trust")
	for _, t := range trust.list("keys", `write each key as { file = "…", plugins = ["…"] }`) {
		var k TrustKey
		t.text("file", &k.File)
		t.texts("plugins", &k.Plugins)
		k.File = c.join(k.File)
		c.Trust.Keys = append(c.Trust.Keys, k)
	}
	trust.texts("revoked", &c.Trust.Revoked)
	for i, id := range c.Trust.Revoked {
		c.Trust.Revoked[i] = strings.ToLower(id)
	}
	trust.flag("allow_unsigned", &c.Trust.AllowUnsigned)
}

func (c *Config) decodePlugin(t *table) Plugin {
	p := Plugin{Clock: defaultClock, Random: defaultRandom}
	t.text("path", &p.Path)
	t.text("oci", &p.OCI)
	t.text("sha256", &p.SHA256)
	p.Path, p.SHA256 = c.join(p.Path), strings.ToLower(p.SHA256)
	if g, has := t.sub("grant", "write a table [plugin.grant]"); has {
		p.Grant = c.decodeGrant(g)
	} else {
		c.decodeGrant(g) // so that its keys are known to suggestions
	}
	config := t.section("config")
	for _, name := range config.names() {
		var v string
		config.text(name, &v)
		put(&p.Config, name, NewSecret(v))
	}
	secrets := t.section("secrets")
	for _, name := range secrets.names() {
		s, _ := secrets.sub(name, `write where it comes from, such as { env = "NAME" } or { file = "…" }, never the secret itself`)
		put(&p.Secrets, name, c.decodeSecret(s))
	}
	t.text("clock", &p.Clock)
	t.text("random", &p.Random)
	t.integer("warm", &p.Warm)
	names := t.section("names")
	for _, tool := range names.names() {
		var v string
		names.text(tool, &v)
		put(&p.Names, tool, v)
	}
	recovery := t.section("recovery")
	for _, tool := range recovery.names() {
		put(&p.Recovery, tool, decodeRecovery(recovery, tool))
	}
	return p
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

func (c *Config) decodeGrant(t *table) *Grant {
	var g Grant
	t.texts("hosts", &g.Hosts)
	t.texts("commands", &g.Commands)
	paths := t.section("paths")
	for _, guest := range paths.names() {
		p := PathGrant{Mode: defaultPathMode}
		pt, _ := paths.sub(guest, `write { host = "…", mode = "ro" }, or { mode = "ro" } for a place in the sandbox`)
		pt.text("host", &p.Host)
		pt.text("mode", &p.Mode)
		pt.integer("max_mib", &p.MaxMiB)
		pt.integer("max_files", &p.MaxFiles)
		p.Host = c.join(p.Host)
		put(&g.Paths, guest, p)
	}
	return &g
}

func (c *Config) decodeSecret(t *table) SecretSource {
	var s SecretSource
	var command []string
	t.text("env", &s.Env)
	t.text("file", &s.File)
	t.texts("command", &command)
	s.File = c.join(s.File)
	for _, arg := range command {
		s.Command = append(s.Command, NewSecret(arg))
	}
	return s
}

// decodeRecovery reads { policy = "…", max_attempts = n } or the policy alone.
func decodeRecovery(t *table, tool string) plugins.RecoveryChoice {
	choice := plugins.RecoveryChoice{MaxAttempts: batch.DefaultMaxAttempts}
	var policy string
	switch v := t.vals[tool].(type) {
	case string:
		policy = v
	case map[string]any:
		long, _ := t.sub(tool, "")
		long.text("policy", &policy)
		long.integer("max_attempts", &choice.MaxAttempts)
	default:
		t.r.bad(child(t.path, tool), "is "+kind(v), `write a policy such as "replay_safe", or { policy = "replay_safe", max_attempts = 3 }`)
	}
	choice.Policy = batch.RecoveryPolicy(policy)
	return choice
}

func (c *Config) decodeEgress(root *table) {
	e := root.section("egress")
	var proxy string
	if e.text("proxy", &proxy); proxy != "" {
		c.Egress.Proxy = NewSecret(proxy)
	}
	e.text("ca_file", &c.Egress.CAFile)
	e.duration("timeout", &c.Egress.Timeout)
	e.integer("request_mib", &c.Egress.RequestMiB)
	e.integer("response_mib", &c.Egress.ResponseMiB)
	c.Egress.CAFile = c.join(c.Egress.CAFile)
}
