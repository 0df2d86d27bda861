package standard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	_ "github.com/awaken-agents/awaken-host/plugins/jsonschema" // schemas of manifests
	"github.com/awaken-agents/awaken-host/plugins/wasm"
)

// message is something an operator should read about a plugin that was loaded.
type message struct {
	level slog.Level
	text  string
}

// LoadTools verifies the plugins of file and returns their tools, with what an
// operator should know of them. Nothing is compiled and no ledger is opened.
func LoadTools(_ context.Context, file string, o Options) (*plugins.Snapshot, []string, error) {
	cfg, err := LoadConfig(file, o)
	if err != nil {
		return nil, nil, err
	}
	s, messages, err := loadPlugins(cfg)
	if err != nil {
		return nil, nil, err
	}
	var texts []string
	for _, m := range messages {
		texts = append(texts, m.text)
	}
	return s, texts, nil
}

func loadPlugins(cfg *config.Config) (*plugins.Snapshot, []message, error) {
	trust, err := loadTrust(cfg)
	if err != nil {
		return nil, nil, err
	}
	var (
		loaded   []*plugins.Plugin
		messages []message
	)
	if trust.AllowUnsigned {
		messages = append(messages, message{slog.LevelWarn,
			"[trust].allow_unsigned is on: plugins that nobody vouches for are loaded; for development only"})
	}
	var errs []error // of every plugin: a host file is mended in one go
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		l, err := plugins.Load(p.Path, loadOptions(cfg, trust, p, i))
		if err == nil {
			err = checkPlaces(cfg, i)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		loaded = append(loaded, l)
		if l.TrustedBy == plugins.TrustedByOptIn {
			messages = append(messages, message{slog.LevelWarn,
				fmt.Sprintf("plugin %s (%s) is not signed", l.Manifest.ID, l.Dir)})
		}
		if text := withoutNetwork(l); text != "" {
			messages = append(messages, message{slog.LevelWarn, text})
		}
		if lines := l.MissingGrants(); lines != "" {
			messages = append(messages, message{slog.LevelInfo,
				fmt.Sprintf("plugin %s asks for more than it is granted; to grant it, add to its [[plugin]]:\n%s", l.Manifest.ID, lines)})
		}
		for _, what := range wasm.NeedsGrant(l) {
			messages = append(messages, message{slog.LevelInfo, fmt.Sprintf("plugin %s: %s", l.Manifest.ID, what)})
		}
	}
	messages = append(messages, doubtfulSecrets(loaded)...)
	declared, err := declaredPlugins(cfg)
	if err := errors.Join(append(errs, checkSandboxPlaces(cfg), err)...); err != nil {
		return nil, nil, err
	}
	s, err := plugins.NewSnapshot(append(loaded, declared...))
	if err != nil {
		return nil, nil, err
	}
	return s, messages, nil
}

// declaredPlugins are those of the tools that the host file declares itself.
func declaredPlugins(cfg *config.Config) ([]*plugins.Plugin, error) {
	var out []*plugins.Plugin
	for _, d := range []struct {
		tools []plugins.HostTool
		make  func([]plugins.HostTool) (*plugins.Plugin, error)
	}{
		{cfg.ClientTools, plugins.NewClientPlugin},
		{cfg.DelegateTools, plugins.NewDelegatePlugin},
	} {
		if len(d.tools) == 0 {
			continue
		}
		p, err := d.make(d.tools)
		if err != nil {
			return nil, err
		}
		p.Dir = cfg.File
		out = append(out, p)
	}
	return out, nil
}

func loadTrust(cfg *config.Config) (plugins.Trust, error) {
	t := plugins.Trust{Revoked: cfg.Trust.Revoked, AllowUnsigned: cfg.Trust.AllowUnsigned}
	var errs []error
	for _, k := range cfg.Trust.Keys {
		key, err := plugins.LoadKey(k.File, k.Plugins)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.Keys = append(t.Keys, key)
	}
	return t, errors.Join(errs...)
}

func loadOptions(cfg *config.Config, trust plugins.Trust, p *config.Plugin, i int) plugins.LoadOptions {
	o := plugins.LoadOptions{
		Trust: trust, Pin: p.SHA256, Limits: cfg.Limits.Ceilings(),
		Recovery: p.Recovery, Names: p.Names, Clock: plugins.Clock(p.Clock), Random: p.Random, Warm: p.Warm,
		Source: fmt.Sprintf("%s: [[plugin]] %d (%s)", cfg.File, i+1, filepath.Base(p.Path)),
	}
	if p.Config != nil {
		o.Config = make(map[string]string, len(p.Config))
		for k, v := range p.Config {
			o.Config[k] = v.Reveal()
		}
	}
	o.Secrets = secretSources(cfg, p)
	if g := p.Grant; g != nil {
		o.Grant = &plugins.Grant{Hosts: g.Hosts, Commands: g.Commands}
		if g.Paths != nil {
			o.Grant.Paths = make(map[string]plugins.PathGrant, len(g.Paths))
			for guest, to := range g.Paths {
				host := to.Host
				if host != "" { // else it is a place in a sandbox
					host = resolved(host) // as it is now: a link that is changed later leads nowhere else
				}
				o.Grant.Paths[guest] = plugins.PathGrant{Host: host, Mode: to.Mode, MaxMiB: to.MaxMiB, MaxFiles: to.MaxFiles}
			}
		}
	}
	return o
}
