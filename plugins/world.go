package plugins

import (
	"fmt"
	"strconv"
	"strings"
)

// Clock is what the clocks of a plugin's guests show.
type Clock string

// The clocks. The empty Clock is ClockReal.
const (
	ClockReal Clock = "real"
	// ClockCoarse is the real time in steps of 100 ms, too coarse to measure what a
	// computation of somebody else takes.
	ClockCoarse Clock = "coarse"
	// ClockFixed is for tests. The time of day is always 2000-01-01 00:00:00 UTC, the
	// monotonic clock of an instance starts at 0 and goes on by 1 ms with each look,
	// and a sleep takes no time but moves it on.
	ClockFixed Clock = "fixed"
)

// Clocks lists the clocks that an operator can choose from.
func Clocks() []string { return []string{string(ClockReal), string(ClockCoarse), string(ClockFixed)} }

// Random is where the random bytes of a plugin's guests come from. The zero value
// is the operating system.
type Random struct {
	Seeded bool   // every instance gets the same bytes, for tests
	Seed   uint64 // decides which
}

const seedPrefix = "seed:"

// ParseRandom reads "real", "seed:<n>" with n from 0 to 2^64-1, or nothing, which is
// "real".
func ParseRandom(s string) (Random, error) {
	if s == "" || s == "real" {
		return Random{}, nil
	}
	if digits, ok := strings.CutPrefix(s, seedPrefix); ok {
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			return Random{Seeded: true, Seed: n}, nil
		}
	}
	return Random{}, fmt.Errorf(`%q is not a source of randomness: write "real", or "seed:" and a number from 0 to 18446744073709551615`, clip(s, 80))
}

// String is what ParseRandom reads.
func (r Random) String() string {
	if !r.Seeded {
		return "real"
	}
	return seedPrefix + strconv.FormatUint(r.Seed, 10)
}
