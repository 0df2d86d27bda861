package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/awaken-agents/awaken-host/batch"
)

// NameSeparator stands between plugin id and tool id in the name the model sees.
const NameSeparator = "__"

// Snapshot is an immutable set of plugins and their tools under the names the
// model sees. It is a batch.Catalog, safe for concurrent use.
type Snapshot struct {
	plugins     []*Plugin // by id
	tools       []*Tool   // by name
	byName      map[batch.ToolID]*Tool
	fingerprint string
}

var _ batch.Catalog = (*Snapshot)(nil)

// NewSnapshot names and compiles the tools of plugins, which are kept and must not
// change afterwards. It refuses two plugins with one id, two tools with one name
// and names outside [a-zA-Z0-9_-]{1,64}; the *LoadError names both sides.
func NewSnapshot(plugins []*Plugin) (*Snapshot, error) {
	s := &Snapshot{plugins: slices.Clone(plugins), byName: map[batch.ToolID]*Tool{}}
	slices.SortStableFunc(s.plugins, func(a, b *Plugin) int { return strings.Compare(a.Manifest.ID, b.Manifest.ID) })
	for i, p := range s.plugins {
		if i > 0 && s.plugins[i-1].Manifest.ID == p.Manifest.ID {
			return nil, &LoadError{Class: ErrNames, File: p.Dir,
				Problem: fmt.Sprintf("the plugin id %q is also the id of %s", p.Manifest.ID, s.plugins[i-1].Dir),
				Remedy:  "remove one of the two [[plugin]] entries"}
		}
		if err := s.add(p); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.tools, func(a, b *Tool) int { return strings.Compare(string(a.Name), string(b.Name)) })
	var err error
	s.fingerprint, err = fingerprint(s.tools)
	return s, err
}

func (s *Snapshot) add(p *Plugin) error {
	manifestFile := filepath.Join(p.Dir, ManifestFile)
	if p.fromHost() {
		manifestFile = p.Dir
	}
	broken := func(where string, err error) error {
		return &LoadError{Class: ErrManifest, File: manifestFile, Problem: where, Err: err}
	}
	if err := checkPluginID(p.Manifest.ID); err != nil {
		return broken("id", err)
	}
	if p.fromHost() != reserved(p.Manifest.ID) {
		return broken("id", fmt.Errorf("%q is for tools that host.toml declares, and those alone have it: choose another id", p.Manifest.ID))
	}
	state, err := stateSchemas(p)
	if err != nil {
		return broken("state", err)
	}
	for i := range p.Manifest.Tools {
		spec := &p.Manifest.Tools[i]
		name, renamed := p.Names[spec.ID]
		if !renamed {
			name = p.Manifest.ID + NameSeparator + spec.ID
		}
		remedy := anotherName(spec.ID, p.Manifest.ID)
		if p.fromHost() {
			remedy = fmt.Sprintf("give the %s tool %q another id", p.Manifest.ID, spec.ID)
		}
		if checkToolName(name) != nil {
			return &LoadError{Class: ErrNames, File: manifestFile,
				Problem: fmt.Sprintf("the model would see %q (%d bytes), a name has 1 to %d of A-Z, a-z, 0-9, _ and -", clip(name, 160), len(name), maxToolName),
				Remedy:  remedy}
		}
		if other, taken := s.byName[batch.ToolID(name)]; taken {
			// The one that somebody named is the one to name again.
			if _, named := other.Plugin.Names[other.Spec.ID]; named && !renamed {
				manifestFile = filepath.Join(other.Plugin.Dir, ManifestFile)
				remedy = anotherName(other.Spec.ID, other.Plugin.Manifest.ID)
			}
			return &LoadError{Class: ErrNames, File: manifestFile,
				Problem: fmt.Sprintf("tool %q of plugin %q and tool %q of plugin %q would both be %q",
					other.Spec.ID, other.Plugin.Manifest.ID, spec.ID, p.Manifest.ID, name),
				Remedy: remedy}
		}
		t, err := newTool(batch.ToolID(name), p, spec, state)
		if err != nil {
			return broken("tool "+spec.ID, err)
		}
		s.byName[t.Name] = t
		s.tools = append(s.tools, t)
	}
	return nil
}

func anotherName(tool, plugin string) string {
	return fmt.Sprintf("give tool %q of plugin %q another name in [plugin.names]", tool, plugin)
}

// Lookup finds a tool by the name the model sees.
func (s *Snapshot) Lookup(id batch.ToolID) (batch.Tool, bool) {
	t, ok := s.byName[id]
	if !ok {
		return nil, false
	}
	return t, true
}

// Tool is Lookup with the concrete type.
func (s *Snapshot) Tool(id batch.ToolID) (*Tool, bool) {
	t, ok := s.byName[id]
	return t, ok
}

// Tools lists the tools in byte order of their names.
func (s *Snapshot) Tools() []*Tool { return slices.Clone(s.tools) }

// Plugins lists the plugins in byte order of their ids.
func (s *Snapshot) Plugins() []*Plugin { return slices.Clone(s.plugins) }

// Fingerprint is a hex SHA-256 over names, digests, effective capabilities,
// recovery choices and configuration: it changes when any of them does.
func (s *Snapshot) Fingerprint() string { return s.fingerprint }

// fingerprint hashes a canonical JSON form: struct fields in order, map keys
// sorted, tools by name.
func fingerprint(tools []*Tool) (string, error) {
	type entry struct {
		Name      batch.ToolID
		Tool      string
		Digest    string
		Effective Capabilities
		Grant     *Grant
		OutputMiB int
		Recovery  RecoveryChoice
		Config    map[string]string
		Clock     Clock   `json:",omitempty"`
		Random    *Random `json:",omitempty"`
	}
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, t := range tools {
		p := t.Plugin
		e := entry{
			Name: t.Name, Tool: t.Spec.ID, Digest: p.Digest, Effective: p.Effective, Grant: p.Grant, OutputMiB: p.OutputMiB,
			Recovery: p.Recovery[t.Spec.ID], Config: p.Config,
		}
		if p.Clock != ClockReal {
			e.Clock = p.Clock
		}
		if p.Random.Seeded {
			e.Random = &p.Random
		}
		if err := enc.Encode(e); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Registry holds the Snapshot in force. The zero value holds an empty one. Safe
// for concurrent use.
type Registry struct{ current atomic.Pointer[Snapshot] }

var emptySnapshot = &Snapshot{byName: map[batch.ToolID]*Tool{}, fingerprint: hexSum(nil)}

// Load returns the Snapshot in force, never nil. A caller that makes several
// look-ups for one batch loads once.
func (r *Registry) Load() *Snapshot {
	if s := r.current.Load(); s != nil {
		return s
	}
	return emptySnapshot
}

// Swap puts s in force and returns the Snapshot it replaced; nil stands for an
// empty one.
func (r *Registry) Swap(s *Snapshot) *Snapshot {
	if old := r.current.Swap(s); old != nil {
		return old
	}
	return emptySnapshot
}
