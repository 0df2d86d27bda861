package sandbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// logText is a log that is read while others write it.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestSlowStart: an engine that hangs is named in the log, once, and a call that is
// told to stop meanwhile was not dispatched.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		tier := newFakeTier("slow")
		tier.startErr = func(n int) error {
			if n == 1 {
				<-hangs
				return errors.New("it was given up")
			}
			return nil
		}
		var log logText
		w := newFakeWorld(t, tier, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.x.Invoke(ctx, w.request("r", 1))
			ended <- err
		}()
		time.Sleep(slowStart - time.Millisecond)
		synctest.Wait()
		if log.String() != "" {
			t.Errorf("too early: %s", log.String())
		}
		time.Sleep(20 * slowStart)
		synctest.Wait()
		for _, want := range []string{"level=WARN", `msg="a sandbox is still being started"`, "environment=e-", "tier=slow", `waits_for="slow to start it"`, "since=5s"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("it is not there once: %s in\n%s", want, log.String())
			}
		}
		stop(errors.New("the host stops"))
		err := <-ended
		wantKind(t, err, batch.ToolErrorUnavailable)
		if !strings.Contains(err.Error(), "the host stops") {
			t.Error(err)
		}
		close(hangs)
		synctest.Wait()
		time.Sleep(longestRetry)
		w.mustRun("r", 1)
		if strings.Count(log.String(), "still being started") != 1 {
			t.Error(log.String())
		}
		if err := w.m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
