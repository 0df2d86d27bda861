package hand

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/awaken-agents/awaken-host/batch"
)

// eventually is for what takes as long as the machine is busy.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// A supervisor that is killed takes its command along, with what left its session; the
// command has failed, and the Hand runs the next one.
func TestKilledSupervisor(t *testing.T) {
	w, key := commandWorld(t)
	const mark = "7107.5"
	args, err := json.Marshal(sh("setsid sleep " + mark + " & sleep " + mark))
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		out *batch.Output
		err error
	}
	ended := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		out, err := w.invoke(ctx, w.params(key, "run"), string(args))
		ended <- result{out, err}
	}()
	eventually(t, "both sleep", func() bool { return sleeping(t, "sleep\x00"+mark) == 2 })
	killed := 0
	for _, p := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if p.parent == w.cmd.Process.Pid && strings.Contains(string(line), SuperviseArg) {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("there are %d supervisors", killed)
	}
	r := <-ended
	if r.err != nil {
		t.Fatal(r.err)
	}
	if text := r.out.Text(); !strings.Contains(text, "its supervisor died") {
		t.Errorf("it does not say why: %s", text)
	}
	eventually(t, "nothing of the command runs", func() bool { return sleeping(t, mark) == 0 })
	if got := w.command(key, sh("echo next")); got.Stdout != "next\n" {
		t.Errorf("the next command: %+v", got)
	}
}

// What is dropped out of the middle begins and ends between characters.
func TestOutputIsCutBetweenCharacters(t *testing.T) {
	w, key := commandWorld(t)
	got := w.command(key, sh(`printf x; i=0; z=ž; while [ $i -lt 15 ]; do z=$z$z; i=$((i+1)); done; printf %s $z $z $z $z $z $z; printf y`))
	const all = 1 + 6*(1<<15)*2 + 1
	if !got.StdoutTruncated || len(got.StdoutBase64) > 0 || !utf8.ValidString(got.Stdout) {
		t.Fatalf("truncated %t, %d bytes in base64, text %t", got.StdoutTruncated, len(got.StdoutBase64), utf8.ValidString(got.Stdout))
	}
	if middle := strings.TrimSuffix(strings.TrimPrefix(got.Stdout, "x"), "y"); strings.Trim(middle, "ž") != "" || len(middle) != len(got.Stdout)-2 {
		t.Errorf("it is not what was written: %.20q…", got.Stdout)
	}
	// One half of a character on either side of the gap.
	if len(got.Stdout) != maxCaptured-2 || got.StdoutDropped != all-int64(len(got.Stdout)) {
		t.Errorf("%d bytes are kept and %d dropped of %d", len(got.Stdout), got.StdoutDropped, all)
	}
}
