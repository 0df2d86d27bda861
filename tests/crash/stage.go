package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/host/standard"
)

//go:embed stage/host.toml
var hostFile []byte

//go:embed stage/policy.rego
var policyFile []byte

// effectPlugin is the plugin whose tools leave effects, below the folder of built
// guests.
const effectPlugin = "effect"

const howToBuild = "run: make guests (it needs clang and lld: apt-get install clang lld)"

// buildStage writes a host.toml with policy, a fresh key and the effect plugin signed
// with it into dir, and returns the name of the host.toml. All worlds share it.
func buildStage(dir, guests string) (string, error) {
	plugin := filepath.Join(dir, effectPlugin)
	if err := os.CopyFS(plugin, os.DirFS(filepath.Join(guests, effectPlugin))); err != nil {
		return "", fmt.Errorf("the plugin %s is not built in %s: %w; %s", effectPlugin, guests, err, howToBuild)
	}
	pub, key := filepath.Join(dir, "tools.pub"), filepath.Join(dir, "tools.key")
	if _, err := standard.GenerateKey(pub, key, ""); err != nil {
		return "", err
	}
	if _, err := standard.Sign(plugin, key, "", true); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.rego"), policyFile, 0o600); err != nil {
		return "", err
	}
	config := filepath.Join(dir, "host.toml")
	return config, os.WriteFile(config, hostFile, 0o600)
}
