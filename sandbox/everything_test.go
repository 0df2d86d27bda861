package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Calls, releases, files and the reaper meet in every order, with too few places, starts
// that fail and idle times that are over at once. Whatever comes of a call, nothing runs
// twice under one name, nothing hangs, and nothing is left.
func TestEverythingAtOnce(t *testing.T) {
	for _, name := range []string{TierDocker, TierKube} {
		t.Run(name, func(t *testing.T) {
			tier := newFakeTier(name)
			tier.carry = name == TierKube
			tier.startErr = func(n int) error {
				if n%7 == 0 {
					return &UnavailableError{Tier: name, Reason: ReasonStart, What: "every seventh", Transient: true}
				}
				return nil
			}
			w := newFakeWorld(t, tier, func(o *Options) { o.MaxReady, o.Warm, o.Idle = 3, 2, time.Millisecond })
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() { w.m.Watch(ctx) })
			var ran, step atomic.Int64
			for range 8 {
				all.Go(func() {
					for ctx.Err() == nil {
						session := fmt.Sprint("r", rand.IntN(6))
						switch rand.IntN(8) {
						case 0:
							if err := w.m.Release(ctx, session, true); err != nil && ctx.Err() == nil {
								t.Errorf("release: %v", err)
							}
						case 1:
							if f, err := w.m.Files(session); err == nil && !tier.carry {
								_ = f.Put(ctx, "a/b", 0, strings.NewReader(session)) // it may be released meanwhile
								_, _ = f.Get(ctx, "a/b", io.Discard)
							}
						case 2:
							if err := w.m.Reap(ctx); err != nil && ctx.Err() == nil {
								t.Errorf("reap: %v", err)
							}
						default:
							call, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(400))*time.Millisecond)
							out, err := w.x.Invoke(call, w.request(session, int(step.Add(1))))
							stop()
							if err == nil && !out.IsError {
								ran.Add(1)
							} else if err != nil && strings.Contains(err.Error(), "its name is taken") {
								t.Errorf("one Environment was started twice: %v", err)
							}
						}
					}
				})
			}
			all.Wait()
			for until := time.Now().Add(30 * time.Second); ran.Load() == 0; {
				if _, err := w.invoke("last", int(step.Add(1))); err == nil {
					break
				} else if time.Now().After(until) {
					t.Fatalf("no call ran: %v", err)
				}
			}
			closing, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
			defer stop()
			if err := w.m.Close(closing); err != nil {
				t.Fatal(err)
			}
			if _, err := w.invoke("late", 1); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			if _, running := tier.count(); running != 0 || w.m.started != 0 {
				t.Errorf("%d run, and %d are counted", running, w.m.started)
			}
		})
	}
}
