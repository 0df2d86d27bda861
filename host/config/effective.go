package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Setting is one effective value and where it came from.
type Setting struct {
	Key    string // as in "plugin[0].grant.hosts"
	Value  string // as TOML; "[redacted]" when Secret
	Origin string // "host.toml:12", "default" or "flag --data-dir"
	Secret bool
}

// Overrides are what flags of the command line set. Zero fields override nothing.
type Overrides struct {
	DataDir string // --data-dir: relative to the working folder, as a flag is
}

// Override puts flags over the values of the file.
func (c *Config) Override(o Overrides) {
	if o.DataDir != "" {
		c.DataDir = o.DataDir
		c.flag("data_dir", "--data-dir")
	}
}

func (c *Config) flag(key, name string) {
	if c.flags == nil {
		c.flags = map[string]string{}
	}
	c.flags[key] = name
}

// Effective lists every setting in force, in the order of the documentation, with
// file names joined and secrets redacted.
func (c *Config) Effective() []Setting {
	e := &effective{c: c}
	e.add("version", c.Version)
	e.add("data_dir", c.DataDir)
	for i, k := range c.Trust.Keys {
		key := element("trust.keys", i)
		e.add(child(key, "file"), k.File)
		if k.Plugins != nil {
			e.add(child(key, "plugins"), k.Plugins)
		}
	}
	e.add("trust.revoked", c.Trust.Revoked)
	e.add("trust.allow_unsigned", c.Trust.AllowUnsigned)
	e.add("store.sync", c.Store.Sync)
	e.add("store.min_free_mib", c.Store.MinFreeMiB)
	e.add("store.retention", c.Store.Retention)
	e.add("tickets.timeout", c.Tickets.Timeout)
	e.add("policy.paths", c.Policy.Paths)
	e.add("policy.deadline", c.Policy.Deadline)
	e.add("policy.builtins", c.Policy.Builtins)
	e.add("policy.require_log", c.Policy.RequireLog)
	e.policyLog(&c.Policy.Log)
	e.add("policy.test_on_reload", c.Policy.TestOnReload)
	e.add("policy.watch", c.Policy.Watch)
	for i := range c.Policy.Bundles {
		e.bundle(element("policy.bundle", i), &c.Policy.Bundles[i])
	}
	for i := range c.Plugins {
		e.plugin(element("plugin", i), &c.Plugins[i])
	}
	e.hostTools("client_tool", c.ClientTools, false)
	e.hostTools("delegate_tool", c.DelegateTools, true)
	e.add("limits.memory_mib", c.Limits.MemoryMiB)
	e.add("limits.timeout", c.Limits.Timeout)
	e.add("limits.output_mib", c.Limits.OutputMiB)
	e.add("limits.arguments_mib", c.Limits.ArgumentsMiB)
	e.add("limits.total_memory_mib", c.Limits.TotalMemoryMiB)
	e.add("limits.concurrent_calls", c.Limits.ConcurrentCalls)
	e.add("limits.queued_calls", c.Limits.QueuedCalls)
	e.add("limits.compile_timeout", c.Limits.CompileTimeout)
	e.egress(&c.Egress)
	e.sandbox(&c.Sandbox)
	e.add("serve.bind", c.Serve.Bind)
	return e.settings
}

type effective struct {
	c        *Config
	settings []Setting
}

func (e *effective) add(key string, value any) {
	e.settings = append(e.settings, Setting{Key: key, Value: literal(value), Origin: e.origin(key)})
}

func (e *effective) hide(key string) {
	e.settings = append(e.settings, Setting{Key: key, Value: redacted, Origin: e.origin(key), Secret: true})
}

func (e *effective) origin(key string) string {
	if name, set := e.c.flags[key]; set {
		return "flag " + name
	}
	if line := e.c.lines[key]; line > 0 {
		return e.c.File + ":" + strconv.Itoa(line)
	}
	return "default"
}

func (e *effective) plugin(key string, p *Plugin) {
	if p.Path != "" {
		e.add(child(key, "path"), p.Path)
	}
	if p.OCI != "" {
		e.add(child(key, "oci"), p.OCI)
	}
	e.add(child(key, "sha256"), p.SHA256)
	if g := p.Grant; g != nil {
		at := child(key, "grant")
		e.add(child(at, "hosts"), g.Hosts)
		for _, guest := range sorted(g.Paths) {
			to := child(child(at, "paths"), guest)
			if host := g.Paths[guest].Host; host != "" {
				e.add(child(to, "host"), host)
			}
			e.add(child(to, "mode"), g.Paths[guest].Mode)
			e.add(child(to, "max_mib"), g.Paths[guest].MaxMiB)
			e.add(child(to, "max_files"), g.Paths[guest].MaxFiles)
		}
		e.add(child(at, "commands"), g.Commands)
	}
	for _, name := range sorted(p.Config) {
		at := child(child(key, "config"), name)
		if looksSecret.MatchString(name) {
			e.hide(at)
			continue
		}
		e.add(at, p.Config[name].Reveal())
	}
	for _, name := range sorted(p.Secrets) {
		e.secret(child(child(key, "secrets"), name), p.Secrets[name])
	}
	e.add(child(key, "clock"), p.Clock)
	e.add(child(key, "random"), p.Random)
	e.add(child(key, "warm"), p.Warm)
	for _, tool := range sorted(p.Names) {
		e.add(child(child(key, "names"), tool), p.Names[tool])
	}
	for _, tool := range sorted(p.Recovery) {
		at := child(child(key, "recovery"), tool)
		e.add(at, string(p.Recovery[tool].Policy))
		e.add(child(at, "max_attempts"), p.Recovery[tool].MaxAttempts)
	}
}

// looksSecret matches names of [plugin.config] under which people keep
// credentials although [plugin.secrets] is the place for them.
var looksSecret = regexp.MustCompile(`(?i)secret|token|passw|passphrase|credential|private|auth|key$`)

func (e *effective) secret(key string, s SecretSource) {
	switch {
	case s.Env != "":
		e.add(child(key, "env"), s.Env)
	case s.File != "":
		e.add(child(key, "file"), s.File)
	default:
		e.hide(child(key, "command"))
	}
}

func (e *effective) egress(g *Egress) {
	// Whole, because a user and a password can stand in it.
	if g.Proxy.Reveal() == "" {
		e.add("egress.proxy", "")
	} else {
		e.hide("egress.proxy")
	}
	e.add("egress.ca_file", g.CAFile)
	e.add("egress.timeout", g.Timeout)
	e.add("egress.request_mib", g.RequestMiB)
	e.add("egress.response_mib", g.ResponseMiB)
}

// literal writes a value as TOML.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case time.Duration:
		return quote(FormatDuration(v))
	case []string:
		items := make([]string, len(v))
		for i, s := range v {
			items[i] = quote(s)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case json.RawMessage:
		dec := json.NewDecoder(bytes.NewReader(v))
		dec.UseNumber()
		var doc any
		if err := dec.Decode(&doc); err != nil {
			return quote(string(v))
		}
		return literal(doc)
	case map[string]any:
		pairs := make([]string, 0, len(v))
		for _, k := range sorted(v) {
			pairs = append(pairs, child("", k)+" = "+literal(v[k]))
		}
		if len(pairs) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	case []any:
		items := make([]string, len(v))
		for i, e := range v {
			items[i] = literal(e)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// quote writes a basic string: TOML's escapes are those of JSON, which leaves DEL
// as it is.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
