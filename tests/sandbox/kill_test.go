package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

const patience = time.Minute

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// newMark is in the arguments of the processes of one command, which are processes of
// this machine in every tier.
func newMark() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return "m" + hex.EncodeToString(b)
}

func arguments(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
}

// marked are the shells and sleepers of a command; who only passes the script on is
// not one of them.
func marked(mark string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range found {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if line := arguments(pid); pid != os.Getpid() && strings.Contains(line, mark) && strings.HasPrefix(line, "sh ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// handOf is the Hand that a process descends from.
func handOf(t testing.TB, pid int) int {
	t.Helper()
	for pid > 1 {
		line := arguments(pid)
		program, rest, _ := strings.Cut(line, " ")
		if name := filepath.Base(program); (name == "hand" || name == "awaken-hand") && strings.HasPrefix(rest, "serve") {
			return pid
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no Hand is found on this machine")
	return 0
}

// slow is a call with an effect that counts, and a mark while it goes on.
func slow(mark string) call { return lasting(mark, 1000) }

func lasting(mark string, seconds int) call {
	script := fmt.Sprintf("echo once >> effect.txt; sleep %d; echo done; : %s", seconds, mark)
	return call{"slow", "exec__run", map[string]any{"argv": []string{"sh", "-c", script}}}
}

// begun is a host in the middle of that call.
type begun struct {
	*world
	mark   string
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func begin(t testing.TB, tier string) *begun {
	t.Helper()
	return beginWith(t, tier, settings(t, tier), 1000)
}

// beginWith is begin with the tier's lines of host.toml, and how long the call lasts.
func beginWith(t testing.TB, tier, lines string, seconds int) *begun {
	t.Helper()
	b := &begun{world: newWorldWith(t, tier, "", lines, "guests/exec", "plugins/workspace"), mark: newMark()}
	b.cmd = b.command(context.Background(), message(t, lasting(b.mark, seconds)), "-q", "run", "--run", "killed", "-")
	b.cmd.Stdout, b.cmd.Stderr = &b.stdout, &b.stderr
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill() // it may have ended
		_ = b.cmd.Wait()
	})
	eventually(t, "the command runs", func() bool { return len(marked(b.mark)) > 0 })
	return b
}

// settle lets the next call begin with what an earlier process left: it is removed
// before the call is made.
func (b *begun) settle() {
	b.t.Helper()
	b.batch("after", call{"list", "workspace__list", map[string]string{}})
	eventually(b.t, "nothing of the first call runs", func() bool { return len(marked(b.mark)) == 0 })
}

// stated holds what is known of the call to what must be: indeterminate, done once,
// and nothing of it left.
func (b *begun) stated(raw []byte) {
	b.t.Helper()
	var r result
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Results) != 1 {
		b.t.Fatalf("%v in %q\n%s", err, raw, &b.stderr)
	}
	if got := r.Results[0]; r.Phase != "finalized" || got.Phase != "indeterminate" {
		b.t.Errorf("the call is %+v, %s", got, got.Content)
	}
	b.t.Logf("%s", r.Results[0].Content)
	if left := marked(b.mark); len(left) > 0 {
		b.t.Errorf("these processes of it run: %v", left)
	}
	// A new sandbox does the next call, on the same files where they were kept.
	next := b.batch("killed", call{"list", "workspace__list", map[string]string{}})
	if got := next.Results[0]; got.IsError || got.tier() != b.tier {
		b.t.Errorf("the next call: %s in tier %q", got.Content, got.tier())
	}
	once := strings.Contains(string(next.Results[0].Content), `"bytes":5`)
	if none := compact(b.t, next.Results[0].Content) == `[{"json":{"files":[]},"type":"json"}]`; !once && (!none || b.tier != "k8s") {
		b.t.Errorf("the effect is not there once: %s", next.Results[0].Content)
	}
}

// TestKilledHost kills the host in the middle of a call in every tier. The next one
// says that nobody knows what came of it, makes it not again, and leaves nothing of it.
func TestKilledHost(t *testing.T) {
	for _, tier := range tiers {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			b := begin(t, tier)
			if err := b.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = b.cmd.Wait() // it was killed
			b.stated(b.must(message(t, slow(b.mark)), "-q", "run", "--run", "killed", "--step", "1", "-"))
		})
	}
}

// TestKilledHand kills the Hand in the middle of a call in every tier: the host says at
// once what became of it.
func TestKilledHand(t *testing.T) {
	for _, tier := range tiers {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			b := begin(t, tier)
			if err := syscall.Kill(handOf(t, marked(b.mark)[0]), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := b.cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &b.stderr)
			}
			b.stated(b.stdout.Bytes())
		})
	}
}

// TestKilledContainer removes the container behind the host's back.
func TestKilledContainer(t *testing.T) {
	for _, tier := range []string{"docker", "podman"} {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			b := begin(t, tier)
			var engine []string
			if tier == "docker" {
				d := sandboxtest.NeedDocker(t)
				engine = []string{d.Binary, "--host", d.Host}
			} else {
				p := sandboxtest.NeedPodman(t)
				engine = append([]string{p.Binary}, p.Args...)
			}
			client := func(args ...string) string {
				out, err := exec.CommandContext(t.Context(), engine[0], append(engine[1:], args...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			id := containerOf(t, marked(b.mark)[0], strings.Fields(client("ps", "-q", "--no-trunc")))
			client("rm", "-f", id)
			if err := b.cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &b.stderr)
			}
			b.stated(b.stdout.Bytes())
		})
	}
}

// containerOf is the container that a process is in.
func containerOf(t testing.TB, pid int, all []string) string {
	t.Helper()
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range all {
		if strings.Contains(string(groups), id) {
			return id
		}
	}
	t.Fatalf("process %d is in none of the containers %v: %s", pid, all, groups)
	return ""
}
