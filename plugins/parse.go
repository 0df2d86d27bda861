package plugins

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins/schema"
)

// MaxManifestBytes bounds plugin.toml.
const MaxManifestBytes = 1 << 20

// manifestVersion is the format this package reads: manifest = 1.
const manifestVersion = 1

// ParseManifest reads a plugin.toml strictly and validates it. Name is used in
// messages. The error wraps ErrManifest and lists every problem found, one per
// line, as "name:line: key: what is wrong and what to write".
//
// An empty [module].sha256 is accepted here so that Sign can fill it; Load
// refuses it.
func ParseManifest(name string, data []byte) (*Manifest, error) {
	if len(data) > MaxManifestBytes {
		return nil, &manifestError{fmt.Sprintf("%s: larger than %d bytes, shorten it", name, MaxManifestBytes)}
	}
	doc, top, err := openDocument(name, data)
	if err != nil {
		return nil, err
	}
	m := parseManifest(top)
	if err := doc.err(); err != nil {
		return nil, err
	}
	return m, nil
}

func parseManifest(top *section) *Manifest {
	if v, ok := top.integer("manifest"); ok && v != manifestVersion {
		top.fail("manifest", "format %d is not known, this host reads manifest = %d", v, manifestVersion)
	} else if !top.has("manifest") {
		top.fail("", "manifest is missing, write manifest = %d", manifestVersion)
	}
	m := &Manifest{
		ID:          top.required("id", `name the plugin, such as id = "text"`),
		Version:     top.required("version", `write a version such as "1.0.0"`),
		Description: top.text("description"),
	}
	if err := checkPluginID(m.ID); m.ID != "" && err != nil {
		top.fail("id", "%v", err)
	}
	if reserved(m.ID) {
		top.fail("id", "%q is the plugin of the tools that host.toml declares, choose another id", m.ID)
	}
	if m.Version != "" && !versionPattern().MatchString(m.Version) {
		top.fail("version", "%q is not a version such as 1.2.0 or 1.2.0-rc.1", m.Version)
	}
	checkProse(top, "description", m.Description)

	if top.has("module") {
		m.Module = parseModule(top.table("module"))
	} else {
		top.take("module")
		top.fail("", "[module] is missing, add it with path, sha256 and abi")
	}
	tools := top.tables("tool")
	if len(tools) == 0 {
		top.fail("", "there is no tool, add a [[tool]]")
	}
	lines := map[string]int{}
	for _, s := range tools {
		t := parseTool(s, m.Module.ABI)
		if line, twice := lines[t.ID]; twice && t.ID != "" {
			s.fail("id", "%q is also the tool on line %d, rename one", t.ID, line)
		}
		lines[t.ID] = s.line
		m.Tools = append(m.Tools, t)
	}
	m.Capabilities = parseCapabilities(top.table("capabilities"), m.Has(batch.TargetSandbox))
	m.State = parseState(top.tables("state"))
	top.close()
	return m
}

func parseModule(s *section) Module {
	mod := Module{
		Path:   s.required("path", `name the module's file, such as path = "text.wasm"`),
		SHA256: s.text("sha256"),
	}
	if mod.Path != "" {
		if err := checkModulePath(mod.Path); err != nil {
			s.fail("path", "%v", err)
		}
	}
	if mod.SHA256 != "" && !isHexSum(mod.SHA256) {
		s.fail("sha256", "%q is not a SHA-256 in 64 lower-case hex digits; empty it and sign again to have it filled in", clip(mod.SHA256, 80))
	}
	if s.has("abi") {
		mod.ABI = ABI(s.choice("abi", string(ABIExtism), string(ABIWASI)))
	} else {
		s.take("abi")
		s.fail("abi", `missing, write abi = "extism" or abi = "wasi"`)
	}
	s.close()
	return mod
}

func parseCapabilities(s *section, sandboxed bool) Capabilities {
	var c Capabilities
	c.Hosts = uniqueTexts(s, "hosts", func(h string) (string, error) {
		p, err := ParseHostPattern(h)
		return p.String(), err
	})
	c.Commands = uniqueTexts(s, "commands", func(n string) (string, error) { return n, checkCommand(n) })
	if len(c.Commands) > 0 && !sandboxed {
		s.fail("commands", `no tool has target = "sandbox", and only those may run commands: remove it or move a tool`)
	}
	c.Secrets = uniqueTexts(s, "secrets", func(n string) (string, error) { return n, checkSecret(n) })
	if paths, ok := s.rawTable("paths"); ok && len(paths) > 0 {
		c.Paths = map[string]string{}
		sub := s.table("paths")
		for _, p := range sortedKeys(paths) {
			mode := sub.text(p)
			if err := checkGuestPath(p); err != nil {
				sub.fail(p, "%v", err)
			}
			if _, isText := paths[p].(string); isText && mode != "ro" && mode != "rw" {
				sub.fail(p, `%q is not a mode, write "ro" or "rw"`, mode)
			}
			c.Paths[p] = mode
		}
	}
	if n, ok := s.integer("memory_mib"); ok {
		if n < 1 || n > maxMemoryMiB {
			s.fail("memory_mib", "%d is out of range, write 1 to %d", n, maxMemoryMiB)
		} else {
			c.MemoryMiB = int(n)
		}
	}
	c.Timeout = duration(s, "timeout")
	s.close()
	return c
}

