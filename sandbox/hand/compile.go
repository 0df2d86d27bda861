package hand

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/wasm"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// maxCodeBytes bounds what Compile reads: a manifest, and a module in base64.
const maxCodeBytes = maxImageBytes + plugins.MaxModuleBytes/3*4 + 4

// Compile puts the machine code of the plugin that in describes, a sandbox.PluginCode,
// into dir, for Hands of this very program. It runs outside of boundaries.
func Compile(dir string, in io.Reader) error {
	var c sandbox.PluginCode
	if err := json.NewDecoder(io.LimitReader(in, maxCodeBytes)).Decode(&c); err != nil {
		return fmt.Errorf("the plugin on standard input: %w", err)
	}
	if c.Manifest == nil {
		return fmt.Errorf("the plugin on standard input has no manifest")
	}
	p := &plugins.Plugin{Manifest: c.Manifest, Dir: "plugin " + c.Manifest.ID, Module: c.Module, Effective: c.Effective}
	return wasm.Precompile(dir, p)
}
