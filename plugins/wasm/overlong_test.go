package wasm

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// One call of a function of the host can be asked to do more than there is time for.
// It ends with the call it belongs to.
func TestHostFunctionsEndWithTheirCall(t *testing.T) {
	for _, export := range []string{"one_line", "short_lines", "random"} {
		t.Run(export, func(t *testing.T) {
			p := newPlugin(guest(t, "overlong.wat"), plugins.ABIExtism, tool(export))
			p.Effective.MemoryMiB = 128
			redactor := &plugins.Redactor{}
			g := newRig(t, newRuntime(t, Options{Redactor: redactor, Logger: logTo(io.Discard)}), p)
			if err := g.r.Load(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			p.Effective.Timeout = time.Second
			done := make(chan time.Duration)
			go func() {
				start := time.Now()
				out, err := g.exec.Invoke(context.Background(), g.newCall(export, `{}`))
				if err != nil {
					t.Error(err)
				} else {
					bad(t, out, "timeout of 1s")
				}
				done <- time.Since(start)
			}()
			select {
			case took := <-done:
				if took > 3*time.Second {
					t.Errorf("it ended after %v", took)
				}
				t.Log(took)
			case <-time.After(20 * time.Second):
				t.Fatal("it has not ended after 20s")
			}
		})
	}
}
