package standard

import (
	"fmt"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// openEgress makes the one way out for what plugins request.
func openEgress(cfg *config.Config) (*egress.Guard, error) {
	c := cfg.Egress
	o := egress.Options{
		Timeout: c.Timeout, MaxRequestBytes: int64(c.RequestMiB) << 20, MaxResponseBytes: int64(c.ResponseMiB) << 20,
	}
	var err error
	if proxy := c.Proxy.Reveal(); proxy != "" {
		if o.Proxy, err = plugins.ParseProxy(proxy); err != nil {
			return nil, setupError{fmt.Errorf("%s: egress.proxy: %w", cfg.File, err)}
		}
	}
	if c.CAFile != "" {
		if o.Roots, err = egress.LoadRoots(c.CAFile); err != nil {
			return nil, setupError{fmt.Errorf("%s: egress.ca_file: %w", cfg.File, err)}
		}
	}
	g, err := egress.New(o)
	if err != nil {
		return nil, setupError{fmt.Errorf("%s: %w", cfg.File, err)}
	}
	return g, nil
}

// withoutNetwork tells who has granted hosts to a plugin that cannot use them.
func withoutNetwork(p *plugins.Plugin) string {
	if p.Manifest.Module.ABI != plugins.ABIWASI || len(p.Effective.Hosts) == 0 {
		return ""
	}
	return fmt.Sprintf("plugin %s (%s) has abi = \"wasi\", which has no network: the hosts that it is granted have no effect", p.Manifest.ID, p.Dir)
}
