package hand

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// Bounds of what a Hand keeps of plugins. What was used longest ago goes first; the
// host hands it over again.
const (
	maxImageBytes  = 4 << 20
	maxImages      = 128
	maxModuleBytes = 128 << 20 // of all that are kept
)

// images are the plugins and modules that the host handed over.
type images struct {
	mu      sync.Mutex
	clock   int64
	known   map[string]*image
	modules map[string]*moduleCode
}

// image is a plugin as the runtime takes it.
type image struct {
	sandbox.PluginImage
	used int64

	mu   sync.Mutex
	exec batch.Executor // nil: the module is not there yet
}

type moduleCode struct {
	code []byte
	used int64
}

func (c *images) init() {
	c.known, c.modules = map[string]*image{}, map[string]*moduleCode{}
}

// put keeps an image and reports whether its module is there.
func (c *images) put(i *image) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	i.used = c.clock
	if have := c.known[i.Key]; have != nil {
		have.used = c.clock
	} else {
		c.known[i.Key] = i
	}
	for len(c.known) > maxImages {
		delete(c.known, oldest(c.known, func(i *image) int64 { return i.used }))
	}
	_, have := c.modules[i.Manifest.Module.SHA256]
	return have
}

func (c *images) putModule(sum string, code []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	c.modules[sum] = &moduleCode{code: code, used: c.clock}
	total := 0
	for _, m := range c.modules {
		total += len(m.code)
	}
	for total > maxModuleBytes && len(c.modules) > 1 {
		old := oldest(c.modules, func(m *moduleCode) int64 { return m.used })
		total -= len(c.modules[old].code)
		delete(c.modules, old)
	}
}

// get returns an image with its module's code; nil where either is not there.
func (c *images) get(key string) (*image, []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.known[key]
	if i == nil {
		return nil, nil
	}
	m := c.modules[i.Manifest.Module.SHA256]
	if m == nil {
		return i, nil
	}
	c.clock++
	i.used, m.used = c.clock, c.clock
	return i, m.code
}

func oldest[V any](m map[string]V, used func(V) int64) string {
	keys := slices.Collect(maps.Keys(m))
	return slices.MinFunc(keys, func(a, b string) int { return int(used(m[a]) - used(m[b])) })
}

// plugin makes a plugin known.
func (h *hand) plugin(s *sandbox.Stream) error {
	i := &image{}
	if err := sandbox.ReadJSON(s, maxImageBytes, &i.PluginImage); err != nil {
		return err
	}
	if i.Manifest == nil || i.Key == "" {
		return fmt.Errorf("a plugin needs a key and a manifest")
	}
	for guest, give := range i.Paths {
		if usable, _ := h.places.usable(give.Host); !usable {
			return fmt.Errorf("plugin %s: its path %s stands for %s, which is neither the workspace nor a mount of this sandbox", i.Manifest.ID, guest, give.Host)
		}
	}
	return s.End(sandbox.PluginKnown{NeedModule: !h.images.put(i)})
}

// module takes the code of a module, if it is what the digest says.
func (h *hand) module(s *sandbox.Stream) error {
	var offer sandbox.ModuleOffer
	if err := s.Params(&offer); err != nil {
		return err
	}
	if offer.Bytes < 0 || offer.Bytes > plugins.MaxModuleBytes {
		return fmt.Errorf("a module of %d bytes, at most %d are taken", offer.Bytes, plugins.MaxModuleBytes)
	}
	code := make([]byte, offer.Bytes)
	if _, err := io.ReadFull(s, code); err != nil {
		return fmt.Errorf("module %s: %w", offer.SHA256, err)
	}
	if n, err := s.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("module %s is longer than the %d bytes that it was said to have", offer.SHA256, offer.Bytes)
	}
	if sum := sha256.Sum256(code); hex.EncodeToString(sum[:]) != offer.SHA256 {
		return fmt.Errorf("module %s: what came has the SHA-256 %x", offer.SHA256, sum)
	}
	h.images.putModule(offer.SHA256, code)
	return s.End(nil)
}

// settle is how long after the first call of a plugin memory is given back.
const settle = 2 * time.Second

// executor returns what runs calls of the plugin with this key. Every error is a
// reason why nothing ran.
func (h *hand) executor(key string) (*image, batch.Executor, error) {
	i, code := h.images.get(key)
	switch {
	case i == nil:
		return nil, nil, unavailable("the Hand does not have the plugin any more: hand it over again")
	case code == nil:
		return nil, nil, unavailable("the Hand does not have the module of plugin %s any more: hand it over again", i.Manifest.ID)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.exec == nil {
		snap, err := plugins.NewSnapshot([]*plugins.Plugin{h.rebuild(i, code)})
		if err != nil {
			return nil, nil, unavailable("plugin %s: %v", i.Manifest.ID, err)
		}
		i.exec = h.runtime.Executor(func() *plugins.Snapshot { return snap })
		// Loading a module takes several times what the module then needs.
		time.AfterFunc(settle, debug.FreeOSMemory)
	}
	return i, i.exec, nil
}

// rebuild is the plugin as the host has it, with the folders that it has here.
func (h *hand) rebuild(i *image, code []byte) *plugins.Plugin {
	p := &plugins.Plugin{
		Manifest: i.Manifest.WithoutSchemas(), Dir: "plugin " + i.Manifest.ID, Digest: i.Digest,
		// The host verified it by whatever it trusts; the Hand trusts the host.
		TrustedBy: plugins.TrustedByPin,
		Module:    code, Effective: i.Effective, OutputMiB: i.OutputMiB, Config: i.Config,
		Clock: i.Clock, Random: i.Random, Warm: i.Warm, Names: i.Tools,
		Secrets: map[string]plugins.SecretSource{},
	}
	for _, name := range i.Effective.Secrets {
		p.Secrets[name] = &secret{channel: h.channel, name: name}
	}
	p.Effective.MemoryMiB = i.Effective.MemoryMiB
	if most := guestMemoryMiB(h.limits.MemoryMiB); p.Effective.MemoryMiB <= 0 || p.Effective.MemoryMiB > most {
		p.Effective.MemoryMiB = most
		if i.Effective.MemoryMiB <= 0 {
			p.Effective.MemoryMiB = min(most, plugins.DefaultLimits.MemoryMiB)
		}
	}
	p.Grant = &plugins.Grant{Hosts: i.Effective.Hosts, Commands: i.Effective.Commands, Paths: map[string]plugins.PathGrant{}}
	p.Effective.Paths = maps.Clone(i.Effective.Paths)
	for guest, give := range i.Paths {
		_, write := h.places.usable(give.Host)
		if !write && p.Effective.Paths[guest] == "rw" {
			p.Effective.Paths[guest] = "ro"
		}
		if most := h.limits.WorkspaceMiB; within(sandbox.WorkspaceDir, give.Host) && (give.MaxMiB == 0 || give.MaxMiB > most) {
			give.MaxMiB = most
		}
		give.Host = h.places.real(give.Host)
		p.Grant.Paths[guest] = give
	}
	return p
}
