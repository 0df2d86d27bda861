package namespace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// A host that is killed leaves no process, whichever thread asked for the sandbox,
// and a cgroup that is found by its labels.
func TestKilledHost(t *testing.T) {
	needBwrap(t)
	if id := os.Getenv("NAMESPACE_TEST_HOST"); id != "" {
		hostToBeKilled(t, id)
	}
	id := fmt.Sprintf("killed-%d", os.Getpid())
	host := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledHost$")
	host.Env = append(os.Environ(), "NAMESPACE_TEST_HOST="+id)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	tier := New(Options{})
	found, err := tier.Leftovers(t.Context(), id)
	if err != nil || len(found) != 1 || found[0].Labels.Session != "s1" {
		t.Fatalf("while it runs: %+v, %v", found, err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	for deadline := time.Now().Add(30 * time.Second); runs(id); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the sandbox survives its host")
		}
	}
	found, err = tier.Leftovers(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range found {
		if err := tier.Remove(t.Context(), l); err != nil {
			t.Error(err)
		}
	}
	if found, err := tier.Leftovers(t.Context(), id); err != nil || len(found) != 0 {
		t.Errorf("after Remove: %+v, %v", found, err)
	}
}

// runs says whether a process is called id, or has it in its environment.
func runs(id string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range append(files, lines...) {
		if strings.HasPrefix(f, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			continue
		}
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), id) {
			return true
		}
	}
	return false
}

func hostToBeKilled(t *testing.T, id string) {
	tier := New(Options{})
	spec := specOf(t, tier, script(t, "setsid sleep 1000 & echo begun; exec sleep 1000"))
	spec.Labels.Host = id
	spec.Env = []string{"MARKED=" + id}
	i := make(chan sandbox.Instance)
	go func() {
		// The thread of this goroutine ends with it, and the sandbox must not.
		runtime.LockOSThread()
		started, err := tier.Start(t.Context(), spec)
		if err != nil {
			panic(err)
		}
		i <- started
	}()
	_, _ = io.Copy(os.Stdout, (<-i).Channel())
}

// A host of an ordinary user has the same boundary.
func TestOrdinaryUser(t *testing.T) {
	needBwrap(t)
	if os.Geteuid() != 0 {
		return // all other tests are of an ordinary user then
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "namespace.test")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(self, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.timeout=2m", "-test.run=^(TestFilesystem|TestSyscalls|TestKilledHost|TestForkBomb)$/^rlimit$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "CI=true"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "--- PASS") < 5 {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func TestExplain(t *testing.T) {
	const noNamespace = "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."
	for said, c := range map[string]struct {
		setting, value string
		reason         sandbox.Reason
		remedy         string
	}{
		noNamespace:       {"kernel/unprivileged_userns_clone", "0", sandbox.ReasonDenied, "kernel.unprivileged_userns_clone=1"},
		noNamespace + " ": {"", "", sandbox.ReasonDenied, "outside of a container"},
		"bwrap: Creating new namespace failed: No space left on device":        {"user/max_user_namespaces", "0", sandbox.ReasonDenied, "user.max_user_namespaces=10000"},
		"bwrap: Creating new namespace failed: No space left on device\n":      {"user/max_user_namespaces", "100", sandbox.ReasonDenied, "too many user namespaces"},
		"bwrap: setting up uid map: Permission denied":                         {"kernel/apparmor_restrict_unprivileged_userns", "1", sandbox.ReasonDenied, "AppArmor"},
		"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted":         {"kernel/apparmor_restrict_unprivileged_userns", "1", sandbox.ReasonDenied, "AppArmor"},
		"bwrap: Can't mount proc on /newroot/proc: Operation not permitted":    {"", "", sandbox.ReasonDenied, "hides parts of /proc"},
		"bwrap: Unknown option --disable-userns":                               {"", "", sandbox.ReasonTool, "0.8.0"},
		"bwrap: Unexpected capabilities but not setuid, old file caps config?": {"", "", sandbox.ReasonTool, "chmod u-s"},
		"bwrap: execvp /awaken/hand: No such file or directory":                {"", "", sandbox.ReasonStart, "static"},
		"bwrap: Can't find source path /x: No such file or directory":          {"", "", sandbox.ReasonStart, ""},
		"bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces.  bwrap must be installed setuid on such systems.": {"", "", sandbox.ReasonUnsupported, "user namespaces"},
	} {
		e := explain(said, func(name string) string {
			if name == c.setting {
				return c.value
			}
			return ""
		})
		if e.Reason != c.reason || !strings.Contains(e.Remedy, c.remedy) || !strings.Contains(e.Error(), strings.TrimSpace(said)) {
			t.Errorf("%s: %v", said, e)
		}
	}
}

// Where the kernel gives no more namespaces, here since this runs in a sandbox itself,
// that is what is said.
func TestNestedIsRefused(t *testing.T) {
	needBwrap(t)
	got := inside(t, nil, "bwrap --unshare-all --ro-bind / / true")
	if e := explain(strings.TrimSpace(got), sysctl); e.Reason != sandbox.ReasonDenied || e.Remedy == "" {
		t.Errorf("bwrap said %q: %v", got, e)
	}
}

// A Hand that ends at once, or becomes another program, did start.
func TestShortHand(t *testing.T) {
	needBwrap(t)
	tier := New(Options{})
	for range 20 {
		for _, text := range []string{"exit 3", "exec sleep 0.001"} {
			i := start(t, tier, specOf(t, tier, script(t, text)))
			<-i.Done()
			if err := i.Ended(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonExited {
				t.Errorf("%s: %v", text, err)
			}
			stop(t, i)
		}
	}
	i := specOf(t, tier, filepath.Join(t.TempDir(), "hand"))
	if err := os.WriteFile(i.Hand, []byte("#!/no/such/program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := tier.Start(t.Context(), i); sandbox.ReasonOf(err) != sandbox.ReasonStart {
		t.Errorf("what cannot be run: %v", err)
	}
}

func TestMissingProgram(t *testing.T) {
	tier := New(Options{Program: filepath.Join(t.TempDir(), "bwrap")})
	if err := tier.Check(t.Context()); sandbox.ReasonOf(err) != sandbox.ReasonTool || !strings.Contains(err.Error(), "apt-get install bubblewrap") {
		t.Errorf("Check = %v", err)
	}
}

// BenchmarkStart is the cold start, to the first byte of the program inside, beside
// bubblewrap's own with the same namespaces.
func BenchmarkStart(b *testing.B) {
	needBwrap(b)
	tier := New(Options{})
	hand := script(b, "echo")
	b.Run("tier", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			spec := specOf(b, tier, hand)
			b.StartTimer()
			i, err := tier.Start(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(i.Channel(), make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			stop(b, i)
			b.StartTimer()
		}
	})
	b.Run("bwrap", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
				"--as-pid-1", "--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
				"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/sh", "-c", "echo")
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
