package plugins

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
)

// Grant is what an operator lets a plugin use: [plugin.grant]. Paths and commands
// are compared by name with the manifest's, hosts as HostPattern covers; a grant may
// leave out or lower what the manifest asks for and must not name anything else.
type Grant struct {
	Hosts    []string
	Paths    map[string]PathGrant // by guest path
	Commands []string
}

// PathGrant is the host folder behind a guest path. Of a plugin with tools that run
// in a sandbox, it is the place of the same name in the Environment, Host is empty,
// and its tools beside the model, if it has any, do not see it.
type PathGrant struct {
	Host     string
	Mode     string // "ro" or "rw"; empty: what the manifest asks for
	MaxMiB   int    // how much the folder may hold before the plugin may not add to it; 0: not bounded
	MaxFiles int    // how many files and folders it may hold, likewise
}

func (g *Grant) clone() *Grant {
	if g == nil {
		return nil
	}
	return &Grant{Hosts: slices.Clone(g.Hosts), Paths: maps.Clone(g.Paths), Commands: slices.Clone(g.Commands)}
}

// effective intersects the manifest's capabilities with the grant and clamps
// memory and timeout. Secrets are not part of a grant: see effectiveSecrets. The
// problems are what the grant names beyond the manifest.
func effective(m *Manifest, g *Grant, l Limits) (Capabilities, []string) {
	c, sandboxed := m.Capabilities, m.Has(batch.TargetSandbox)
	e := Capabilities{MemoryMiB: l.MemoryMiB, Timeout: l.Timeout}
	if c.MemoryMiB > 0 {
		e.MemoryMiB = min(c.MemoryMiB, l.MemoryMiB)
	}
	if c.Timeout > 0 {
		e.Timeout = min(c.Timeout, l.Timeout)
	}
	if g == nil {
		return e, nil
	}
	var problems []string
	e.Hosts = grantedHosts(c.Hosts, g.Hosts, &problems)
	e.Commands = grantedCommands(c.Commands, g.Commands, &problems)
	for _, p := range sortedKeys(g.Paths) {
		asked, ok := c.Paths[p]
		if !ok {
			problems = append(problems, notAsked("grant.paths", "paths", p, sortedKeys(c.Paths)))
			continue
		}
		give := g.Paths[p]
		mode := give.Mode
		if mode == "" {
			mode = asked
		}
		switch {
		case mode != "ro" && mode != "rw":
			problems = append(problems, fmt.Sprintf(`grant.paths: %q has mode %q, write "ro" or "rw"`, p, clip(mode, 40)))
		case mode == "rw" && asked == "ro":
			problems = append(problems, fmt.Sprintf(`grant.paths: %q is granted "rw" but the manifest asks for "ro", write "ro"`, p))
		case sandboxed && give.Host != "":
			problems = append(problems, fmt.Sprintf("grant.paths: %q has a host folder, and the plugin has tools that run in a sandbox: "+
				"leave host away, the path is the place of that name in the sandbox; to bring a folder of this machine there, declare a [[sandbox.mount]]", p))
		case !sandboxed && give.Host == "":
			problems = append(problems, fmt.Sprintf("grant.paths: %q has no host folder, set host", p))
		case give.MaxMiB < 0:
			problems = append(problems, fmt.Sprintf("grant.paths: %q has max_mib %d, write 0 for none or a size", p, give.MaxMiB))
		case give.MaxFiles < 0:
			problems = append(problems, fmt.Sprintf("grant.paths: %q has max_files %d, write 0 for none or a number", p, give.MaxFiles))
		default:
			if e.Paths == nil {
				e.Paths = map[string]string{}
			}
			e.Paths[p] = mode
		}
	}
	return e, problems
}

// grantedHosts takes a grant that is narrower than what the manifest asks for, such
// as one host of "*.example.com".
func grantedHosts(asked, given []string, problems *[]string) []string {
	var out []string
	for _, raw := range given {
		p, err := ParseHostPattern(raw)
		switch {
		case err != nil:
			*problems = append(*problems, "grant.hosts: "+err.Error())
		case !CoversHost(asked, raw):
			*problems = append(*problems, notAsked("grant.hosts", "hosts", raw, asked))
		default:
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func grantedCommands(asked, given []string, problems *[]string) []string {
	var out []string
	for _, name := range given {
		if !slices.Contains(asked, name) {
			*problems = append(*problems, notAsked("grant.commands", "commands", name, asked))
			continue
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func notAsked(table, what, name string, asked []string) string {
	if len(asked) == 0 {
		return fmt.Sprintf("%s: the manifest asks for no %s, remove %q", table, what, clip(name, 80))
	}
	return fmt.Sprintf("%s: the manifest does not ask for %q, it asks for %s%s",
		table, clip(name, 80), clip(strings.Join(asked, ", "), 300), didYouMean(name, asked))
}

// MissingGrants returns the lines of host.toml that would grant what the manifest
// asks for and the operator has not granted, empty when there is nothing. Host
// folders are left as "…" to fill in, and secrets come from environment variables of
// their names.
func (p *Plugin) MissingGrants() string {
	c, e := p.Manifest.Capabilities, p.Effective
	var lines []string
	if missing(c.Hosts, e.Hosts) {
		lines = append(lines, "hosts = "+tomlList(c.Hosts))
	}
	var paths []string
	lacking := false
	for _, g := range sortedKeys(c.Paths) {
		lacking = lacking || e.Paths[g] != c.Paths[g]
		if p.Manifest.Has(batch.TargetSandbox) {
			paths = append(paths, fmt.Sprintf("%s = { mode = %s }", tomlString(g), tomlString(c.Paths[g])))
			continue
		}
		host := "…"
		if p.Grant != nil && p.Grant.Paths[g].Host != "" {
			host = p.Grant.Paths[g].Host
		}
		paths = append(paths, fmt.Sprintf("%s = { host = %s, mode = %s }", tomlString(g), tomlString(host), tomlString(c.Paths[g])))
	}
	if lacking {
		lines = append(lines, "paths = { "+strings.Join(paths, ", ")+" }")
	}
	if missing(c.Commands, e.Commands) {
		lines = append(lines, "commands = "+tomlList(c.Commands))
	}
	if len(lines) == 0 {
		return p.missingSecrets()
	}
	return "[plugin.grant]\n" + strings.Join(lines, "\n") + "\n" + p.missingSecrets()
}

func missing(asked, given []string) bool {
	return slices.ContainsFunc(asked, func(a string) bool { return !slices.Contains(given, a) })
}

func tomlList(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// tomlString writes a TOML basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u` + fmt.Sprintf("%04X", r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
