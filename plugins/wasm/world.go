package wasm

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	mathrand "math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/awaken-agents/awaken-host/plugins"
)

// realWorld is what a guest gets where the operator says nothing: true clocks, where
// wazero's defaults are the same for every instance; so is its randomness, which
// worldOf adds. No arguments, environment or files.
var realWorld = wazero.NewModuleConfig().WithSysWalltime().WithSysNanotime()

// coarseStep is what coarse clocks go on by.
const coarseStep = 100 * time.Millisecond

// fixedDay is the time of day that a fixed clock shows, and fixedStep what a look at
// its monotonic clock takes.
const fixedStep = time.Millisecond

var fixedDay = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// worldOf is the world of one instance of p: its clocks, its randomness, and the
// given nap's sleep where the clocks are real.
func worldOf(p *plugins.Plugin, n *nap) wazero.ModuleConfig {
	random := rand.Reader
	if p.Random.Seeded {
		random = seeded(p.Random.Seed)
	}
	config := realWorld.WithRandSource(restless{n, random})
	switch p.Clock {
	case plugins.ClockCoarse:
		config = config.WithWalltime(coarseWalltime, sys.ClockResolution(coarseStep)).
			WithNanotime(coarseNanotime, sys.ClockResolution(coarseStep))
	case plugins.ClockFixed:
		c := &fixedClock{}
		return config.WithWalltime(fixedWalltime, sys.ClockResolution(fixedStep)).
			WithNanotime(c.look, sys.ClockResolution(fixedStep)).WithNanosleep(c.sleep)
	}
	return config.WithNanosleep(n.sleep)
}

// restless reads in pieces, and no further once the nap's call is over: a guest can
// ask for as many random bytes at once as it has memory, which takes seconds.
type restless struct {
	nap *nap
	io.Reader
}

const randomPiece = 1 << 20

func (r restless) Read(p []byte) (int, error) {
	if r.nap.ctx.Err() != nil {
		return 0, errEnded
	}
	return r.Reader.Read(p[:min(len(p), randomPiece)])
}

// began is what the coarse monotonic clock counts from.
var began = time.Now()

func coarseWalltime() (sec int64, nsec int32) {
	t := time.Now()
	steps := t.Nanosecond() / int(coarseStep) // at most 9
	return t.Unix(), int32(min(max(steps, 0), 9)) * int32(coarseStep)
}

func coarseNanotime() int64 { return int64(time.Since(began).Truncate(coarseStep)) }

func fixedWalltime() (sec int64, nsec int32) { return fixedDay.Unix(), 0 }

// fixedClock is the monotonic clock of one instance, whose calls follow one another.
type fixedClock struct{ now int64 }

func (c *fixedClock) look() int64 {
	now := c.now
	c.now += int64(fixedStep)
	return now
}

// sleep takes no time, so that there is none to bound.
func (c *fixedClock) sleep(ns int64) { c.now += max(ns, 0) }

// seeded returns the same bytes for the same seed, in this release and in others.
func seeded(seed uint64) io.Reader {
	return mathrand.NewChaCha8(sha256.Sum256(binary.BigEndian.AppendUint64([]byte("awaken-host random "), seed)))
}