func duration(s *section, key string) time.Duration {
	v, ok := s.take(key)
	if !ok {
		return 0
	}
	text, isText := v.(string)
	if !isText {
		s.fail(key, `is %s, write a duration as a string such as "5s"`, typeName(v))
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		s.fail(key, `%q is not a duration of at least 1ms, write one such as "500ms" or "5s"`, text)
		return 0
	}
	return d
}

// uniqueTexts reads a list whose elements pass check, which also normalizes them.
func uniqueTexts(s *section, key string, check func(string) (string, error)) []string {
	var out []string
	for i, raw := range s.texts(key) {
		text, err := check(raw)
		switch {
		case err != nil:
			s.failElem(key, i, "%v", err)
		case slices.Contains(out, text):
			s.failElem(key, i, "%q is listed twice", text)
		default:
			out = append(out, text)
		}
	}
	return out
}

func parseTool(s *section, abi ABI) ToolSpec {
	t := ToolSpec{
		ID:          s.required("id", `name the tool, such as id = "word_count"`),
		Export:      s.text("export"),
		Args:        s.texts("args"),
		Description: s.text("description"),
		Target:      batch.Target(s.choice("target", string(batch.TargetBrain), string(batch.TargetSandbox))),
		Recovery: batch.RecoveryCapability(s.choice("recovery", string(batch.NonRecoverable), string(batch.ReplaySafe),
			string(batch.Idempotent), string(batch.DurableRequest))),
		Isolation: Isolation(s.choice("isolation", string(IsolationCall), string(IsolationRun), string(IsolationShared))),
	}
	if t.ID != "" {
		if err := checkToolName(t.ID); err != nil {
			s.fail("id", "%v", err)
		}
	}
	checkProse(s, "description", t.Description)
	switch abi {
	case ABIExtism:
		if t.Export == "" {
			s.fail("export", "missing, name the exported function to call")
		}
		if s.has("args") {
			s.fail("args", `goes with abi = "wasi" only, remove it`)
		}
	case ABIWASI:
		if s.has("export") {
			s.fail("export", `goes with abi = "extism" only, a command module starts at _start: remove it`)
		}
		if t.Isolation != IsolationCall && t.Isolation != "" {
			s.fail("isolation", "a command module ends with its call, remove it")
		}
	}
	if strings.ContainsRune(t.Export, 0) || len(t.Export) > 256 {
		s.fail("export", "not the name of an export")
	}
	for i, a := range t.Args {
		if strings.ContainsRune(a, 0) {
			s.failElem("args", i, "holds a NUL byte")
		}
	}
	var input map[string]any
	t.InputSchema, input = parseSchema(s, "input_schema")
	if input != nil && input["type"] != "object" {
		s.fail("input_schema", `arguments are an object, write type = "object" at its top`)
	}
	t.OutputSchema, _ = parseSchema(s, "output_schema")
	if table, ok := s.rawTable("annotations"); ok {
		v, err := jsonValue(table, 0)
		if err != nil {
			s.fail("annotations", "%v", err)
		} else if notes := v.(map[string]any); len(notes) > 0 {
			t.Annotations = notes
		}
	}
	t.Require = parseRequire(s, t.Target == batch.TargetSandbox)
	t.Encoding = parseEncoding(s.table("encoding"), input)
	if t.OutputSchema != nil && t.Encoding.Output == "text" {
		s.fail("output_schema", `text is not checked against a schema, remove it or set encoding.output to "json" or "blocks"`)
	}
	s.close()
	return t
}

// parseSchema returns the schema as JSON and as a value, nil where it is absent
// or unusable.
func parseSchema(s *section, key string) (json.RawMessage, map[string]any) {
	table, ok := s.rawTable(key)
	if !ok {
		return nil, nil
	}
	v, err := jsonValue(table, 0)
	if err != nil {
		s.fail(key, "%v", err)
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		s.fail(key, "%v", err)
		return nil, nil
	}
	if err := schema.Validate(raw); err != nil {
		s.fail(key, "not a usable JSON Schema: %v", err)
		return nil, nil
	}
	return raw, v.(map[string]any)
}

func parseEncoding(s *section, input map[string]any) Encoding {
	e := Encoding{Input: s.text("input"), Output: s.choice("output", "json", "text", "base64", "blocks")}
	if !s.has("input") {
		e.Input = "json"
	} else if _, isText := s.values["input"].(string); isText {
		if err := checkInputEncoding(e.Input, input); err != nil {
			s.fail("input", "%v", err)
		}
	}
	s.close()
	return e
}

func parseState(tables []*section) []StateSpec {
	var out []StateSpec
	lines := map[string]int{}
	for _, s := range tables {
		key := s.required("key", `name the state key, such as key = "counter"`)
		if key != "" && !stateKeyPattern().MatchString(key) {
			s.fail("key", "%q: use letters, digits, . _ and -, at most 128, starting with a letter, digit or _", clip(key, 140))
		}
		if line, twice := lines[key]; twice && key != "" {
			s.fail("key", "%q is also the state on line %d, remove one", key, line)
		}
		lines[key] = s.line
		schema, _ := parseSchema(s, "schema")
		s.close()
		out = append(out, StateSpec{Key: key, Schema: schema})
	}
	return out
}
