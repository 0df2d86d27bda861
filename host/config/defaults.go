package config

import (
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Defaults of keys that stand inside lists, where there is no value to start from.
const (
	defaultPathMode     = "ro"
	defaultArgumentsMiB = 4
	defaultParallel     = true
	defaultPoll         = time.Minute
	defaultFetchTimeout = 10 * time.Second
	defaultBundleMiB    = 16
	defaultClock        = string(plugins.ClockReal)
	defaultRandom       = "real"
)

// defaults is the configuration of an empty file, file names not yet joined with
// its folder.
func defaults() *Config {
	return &Config{
		DataDir: ".awaken",
		Store:   Store{Sync: true, MinFreeMiB: 64},
		Tickets: Tickets{Timeout: 7 * day},
		Policy:  Policy{Paths: []string{"policy"}, Deadline: 100 * time.Millisecond, Log: defaultPolicyLog(), Watch: 2 * time.Second},
		Limits: Limits{
			MemoryMiB:    plugins.DefaultLimits.MemoryMiB,
			Timeout:      plugins.DefaultLimits.Timeout,
			OutputMiB:    plugins.DefaultLimits.OutputMiB,
			ArgumentsMiB: defaultArgumentsMiB,

			QueuedCalls:    1000,
			CompileTimeout: time.Minute,
		},
		Egress:  Egress{Timeout: 30 * time.Second, RequestMiB: 8, ResponseMiB: 8},
		Sandbox: defaultSandbox(),
		Serve:   Serve{Bind: "127.0.0.1:8421"},
	}
}
