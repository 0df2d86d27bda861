package policy

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoffFrom is the first pause after a download that failed, where Poll is longer.
const backoffFrom = 5 * time.Second

// poll downloads a bundle again and again, until ctx ends. After a failure it tries
// sooner, with pauses that double up to Poll.
func (g *Gate) poll(ctx context.Context, b *bundleSource) {
	failures := 0
	if !b.problemFree() {
		failures = 1
	}
	for sleep(ctx, pause(b.o.Poll, failures, rand.Float64())) { //nolint:gosec // nobody gains by guessing it
		before := b.newest()
		err := b.check(ctx)
		if ctx.Err() != nil {
			return
		}
		after := b.newest()
		switch {
		case err != nil:
			failures++
			g.metrics.fetches.WithLabelValues(b.o.Name, resultFailed).Inc()
			g.noteBundle(b)
			g.writeStatus(true)
			continue
		case before != nil && after.content == before.content:
			g.metrics.fetches.WithLabelValues(b.o.Name, resultUnchanged).Inc()
			g.noteBundle(b)
			g.confirmed(b)
			g.writeStatus(true)
		default:
			g.metrics.fetches.WithLabelValues(b.o.Name, resultOK).Inc()
			g.noteBundle(b)
			select {
			case g.changed <- struct{}{}:
			default: // it is about to look anyway
			}
		}
		failures = 0
	}
}

// pause is how long to wait before the next download: a tenth more or less, so that
// many hosts do not ask at once. chance is from 0 to 1.
func pause(poll time.Duration, failures int, chance float64) time.Duration {
	d := poll
	if failures > 0 {
		d = min(poll, backoffFrom<<min(failures-1, 16))
	}
	return time.Duration(float64(d) * (0.9 + 0.2*chance))
}
