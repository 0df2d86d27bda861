package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Outcomes of an attempt to get out of a boundary.
const (
	denied    = "denied"    // what it tried is refused
	contained = "contained" // it ran into a limit, or what it did reaches no further than the sandbox
	open      = "open"      // nothing prevents it
)

// escape is one attempt, and what must come of it.
type escape struct {
	name    string
	tries   string // for the table
	attempt func(w *escapeWorld) []string
	want    map[string]string // by tier; a tier that is not named: denied
	// secret lets the call read a secret first; alone gives it a boundary of its own,
	// for what may take the boundary with it.
	secret, alone bool
	// ends says how the call ends: empty, by itself; "cancel"; "timeout".
	ends string
	// judge says what came of it where the program cannot know. Nil: what it says.
	judge func(w *escapeWorld, r ran, err error) (outcome, detail string)
	// after looks at what is outside once it is over.
	after func(w *escapeWorld, outcome string)
}

// outcome is what must come of it in a tier.
func (e *escape) outcome(tier string) string {
	if o := e.want[tier]; o != "" {
		return o
	}
	return denied
}

// EscapeLimits are small, so that reaching them takes nothing from the machine.
var escapeLimits = sandbox.InstanceLimits{MemoryMiB: 256, PIDs: 128, WorkspaceMiB: 32, TempMiB: 16}

// Escapes runs a hostile program inside a boundary of the tier. Whatever it tries must
// come out as the table of docs/SECURITY.md says, and leave nothing.
func Escapes(t *testing.T, s Setup) {
	t.Helper()
	s.Spec.Limits = escapeLimits
	w := newEscapeWorld(t, s)
	for i := range escapes {
		e := &escapes[i]
		t.Run(strings.ReplaceAll(e.name, " ", "-"), func(t *testing.T) {
			w.t = t
			w.try(e)
		})
	}
	w.t = t
}

func (w *escapeWorld) try(e *escape) {
	t := w.t
	if w.b == nil || e.alone {
		w.renew()
	}
	w.b.t = t
	w.mark = newNonce()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tool, c := "run", command{Argv: append([]string{"sh", "-c", `exec ./escape "$@"`, "sh"}, e.attempt(w)...)}
	if e.secret {
		tool = "run_with_secret"
	}
	if e.ends != "" {
		c.Argv[2] = `./escape "$@"; sleep 1000`
	}
	switch e.ends {
	case "timeout":
		c.TimeoutMS = 1500
	case "cancel":
		time.AfterFunc(1500*time.Millisecond, cancel)
	}
	r, err := w.b.runAs(ctx, tool, c)
	if r.Error != "" {
		t.Fatalf("the command was not run: %s", r.Error)
	}
	judge := e.judge
	if judge == nil {
		judge = said
	}
	tier := w.setup.Tier.Name()
	outcome, detail := judge(w, r, err)
	t.Logf("%s: %s", outcome, detail)
	// What is open depends, where there is no boundary, on who runs the test.
	if want := e.outcome(tier); outcome != want && (tier != sandbox.TierLocal || want != open) {
		t.Errorf("in tier %s it is %s, must be %s: %s", tier, outcome, want, detail)
	}
	if e.after != nil {
		e.after(w, outcome)
	}
	if left := running(t, w.mark); len(left) > 0 && outcome != open {
		t.Errorf("it is over, and these run: %v", left)
	}
	if e.alone {
		w.close()
	}
}

// said is what the program says of itself, if it lived to say it.
func said(w *escapeWorld, r ran, err error) (outcome, detail string) {
	w.t.Helper()
	if err != nil {
		if !errors.Is(err, sandbox.ErrLost) {
			w.t.Fatalf("the call failed: %v", err)
		}
		ended := w.b.waitDone()
		if reason := sandbox.ReasonOf(ended); reason != sandbox.ReasonMemory {
			w.t.Errorf("the boundary ended: %v", ended)
		}
		return contained, fmt.Sprintf("the boundary ended: %v", ended)
	}
	switch {
	case r.Limit != "":
		return contained, r.Limit
	case r.Signal != "" || r.ExitCode > 128:
		return contained, fmt.Sprintf("ended with status %d %s", r.ExitCode, r.Signal)
	}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	var answer struct{ Outcome, Detail string }
	if e := json.Unmarshal([]byte(lines[len(lines)-1]), &answer); e != nil {
		w.t.Fatalf("the program said %q and %q with status %d: %v", r.Stdout, r.Stderr, r.ExitCode, e)
	}
	return answer.Outcome, answer.Detail
}

