package standard

import (
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
)

func TestOpenEgress(t *testing.T) {
	limits := config.Egress{Timeout: time.Second, RequestMiB: 2, ResponseMiB: 3}
	g, err := openEgress(&config.Config{File: "host.toml", Egress: limits})
	if err != nil || g.MaxRequestBytes() != 2<<20 {
		t.Errorf("got %v, %v", g, err)
	}
	proxy := limits
	proxy.Proxy = config.NewSecret("http://us:hunter2@proxy")
	ca := limits
	ca.CAFile = t.TempDir()
	for key, bad := range map[string]config.Egress{"egress.proxy": proxy, "egress.ca_file": ca} {
		_, err := openEgress(&config.Config{File: "host.toml", Egress: bad})
		if ExitCode(err) != 2 || !strings.HasPrefix(err.Error(), "host.toml: "+key+": ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

func TestWithoutNetwork(t *testing.T) {
	hosts := plugins.Capabilities{Hosts: []string{"a.example:443"}}
	for _, tt := range []struct {
		abi  plugins.ABI
		may  plugins.Capabilities
		told bool
	}{{plugins.ABIWASI, hosts, true}, {plugins.ABIWASI, plugins.Capabilities{}, false}, {plugins.ABIExtism, hosts, false}} {
		p := &plugins.Plugin{Manifest: &plugins.Manifest{ID: "t", Module: plugins.Module{ABI: tt.abi}}, Effective: tt.may}
		if text := withoutNetwork(p); (text != "") != tt.told {
			t.Errorf("%s with %v: %q", tt.abi, tt.may, text)
		}
	}
}
