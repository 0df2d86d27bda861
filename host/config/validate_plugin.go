package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	decimal = "0123456789"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (v *validator) plugin(key string, p *Plugin) {
	switch {
	case p.Path == "" && p.OCI == "":
		v.bad(key, "says nowhere where the plugin is", `add path = "plugins/…", the folder with its plugin.toml`)
	case p.Path != "" && p.OCI != "":
		v.bad(child(key, "oci"), "stands beside path", "keep one of the two")
	case p.OCI != "":
		v.pinned(child(key, "oci"), p.OCI)
	default:
		v.path(child(key, "path"), p.Path)
	}
	if p.SHA256 != "" {
		v.digest(child(key, "sha256"), p.SHA256)
	}
	if p.Grant != nil {
		v.grant(child(key, "grant"), p.Grant)
	}
	for _, name := range sorted(p.Config) {
		if name == "" {
			v.bad(child(child(key, "config"), name), "has no name", "name it")
		}
	}
	v.secrets(child(key, "secrets"), p.Secrets)
	v.oneOf(child(key, "clock"), p.Clock, plugins.Clocks())
	if _, err := plugins.ParseRandom(p.Random); err != nil || p.Random == "" {
		v.bad(child(key, "random"), fmt.Sprintf("%q is not a source of randomness", clip(p.Random)),
			`write "real", or "seed:" and a number from 0 to 18446744073709551615`)
	}
	v.between(child(key, "warm"), p.Warm, 0, maxWarm)
	v.names(child(key, "names"), p.Names)
	v.recovery(child(key, "recovery"), p)
}

// distinctPlugins refuses the same plugin twice: the second would only collide
// with the first, with a message that does not lead here.
func (v *validator) distinctPlugins() {
	first := map[string]int{}
	for i, p := range v.c.Plugins {
		where, name := p.Path, "path"
		if where == "" {
			where, name = p.OCI, "oci"
		}
		if where == "" {
			continue
		}
		if j, dup := first[where]; dup {
			v.bad(child(element("plugin", i), name), "is that of "+element("plugin", j)+" too", "remove one of the two [[plugin]] tables")
			continue
		}
		first[where] = i
	}
}

func (v *validator) grant(key string, g *Grant) {
	for i, h := range g.Hosts {
		if _, err := plugins.ParseHostPattern(h); err != nil {
			v.bad(element(child(key, "hosts"), i), err.Error(), "correct or remove it")
		}
	}
	for _, guest := range sorted(g.Paths) {
		at, p := child(child(key, "paths"), guest), g.Paths[guest]
		if !path.IsAbs(guest) || path.Clean(guest) != guest || strings.ContainsRune(guest, 0) {
			v.bad(at, "is not a guest path", `write an absolute path without "..", such as "/workspace"`)
		}
		// Whether there must be one is known once the manifest is read.
		if p.Host != "" || v.c.lines[child(at, "host")] != 0 {
			v.path(child(at, "host"), p.Host)
		}
		v.oneOf(child(at, "mode"), p.Mode, []string{"ro", "rw"})
		v.between(child(at, "max_mib"), p.MaxMiB, 0, maxDiskMiB)
		v.between(child(at, "max_files"), p.MaxFiles, 0, maxQuotaFiles)
	}
	for i, c := range g.Commands {
		if !made(c, lower+upper+decimal+"._+-") || strings.HasPrefix(c, "-") {
			v.bad(element(child(key, "commands"), i), fmt.Sprintf("%q is not the name of a command", clip(c)), `write the bare name, such as "git"`)
		}
	}
}

// pinned checks name@sha256:<64 hex>: a name alone would drift.
func (v *validator) pinned(key, ref string) {
	name, digest, found := strings.Cut(ref, "@sha256:")
	if !found || name == "" || strings.ContainsAny(name, " \t\n\x00") || !isHex(digest, 64) {
		v.bad(key, fmt.Sprintf("%q is not pinned by a digest", clip(ref)), `write "name@sha256:" and the 64 hexadecimal digits`)
	}
}

func (v *validator) pattern(key, p string) {
	if _, err := path.Match(p, ""); err != nil || p == "" || strings.ContainsAny(p, " /\t\n\x00") {
		v.bad(key, fmt.Sprintf("%q is not a pattern of plugin ids", clip(p)), `write a plugin id, in which * stands for any part, such as "acme-*"`)
	}
}

func (v *validator) secrets(key string, secrets map[string]SecretSource) {
	for _, name := range sorted(secrets) {
		at, s := child(key, name), secrets[name]
		if !made(name, lower+upper+decimal+"_") || strings.ContainsAny(name[:1], decimal) {
			v.bad(at, "is not the name of a secret", "write letters, digits and _, such as API_TOKEN")
		}
		v.source(at, s)
	}
}

// source checks that a secret comes from exactly one place.
func (v *validator) source(at string, s SecretSource) {
	sources := 0
	for _, set := range []bool{s.Env != "", s.File != "", len(s.Command) > 0} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		v.bad(at, fmt.Sprintf("has %d sources", sources), `give it exactly one of env = "NAME", file = "…" and command = ["…"]`)
	}
	if strings.ContainsAny(s.Env, "=\x00") {
		v.bad(child(at, "env"), "is not the name of an environment variable", "write the name only")
	}
	if len(s.Command) > 0 && s.Command[0].Reveal() == "" {
		v.bad(element(child(at, "command"), 0), "is empty", "start with the program to run")
	}
}

func (v *validator) names(key string, names map[string]string) {
	first := map[string]string{}
	for _, tool := range sorted(names) {
		name := names[tool]
		v.tool(child(key, tool), tool)
		if !toolID(name) {
			v.bad(child(key, tool), fmt.Sprintf("%q cannot be the name of a tool", clip(name)), "write 1 to 64 characters of A-Z a-z 0-9 _ -")
			continue
		}
		if other, dup := first[name]; dup {
			v.bad(child(key, tool), fmt.Sprintf("is %q, as is that of %s", name, other), "give each tool a name of its own")
			continue
		}
		first[name] = tool
	}
}

// toolID reports whether s has the form of a batch.ToolID.
func toolID(s string) bool { return len(s) <= 64 && made(s, lower+upper+decimal+"_-") }

func (v *validator) tool(key, id string) {
	if !toolID(id) {
		v.bad(key, fmt.Sprintf("%q is not the id of a tool", clip(id)), "write the id from the plugin's manifest")
	}
}

// recovery checks the words only: whether a tool has the capability is known once
// its manifest is read.
func (v *validator) recovery(key string, p *Plugin) {
	policies := []string{string(batch.NeverReplay), string(batch.ReplaySafe), string(batch.Idempotent), string(batch.DurableRequest)}
	for _, tool := range sorted(p.Recovery) {
		at, choice := child(key, tool), p.Recovery[tool]
		v.tool(at, tool)
		v.oneOf(at, string(choice.Policy), policies)
		v.between(child(at, "max_attempts"), choice.MaxAttempts, 1, 100)
	}
}
