package sandbox

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledBeforeCommit kills a host that has not heard yet that its call is done: it
// stands still while the Hand ends the call and records it. The next host publishes
// what was recorded, and the call is not made again.
func TestKilledBeforeCommit(t *testing.T) {
	const (
		lasts  = 3               // seconds
		record = 2 * time.Second // ample for the Hand to answer the guest, and to record
	)
	for _, tier := range tiers {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			b := beginWith(t, tier, settings(t, tier), lasts)
			if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command ends by itself", func() bool { return len(marked(b.mark)) == 0 })
			time.Sleep(record)
			if err := b.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = b.cmd.Wait() // it was killed
			if b.stdout.Len() > 0 {
				t.Fatalf("the host published before it was killed: %s", &b.stdout)
			}
			out := b.must(message(t, lasting(b.mark, lasts)), "-q", "run", "--run", "killed", "--step", "1", "-")
			var r result
			if err := json.Unmarshal(out, &r); err != nil || len(r.Results) != 1 {
				t.Fatalf("%v in %s", err, out)
			}
			got := r.Results[0]
			if r.Phase != "finalized" || got.Phase != "completed" || got.IsError || got.tier() != tier || !strings.Contains(string(got.Content), "done") {
				t.Errorf("the recorded call is %+v in tier %q: %s", got, got.tier(), got.Content)
			}
			next := b.batch("killed", call{"list", "workspace__list", map[string]string{}}).Results[0]
			if next.IsError || !strings.Contains(string(next.Content), `"bytes":5`) {
				t.Errorf("the effect is not there once: %s", next.Content)
			}
		})
	}
}
