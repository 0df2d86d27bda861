package wasm

import (
	"context"
	"sync"
	"time"
)

// throttle limits how fast the instances of one plugin are made anew when they keep
// dying: a plugin that traps or times out in every call may not keep the host busy
// with making instances. Whoever makes an instance pays, and gets it back when its
// call ends in order; so a plugin that works is never slowed down. It is safe for
// concurrent use.
type throttle struct {
	perSecond float64
	most      float64

	mu   sync.Mutex
	left float64
	at   time.Time // when left was last brought up to date
	said time.Time // when it was last reported
}

func newThrottle(perSecond, most int) *throttle {
	return &throttle{perSecond: float64(perSecond), most: float64(most), left: float64(most), at: time.Now()}
}

// pay takes one, or returns how long that will take at least.
func (t *throttle) pay() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.left = min(t.most, t.left+now.Sub(t.at).Seconds()*t.perSecond)
	t.at = now
	if t.left >= 1 {
		t.left--
		return 0
	}
	return max(time.Duration((1-t.left)/t.perSecond*float64(time.Second)), time.Millisecond)
}

// back returns one that was paid.
func (t *throttle) back() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = min(t.most, t.left+1)
}

// charge takes one that was not paid, because an instance died later. It may leave
// a debt.
func (t *throttle) charge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left--
}

// wait pays, when it can. slow is called before it has to wait, once a minute.
func (t *throttle) wait(ctx context.Context, slow func()) error {
	for {
		d := t.pay()
		if d == 0 {
			return nil
		}
		if t.report() {
			slow()
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (t *throttle) report() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.said.IsZero() && now.Sub(t.said) < time.Minute {
		return false
	}
	t.said = now
	return true
}
