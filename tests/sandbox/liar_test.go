package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// liar builds the program that stands in for a Hand that was taken over.
var liar = sync.OnceValues(func() (string, error) {
	file := filepath.Join(filepath.Dir(binary), "liar")
	build := exec.Command("go", "build", "-trimpath", "-o", file, "./sandbox/sandboxtest/liar")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return file, nil
})

// What a host may take to live with a Hand that lies: of what a Hand sends it reads
// no more than a result may have, here 1 MiB.
const (
	liarMemory = 250 << 20 // bytes resident, of which most is the policy engine's
	liarTime   = time.Minute
)

// TestHandThatLies runs hosts whose Hand was taken over, once for each misdeed. What
// comes of the call is stated, the host stays small, and the next call is made.
func TestHandThatLies(t *testing.T) {
	hand, err := liar()
	if err != nil {
		t.Fatal(err)
	}
	const indeterminate, completed = "indeterminate", "completed"
	for _, c := range []struct {
		misdeed, phase string
		failed         bool
		says           []string
		never          string
	}{
		{misdeed: "honest", phase: completed, says: []string{"honest"}},
		{misdeed: "another call's output", phase: indeterminate, failed: true, says: []string{`output of call \"another\"`}, never: "not mine"},
		{misdeed: "another tier", phase: completed, says: []string{"I am in a container"}}, // which tier() contradicts
		{misdeed: "another plugin's state", phase: completed, failed: true, says: []string{"another/counter"}},
		{misdeed: "many blocks", phase: indeterminate, failed: true, says: []string{"result cannot be read", "more than 10000 blocks"}, never: "forged"},
		{misdeed: "many commands", phase: indeterminate, failed: true, says: []string{"result cannot be read", "more than 10000 commands"}},
		{misdeed: "no end", phase: indeterminate, failed: true, says: []string{"result cannot be read", "larger than"}},
		{misdeed: "long failure", phase: indeterminate, failed: true, says: []string{"žž"}},
		{misdeed: "unknown failure", phase: indeterminate, failed: true, says: []string{"all went well"}},
		{misdeed: "events", phase: completed, says: []string{"loud"}},
		{misdeed: "what is not its own", phase: completed, says: []string{
			"a secret of another's: operation another/1/0: no such call runs", "a secret of a call that has ended: operation lies/1/0: no such call runs",
			"a secret that was not given: the secret", "a connection of another's: operation another", "a connection of a call that has ended: operation lies/1/0",
			"a connection: sandboxes have no network here", "a request: sandboxes have no network here", "what is for a host to ask: a host does not serve",
		}, never: "GOT"},
		{misdeed: "requests", phase: indeterminate, failed: true, says: []string{"did not end it at its timeout"}},
		{misdeed: "deaf", phase: indeterminate, failed: true, says: []string{"did not end it at its timeout"}},
		{misdeed: "long frame", phase: indeterminate, failed: true, says: []string{"does not speak the protocol"}},
		{misdeed: "no frame", phase: indeterminate, failed: true, says: []string{"does not speak the protocol", "Traceback"}},
		{misdeed: "never opened", phase: indeterminate, failed: true, says: []string{"request 4242, which was never opened"}},
		{misdeed: "its end", phase: completed, failed: true, says: []string{"nothing ran", "ended with status 3"}},
		{misdeed: "its end, once it had begun", phase: indeterminate, failed: true, says: []string{"ended with status 3"}},
	} {
		t.Run(c.misdeed, func(t *testing.T) {
			w := newWorld(t, "local", fmt.Sprintf("hand_bin = %q\n[limits]\ntimeout = \"1s\"\noutput_mib = 1\n", hand), "guests/exec")
			do := func(id, what string) call { return call{id, "exec__run", map[string]any{"argv": []string{what}}} }
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := w.command(ctx, message(t, do("before", "honest"), do("lie", c.misdeed), do("after", "honest")), "-q", "run", "--run", "lies", "-")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			begun := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			resident := mostResident(cmd.Process.Pid)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			took := time.Since(begun)
			t.Logf("%d MiB, %s", resident>>20, took.Round(time.Millisecond))
			var r result
			if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || len(r.Results) != 3 {
				t.Fatalf("%v in %s", err, &stdout)
			}
			for _, i := range []int{0, 2} {
				if got := r.Results[i]; got.IsError || got.tier() != "local" || !strings.Contains(string(got.Content), "honest") {
					t.Errorf("call %s: %+v: %.300s", got.CallID, got.tier(), got.Content)
				}
			}
			got := r.Results[1]
			if got.Phase != c.phase || got.IsError != c.failed || c.phase == completed && !c.failed && got.tier() != "local" {
				t.Errorf("it is %s, error %t, tier %q: %.300s", got.Phase, got.IsError, got.tier(), got.Content)
			}
			for _, s := range c.says {
				if !strings.Contains(string(got.Content), s) {
					t.Errorf("it does not say %q: %.600s", s, got.Content)
				}
			}
			if c.never != "" && strings.Contains(string(got.Content), c.never) {
				t.Errorf("it says %q: %.600s", c.never, got.Content)
			}
			if len(got.Content) > 200<<10 {
				t.Errorf("it says %d bytes", len(got.Content))
			}
			if resident > liarMemory {
				t.Errorf("the host had %d MiB", resident>>20)
			}
			if took > liarTime {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// mostResident watches a process until it ends, and returns the most bytes that it had
// in memory: what wait tells is that of the process that started it, if that had more.
func mostResident(pid int) (most int64) {
	for ; ; time.Sleep(5 * time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, line, found := strings.Cut(string(status), "VmHWM:")
		if err != nil || !found { // it has ended
			return most
		}
		n, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
		if err == nil {
			most = max(most, n<<10)
		}
	}
}
