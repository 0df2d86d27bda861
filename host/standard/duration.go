package standard

import (
	"time"

	"github.com/awaken-agents/awaken-host/host/config"
)

// ParseDuration reads a duration as a host.toml has it: Go's, and before them a
// number of days of 24 hours, such as "30d" or "1d12h".
func ParseDuration(s string) (time.Duration, error) { return config.ParseDuration(s) }

// FormatDuration writes what ParseDuration reads.
func FormatDuration(d time.Duration) string { return config.FormatDuration(d) }
