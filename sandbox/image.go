package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/awaken-agents/awaken-host/plugins"
)

// image is a PluginImage, encoded once.
type image struct {
	PluginImage
	module []byte
	text   []byte
}

// newImage is what a Hand gets of p. The places are the targets that there are in the
// boundary.
func newImage(p *plugins.Plugin, places map[string]bool) (*image, error) {
	img := &image{module: p.Module, PluginImage: PluginImage{
		Manifest: p.Manifest.WithoutSchemas(), Digest: p.Digest, Effective: p.Effective, OutputMiB: p.OutputMiB, Config: p.Config,
		Clock: p.Clock, Random: p.Random, Warm: p.Warm, Tools: map[string]string{},
	}}
	for i := range p.Manifest.Tools {
		id := p.Manifest.Tools[i].ID
		if img.Tools[id] = p.Names[id]; img.Tools[id] == "" {
			img.Tools[id] = p.Manifest.ID + plugins.NameSeparator + id
		}
	}
	for guest, mode := range p.Effective.Paths {
		g := plugins.PathGrant{}
		if p.Grant != nil {
			g = p.Grant.Paths[guest]
		}
		if g.Host == "" {
			g.Host = guest
		}
		writable, is := places[g.Host]
		switch {
		case !is:
			return nil, fmt.Errorf("plugin %s may use %s, and there is no such place in a sandbox: use %s, or declare a [[sandbox.mount]] with this target", p.Manifest.ID, g.Host, WorkspaceDir)
		case mode == "rw" && !writable:
			return nil, fmt.Errorf(`plugin %s may write to %s, and the [[sandbox.mount]] there is read-only: grant "ro", or mount it with mode = "rw"`, p.Manifest.ID, g.Host)
		}
		g.Mode = mode
		if img.Paths == nil {
			img.Paths = map[string]plugins.PathGrant{}
		}
		img.Paths[guest] = g
	}
	unnamed, err := json.Marshal(img.PluginImage)
	if err != nil {
		return nil, err
	}
	img.Key = digest(unnamed)
	img.text, err = json.Marshal(img.PluginImage)
	return img, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