// judgeFlood is content with an answer that is bounded.
func judgeFlood(w *escapeWorld, r ran, err error) (outcome, detail string) {
	size := len(r.Stdout) + len(r.StdoutBase64) + len(r.Stderr)
	if err != nil || !r.StdoutTruncated || !r.StderrTruncated || size > 4<<20 {
		w.t.Errorf("truncated %t and %t, %d bytes, %v", r.StdoutTruncated, r.StderrTruncated, size, err)
		return open, fmt.Sprintf("%d bytes came", size)
	}
	return contained, fmt.Sprintf("%d bytes came, %d were dropped from standard output", size, r.StdoutDropped)
}

// judgeDaemon looks for what stays.
func judgeDaemon(w *escapeWorld, r ran, err error) (outcome, detail string) {
	if err == nil && !r.TimedOut {
		if o, d := said(w, r, err); o != open {
			w.t.Fatalf("no process stayed in the first place: %s", d)
		}
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if len(running(w.t, w.mark)) == 0 {
			return contained, "all of it ended with the call"
		}
	}
	left := running(w.t, w.mark)
	for _, pid := range left {
		kill(w.t, pid)
	}
	return open, fmt.Sprintf("%d processes stayed", len(left))
}

// judgeHares looks more than once: one look may miss what is never long in one process.
func judgeHares(w *escapeWorld, r ran, err error) (outcome, detail string) {
	for looks := 0; ; looks++ {
		if outcome, detail = judgeDaemon(w, r, err); outcome == open {
			return outcome, detail
		}
		if looks == 20 {
			return outcome, detail
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// judgeForgery asks the ledger for what the attempt rewrote.
func judgeForgery(w *escapeWorld, r ran, err error) (outcome, detail string) {
	_, detail = said(w, r, err)
	record := w.b.ledger(w.genuine)
	raw, jsonErr := json.Marshal(record)
	if jsonErr != nil {
		w.t.Fatal(jsonErr)
	}
	if bytes.Contains(raw, []byte(forgery)) {
		return open, "the ledger believes it"
	}
	// Where the kernel has Landlock it comes not so far.
	return contained, fmt.Sprintf("%s; the ledger says attempt %d, done %t", detail, record.Attempt, record.Done)
}

const genuineText, forgery = "the-genuine-answer", "the-forgery-answer"

// unchanged holds the file of the host to what it was.
func unchanged(w *escapeWorld, outcome string) {
	got, err := os.ReadFile(w.file)
	if outcome != open && (err != nil || string(got) != canaryFile) {
		w.t.Errorf("the host's file holds %q: %v", got, err)
	}
	if err := os.WriteFile(w.file, []byte(canaryFile), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// notByLinks reads, from outside, the links that an attempt left in the workspace.
func notByLinks(w *escapeWorld, _ string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for _, name := range []string{"link-0", "link-1"} {
		if got, err := w.b.get(ctx, sandbox.MethodGet, sandbox.FileParams{Path: name}); err == nil {
			w.t.Errorf("reading the file %s of the workspace gave %d bytes", name, len(got))
		}
	}
	packed, err := w.b.get(ctx, sandbox.MethodHarvest, sandbox.FileParams{Path: sandbox.WorkspaceDir})
	if err != nil {
		w.t.Errorf("harvesting: %v", err)
	}
	if bytes.Contains(packed, []byte(canaryFile)) {
		hard, _ := filepath.Glob(filepath.Join(w.b.spec.Workspace, "hard-*"))
		if len(hard) == 0 || w.setup.Tier.Name() != sandbox.TierLocal { // where it may link the file, it is one of the workspace
			w.t.Error("the harvested workspace holds a file of the host's")
		}
	}
}

// stillThere looks for the process of the host's.
func stillThere(w *escapeWorld, outcome string) {
	if outcome != open && len(running(w.t, w.process)) == 0 {
		w.t.Error("the host's process is gone")
	}
}
