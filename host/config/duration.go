package config

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var errDuration = errors.New("not a duration")

// ParseDuration reads Go's durations and, before them, a number of days of 24
// hours: "100ms", "60s", "30d", "1d12h".
func ParseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, errDuration
		}
		return d, nil
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, errDuration
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	tail, err := time.ParseDuration(rest)
	if err != nil || tail < 0 || d+tail < d || rest[0] == '+' {
		return 0, errDuration
	}
	return d + tail, nil
}

// FormatDuration writes what ParseDuration reads, as short as a person would.
func FormatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
